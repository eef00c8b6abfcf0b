# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""The plugin's Triton kernels, in the interpreter, against the package's reference tree, mask and walk."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton", reason="triton is not installed")

from ddtree.sglang import kernels
from ddtree.tree import NONE, ancestor_mask, build_tree, build_tree_reference, child_links, top_candidates
from ddtree.verify import walk

POISON = -77


def run_build(log_probs: torch.Tensor, ids: torch.Tensor, bonus: torch.Tensor, rows: int, force_spine: bool = False):
    batch = log_probs.shape[0]

    def out(dtype: torch.dtype) -> torch.Tensor:
        return torch.full((batch, rows), POISON, dtype=dtype)

    tree = {
        "token": out(torch.int64),
        "parent": out(torch.int32),
        "depth": out(torch.int32),
        "next_token": out(torch.int64),
        "next_sibling": out(torch.int64),
    }
    kernels.build_tree(log_probs, ids, bonus, force_spine=force_spine, **tree)
    return tree


def random_marginals(batch: int, depth: int, width: int, generator: torch.Generator, *, ties: bool):
    logits = torch.randn(batch, depth, 64, generator=generator) * 3
    if ties:
        logits = logits.round()
    return top_candidates(logits, width)


@pytest.mark.parametrize(
    ("batch", "depth", "width", "budget", "ties"),
    [
        (2, 15, 8, 16, False),
        (3, 15, 16, 64, False),
        (1, 7, 4, 31, True),
        (2, 5, 5, 20, True),
        (1, 3, 2, 40, False),  # only 14 candidates exist: fillers
        (1, 15, 1, 15, False),  # the chain
        (1, 15, 12, 127, False),
    ],
)
def test_tree_equals_reference(batch: int, depth: int, width: int, budget: int, ties: bool) -> None:
    generator = torch.Generator().manual_seed(budget)
    log_probs, ids = random_marginals(batch, depth, width, generator, ties=ties)
    bonus = torch.randint(0, 64, (batch,), generator=generator)
    tree = run_build(log_probs, ids.to(torch.int32), bonus, budget + 1)
    expected = build_tree(bonus, log_probs, ids, budget)
    assert torch.equal(tree["token"], expected.tokens)
    assert torch.equal(tree["parent"].long(), expected.parents)
    assert torch.equal(tree["depth"].long(), expected.depths)
    assert torch.equal(tree["next_token"], expected.first_child)
    assert torch.equal(tree["next_sibling"], expected.next_sibling)
    nodes = build_tree_reference(log_probs[0].tolist(), ids[0].tolist(), budget)
    assert tree["token"][0, 1 : len(nodes) + 1].tolist() == [n.token for n in nodes]
    assert tree["parent"][0, 1 : len(nodes) + 1].tolist() == [n.parent for n in nodes]


def test_impossible_candidates_become_fillers() -> None:
    log_probs = torch.full((1, 4, 3), -torch.inf)
    log_probs[0, :2, 0] = -0.5
    ids = torch.arange(12, dtype=torch.int32).view(1, 4, 3)
    tree = run_build(log_probs, ids, torch.tensor([9]), 6)
    assert tree["parent"].tolist() == [[-1, 0, 1, -1, -1, -1]]
    assert tree["next_token"].tolist() == [[1, 2, -1, -1, -1, -1]]
    assert tree["next_sibling"].tolist() == [[-1] * 6]


def test_force_spine_keeps_the_whole_chain() -> None:
    generator = torch.Generator().manual_seed(5)
    log_probs, ids = random_marginals(2, 15, 8, generator, ties=False)
    log_probs[:, 10, :] -= 30.0  # a position that best-first search never reaches
    rows = 25
    plain = run_build(log_probs, ids.to(torch.int32), torch.tensor([1, 2]), rows)
    spine = run_build(log_probs, ids.to(torch.int32), torch.tensor([1, 2]), rows, force_spine=True)
    assert plain["depth"].max() <= 10
    for request in range(2):
        assert spine["depth"][request, :16].tolist() == list(range(16))
        assert spine["token"][request, 1:16].tolist() == ids[request, :, 0].tolist()
        parents = spine["parent"][request].long()[None]
        first, sibling = child_links(parents, torch.ones_like(parents, dtype=torch.bool))
        assert torch.equal(first[0], spine["next_token"][request])
        assert torch.equal(sibling[0], spine["next_sibling"][request])
        # The rest is the best-first order of what the chain left over.
        score = [0.0]
        for node in range(1, rows):
            rank = int((ids[request, spine["depth"][request, node] - 1] == spine["token"][request, node]).nonzero()[0])
            score.append(score[parents[0, node]] + float(log_probs[request, spine["depth"][request, node] - 1, rank]))
        assert all(a >= b - 1e-6 for a, b in zip(score[16:], score[17:]))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("ranks", [1, 2])
