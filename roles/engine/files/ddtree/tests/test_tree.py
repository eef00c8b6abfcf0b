# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""Tree building: the batched form against the heap, the heap against enumeration."""

from __future__ import annotations

import heapq
import itertools
import math

import pytest
import torch
from ddtree import tree as trees
from ddtree.tree import NONE


def candidates(seed: int, batch: int, depth: int, width: int, ties: bool = False, holes: bool = False):
    """Random sorted log-probabilities and token ids as `top_candidates` returns them."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(batch, depth, width + 3, generator=generator) * 2
    if ties:
        logits = logits.round()
    log_probs, ids = logits.log_softmax(-1).topk(width, dim=-1)
    if holes:  # masked vocabulary: from some rank on nothing is possible
        first = torch.randint(0, width + 1, (batch, depth, 1), generator=generator)
        log_probs = log_probs.masked_fill(torch.arange(width) >= first, -torch.inf)
    return log_probs, ids


def assert_agrees(log_probs: torch.Tensor, ids: torch.Tensor, budget: int) -> None:
    """Every field of every request of `build_tree` equals the heap's."""
    batch = len(log_probs)
    root = torch.arange(100, 100 + batch)
    tree = trees.build_tree(root, log_probs, ids, budget)
    assert tree.tokens.shape == (batch, budget + 1)
    assert tree.tokens[:, 0].tolist() == root.tolist()
    for request in range(batch):
        nodes = trees.build_tree_reference(log_probs[request].tolist(), ids[request].tolist(), budget)
        rows = slice(1, len(nodes) + 1)
        assert tree.parents[request, rows].tolist() == [node.parent for node in nodes]
        assert tree.ranks[request, rows].tolist() == [node.rank for node in nodes]
        assert tree.depths[request, rows].tolist() == [node.depth for node in nodes]
        assert tree.tokens[request, rows].tolist() == [node.token for node in nodes]
        assert tree.scores[request, rows].tolist() == [node.score for node in nodes]  # to the last bit
        assert tree.valid[request].tolist() == [True] * (len(nodes) + 1) + [False] * (budget - len(nodes))
        fillers = slice(len(nodes) + 1, None)
        assert (tree.parents[request, fillers] == NONE).all()
        assert (tree.scores[request, fillers] == -torch.inf).all()
        assert (tree.depths[request, fillers] == 0).all()
    first_child, next_sibling = trees.child_links(tree.parents, tree.valid)
    assert torch.equal(tree.first_child, first_child)
    assert torch.equal(tree.next_sibling, next_sibling)


@pytest.mark.parametrize("ties", [False, True], ids=["distinct", "ties"])
@pytest.mark.parametrize("holes", [False, True], ids=["full", "masked"])
@pytest.mark.parametrize("budget", [1, 2, 7, 16, 40])
def test_batched_form_agrees_with_the_heap(budget: int, ties: bool, holes: bool) -> None:
    for seed in range(12):
        depth, width, batch = 1 + seed, 1 + (5 * seed) % 9, 1 + seed % 4
        assert_agrees(*candidates(seed, batch, depth, width, ties, holes), budget)


def test_all_candidates_equal() -> None:
    """The hardest case for tie-breaking: every step of every depth has the same log-probability."""
    assert_agrees(torch.full((2, 4, 3), -1.0), torch.arange(24).view(2, 4, 3), 30)


def test_certain_drafts_of_probability_one() -> None:
    """Log-probability zero: children tie with their parents, and parents still come first."""
    log_probs = torch.tensor([[[0.0, -5.0], [0.0, -5.0], [0.0, -5.0]]])
    assert_agrees(log_probs, torch.arange(6).view(1, 3, 2), 6)


def test_a_block_of_published_size() -> None:
    assert_agrees(*candidates(5, 3, 15, 64), 128)


def test_fewer_candidates_than_budget_fills_up() -> None:
    log_probs = torch.log(torch.tensor([[[0.6, 0.3]]]))
    tree = trees.build_tree(torch.tensor([9]), log_probs, torch.tensor([[[4, 5]]]), 5)
    assert tree.valid.tolist() == [[True, True, True, False, False, False]]
    assert tree.tokens.tolist() == [[9, 4, 5, 0, 0, 0]]
    assert tree.mask()[0].int().tolist() == [
        [1, 0, 0, 0, 0, 0],
        [1, 1, 0, 0, 0, 0],
        [1, 0, 1, 0, 0, 0],
        [1, 0, 0, 1, 0, 0],
        [1, 0, 0, 0, 1, 0],
        [1, 0, 0, 0, 0, 1],
    ]
    assert tree.first_child[0].tolist() == [1, NONE, NONE, NONE, NONE, NONE]
    assert tree.next_sibling[0].tolist() == [NONE, 2, NONE, NONE, NONE, NONE]


def test_a_worked_example() -> None:
    """q_1 = (0.6, 0.3), q_2 = (0.7, 0.2): prefixes by probability a 0.6, ac 0.42, b 0.3, bc 0.21, ad 0.12, bd 0.06."""
    log_probs = torch.log(torch.tensor([[[0.6, 0.3], [0.7, 0.2]]]))
    tree = trees.build_tree(torch.tensor([0]), log_probs, torch.tensor([[[1, 2], [3, 4]]]), 5)
    assert tree.tokens[0].tolist() == [0, 1, 3, 2, 3, 4]
    assert tree.parents[0].tolist() == [NONE, 0, 1, 0, 3, 1]
    assert tree.depths[0].tolist() == [0, 1, 2, 1, 2, 2]
    assert tree.positions(torch.tensor([50]))[0].tolist() == [50, 51, 52, 51, 52, 52]
    assert tree.expected_acceptance()[0].item() == pytest.approx(1 + 0.6 + 0.42 + 0.3 + 0.21 + 0.12)
    assert tree.max_depth == 2