def test_topk_is_exact_over_shards(dtype: torch.dtype, ranks: int) -> None:
    """bf16 logits tie often: order must be by value, then by lowest id, across blocks and shards."""
    rows, vocab, k = 3, 5000, 8
    generator = torch.Generator().manual_seed(ranks)
    logits = (torch.randn(rows, vocab, generator=generator) * 2).to(dtype)
    logits[0, 4] = logits[0].max() + 1
    logits[0, 4998] = logits[0, 4]
    logits[1, 17] = -0.0
    values, ids = torch.sort(logits.float(), dim=-1, descending=True, stable=True)
    expected = values[:, :k] - logits.float().logsumexp(-1, keepdim=True)

    shard_values, shard_ids, shard_lse = [], [], []
    for rank in range(ranks):
        shard = logits[:, rank * vocab // ranks : (rank + 1) * vocab // ranks]
        splits = kernels.topk_splits(shard.shape[1])
        partial = {
            "value": torch.empty(rows, splits, k),
            "index": torch.empty(rows, splits, k, dtype=torch.int32),
            "part_max": torch.empty(rows, splits),
            "part_sum": torch.empty(rows, splits),
        }
        kernels.topk_partial(shard, index_start=rank * vocab // ranks, k=k, **partial)
        merged = {
            "logprob": torch.empty(rows, k),
            "ids": torch.empty(rows, k, dtype=torch.int32),
            "lse": torch.empty(rows),
        }
        kernels.topk_merge(**partial, rows=rows, splits=splits, k=k, split_major=False, normalise=ranks == 1, **merged)
        shard_values.append(merged["logprob"])
        shard_ids.append(merged["ids"])
        shard_lse.append(merged["lse"])
    if ranks > 1:  # what the worker does after its all-gather
        merged = {
            "logprob": torch.empty(rows, k),
            "ids": torch.empty(rows, k, dtype=torch.int32),
            "lse": torch.empty(rows),
        }
        kernels.topk_merge(
            torch.stack(shard_values),
            torch.stack(shard_ids),
            torch.stack(shard_lse),
            torch.ones(ranks, rows),
            rows=rows,
            splits=ranks,
            k=k,
            split_major=True,
            normalise=True,
            **merged,
        )
    assert torch.equal(merged["ids"].long(), ids[:, :k])
    torch.testing.assert_close(merged["logprob"], expected, rtol=1e-5, atol=1e-5)


def test_prepare_verify_writes_tails_only() -> None:
    generator = torch.Generator().manual_seed(3)
    budget, seq_lens = 12, torch.tensor([5, 9, 3])
    log_probs, ids = random_marginals(3, 7, 4, generator, ties=False)
    tree = build_tree(torch.zeros(3, dtype=torch.int64), log_probs, ids, budget)
    rows = budget + 1
    req_to_token = torch.arange(4 * 40, dtype=torch.int32).view(4, 40)
    pool = torch.tensor([2, 0, 3])
    positions = torch.full((3, rows), POISON, dtype=torch.int64)
    cache_loc = torch.full((3, rows), POISON, dtype=torch.int64)
    mask = torch.full((int(((seq_lens + rows) * rows).sum()),), 7, dtype=torch.uint8)
    kernels.prepare_verify(
        tree.parents.int(),
        tree.depths.int(),
        seq_lens,
        pool,
        req_to_token,
        max_depth=7,
        positions=positions,
        cache_loc=cache_loc,
        mask=mask,
    )
    assert torch.equal(positions, tree.positions(seq_lens))
    expected_mask = ancestor_mask(tree.parents)
    base = 0
    for request, prefix in enumerate(seq_lens.tolist()):
        assert cache_loc[request].tolist() == req_to_token[pool[request], prefix : prefix + rows].tolist()
        cells = mask[base : base + rows * (prefix + rows)].view(rows, prefix + rows)
        assert torch.equal(cells[:, prefix:].bool(), expected_mask[request])
        assert (cells[:, :prefix] == 7).all()
        base += cells.numel()


@pytest.mark.parametrize("seed", range(6))
def test_accept_follows_the_reference_walk(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    batch, depth, block, budget = 3, 7, 8, 20
    log_probs, ids = random_marginals(batch, depth, 4, generator, ties=False)
    bonus = torch.randint(0, 64, (batch,), generator=generator)
    tree = build_tree(bonus, log_probs, ids, budget)
    rows = budget + 1
    # Mostly right choices, so that walks go deep, off the spine too.
    choices = torch.randint(0, 64, (batch, rows), generator=generator)
    for request in range(batch):
        for node in range(rows):
            children = (tree.parents[request] == node).nonzero().flatten()
            if len(children) and torch.rand((), generator=generator) < 0.85:
                pick = children[int(torch.randint(0, len(children), (), generator=generator))]
                choices[request, node] = tree.tokens[request, pick]
    seq_lens = torch.tensor([11, 4, 30])
    cache_loc = torch.randperm(1000, generator=generator)[: batch * rows].view(batch, rows) + 1
    out = {
        "accept_index": torch.full((batch, block), POISON, dtype=torch.int32),
        "out_token": torch.full((batch, block), POISON),
        "src_loc": torch.full((batch, block), POISON),
        "tgt_loc": torch.full((batch, block), POISON),
        "hidden_index": torch.full((batch, block), POISON),
        "commit_loc": torch.full((batch, block), POISON),
        "commit_positions": torch.full((batch, block), POISON),
        "accept_lens": torch.full((batch,), POISON, dtype=torch.int32),
        "bonus": torch.full((batch,), POISON),
        "new_seq_lens": torch.full((batch,), POISON),
    }
    kernels.accept(tree.tokens, tree.parents.int(), choices, cache_loc, seq_lens, **out)
    expected = walk(tree, choices)
    assert out["accept_lens"].tolist() == expected.lengths.tolist()
    assert out["bonus"].tolist() == expected.bonus.tolist()
    assert out["new_seq_lens"].tolist() == (seq_lens + expected.lengths).tolist()
    for request, length in enumerate(expected.lengths.tolist()):
        path = expected.path[request, :length]
        assert out["accept_index"][request].tolist() == (path + request * rows).tolist() + [NONE] * (block - length)
        assert out["out_token"][request, :length].tolist() == expected.tokens[request, :length].tolist()
        assert out["src_loc"][request].tolist() == cache_loc[request, path].tolist() + [0] * (block - length)
        assert out["tgt_loc"][request].tolist() == cache_loc[request, :length].tolist() + [0] * (block - length)
        assert out["hidden_index"][request, :length].tolist() == (path + request * rows).tolist()
        assert (out["hidden_index"][request, length:] == request * rows).all()
        assert torch.equal(out["commit_loc"][request], cache_loc[request, :block])
        assert out["commit_positions"][request].tolist() == list(range(seq_lens[request], seq_lens[request] + block))

    # A recorded walk that decides only the first request leaves the others alone.
    kernels.accept(
        tree.tokens, tree.parents.int(), choices, cache_loc, seq_lens, **out, live=torch.tensor([1], dtype=torch.int32)
    )
    assert out["accept_lens"].tolist() == [expected.lengths[0], 0, 0]
    assert out["new_seq_lens"].tolist() == [seq_lens[0] + expected.lengths[0], seq_lens[1], seq_lens[2]]
    assert (out["src_loc"][1:] == 0).all() and (out["tgt_loc"][1:] == 0).all()
    assert (out["accept_index"][1:] == NONE).all()