@pytest.mark.parametrize("seed", range(6))
def test_no_tree_of_this_size_is_better(seed: int) -> None:
    """Propositions 1 and 2: the tree holds the most probable prefixes of all, found here by enumeration."""
    depth, width, budget = 4, 3, 12
    log_probs, ids = candidates(seed, 1, depth, width)
    steps = log_probs[0].tolist()
    everything = sorted(
        (
            sum(steps[level][rank] for level, rank in enumerate(ranks))
            for length in range(1, depth + 1)
            for ranks in itertools.product(range(width), repeat=length)
        ),
        reverse=True,
    )
    nodes = trees.build_tree_reference(steps, ids[0].tolist(), budget)
    assert [node.score for node in nodes] == pytest.approx(everything[:budget], abs=1e-5)
    best = sum(math.exp(score) for score in everything[:budget])
    assert sum(math.exp(node.score) for node in nodes) == pytest.approx(best, rel=1e-5)


def test_same_set_as_the_papers_heap_over_rank_tuples() -> None:
    """Without ties the set and its order are those of the published algorithm, which identifies nodes by rank tuples."""
    for seed in range(10):
        log_probs, ids = candidates(seed, 1, 6, 5)
        steps = log_probs[0].double().tolist()
        heap, order = [(-steps[0][0], (0,))], []
        while heap and len(order) < 20:
            dummy, ranks = heapq.heappop(heap)
            order.append(ranks)
            if ranks[-1] + 1 < 5:
                sibling = (*ranks[:-1], ranks[-1] + 1)
                heapq.heappush(heap, (-sum(steps[d][r] for d, r in enumerate(sibling)), sibling))
            if len(ranks) < 6:
                child = (*ranks, 0)
                heapq.heappush(heap, (-sum(steps[d][r] for d, r in enumerate(child)), child))
        nodes = trees.build_tree_reference(steps, ids[0].tolist(), 20)
        tuples: list[tuple[int, ...]] = [()]
        for node in nodes:
            tuples.append((*tuples[node.parent], node.rank))
        assert tuples[1:] == order


@pytest.mark.parametrize("ties", [False, True])
def test_invariants_that_kernels_rely_on(ties: bool) -> None:
    tree = trees.build_tree(torch.zeros(3, dtype=torch.int64), *candidates(3, 3, 8, 6, ties), 32)
    for request in range(3):
        for row in range(1, 33):
            parent = int(tree.parents[request, row])
            assert 0 <= parent < row
            assert tree.depths[request, row] == tree.depths[request, parent] + 1
            assert tree.scores[request, row] <= tree.scores[request, parent]
            for link in (tree.first_child, tree.next_sibling):
                assert link[request, row] == NONE or link[request, row] > row
            sibling = int(tree.next_sibling[request, row])
            if sibling != NONE:
                assert tree.parents[request, sibling] == parent
                assert tree.ranks[request, sibling] == tree.ranks[request, row] + 1
        mask = tree.mask()[request]
        for row in range(33):
            ancestors, current = {row}, row
            while current:
                current = int(tree.parents[request, current])
                ancestors.add(current)
            assert set(mask[row].nonzero()[:, 0].tolist()) == ancestors


def test_scores_descend() -> None:
    tree = trees.build_tree(torch.zeros(2, dtype=torch.int64), *candidates(8, 2, 10, 10, ties=True), 50)
    assert (tree.scores[:, 1:] <= tree.scores[:, :-1]).all()


def test_chain_is_the_best_token_of_each_position() -> None:
    log_probs, ids = candidates(1, 2, 5, 3)
    chain = trees.chain_tree(torch.tensor([7, 8]), log_probs, ids)
    assert chain.tokens.tolist() == [[7, *ids[0, :, 0].tolist()], [8, *ids[1, :, 0].tolist()]]
    assert chain.parents[0].tolist() == [NONE, 0, 1, 2, 3, 4]
    assert torch.equal(chain.mask()[0], torch.ones(6, 6).tril().bool())
    assert torch.equal(chain.first_child, trees.child_links(chain.parents, chain.valid)[0])
    narrow = trees.build_tree(torch.tensor([7, 8]), log_probs[:, :, :1], ids[:, :, :1], 5)
    for name in ("tokens", "parents", "depths", "first_child", "next_sibling"):
        assert torch.equal(getattr(narrow, name), getattr(chain, name)), name


def test_root_alone() -> None:
    tree = trees.root_tree(torch.tensor([3, 4]))
    assert tree.tokens.tolist() == [[3], [4]]
    assert tree.mask().tolist() == [[[True]], [[True]]]
    assert tree.max_depth == 0
    assert tree.expected_acceptance().tolist() == [1.0, 1.0]


def test_top_candidates_normalise_over_the_whole_vocabulary() -> None:
    logits = torch.tensor([[[1.0, 3.0, 2.0, 0.0]]], dtype=torch.bfloat16)
    log_probs, ids = trees.top_candidates(logits, 2)
    assert ids.tolist() == [[[1, 2]]]
    assert log_probs.dtype == torch.float32
    assert torch.allclose(log_probs, torch.tensor([[[3.0, 2.0]]]) - torch.tensor([1.0, 3.0, 2.0, 0.0]).logsumexp(0))
    assert trees.top_candidates(logits, 99)[1].shape == (1, 1, 4)
