# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""The walk, and what happens to cache rows after it."""

from __future__ import annotations

import pytest
import torch
from ddtree.cache import RaggedKV
from ddtree.tree import NONE, build_tree, chain_tree, root_tree
from ddtree.verify import compaction_indices, walk, walk_reference


def some_tree(seed: int, batch: int = 4, budget: int = 24):
    """Trees over a vocabulary so small that random statements often find a child."""
    generator = torch.Generator().manual_seed(seed)
    log_probs, ids = torch.randn(batch, 6, 4, generator=generator).log_softmax(-1).sort(-1, descending=True)
    return build_tree(torch.zeros(batch, dtype=torch.int64), log_probs, ids, budget), generator


@pytest.mark.parametrize("seed", range(20))
def test_walk_agrees_with_the_link_walk(seed: int) -> None:
    tree, generator = some_tree(seed)
    choices = torch.randint(0, 4, tree.tokens.shape, generator=generator)
    result = walk(tree, choices)
    for request in range(4):
        path = walk_reference(tree, choices, request)
        assert result.path[request].tolist() == path + [NONE] * (result.path.shape[1] - len(path))
        assert result.lengths[request] == len(path)
        emitted = result.tokens[request, : len(path)].tolist()
        assert emitted == [int(choices[request, row]) for row in path]
        # All but the bonus are the tokens of the path below the root.
        assert emitted[:-1] == [int(tree.tokens[request, row]) for row in path[1:]]
        assert result.bonus[request] == emitted[-1]


def test_walk_takes_a_branch_that_is_not_the_best_child() -> None:
    log_probs = torch.log(torch.tensor([[[0.6, 0.3], [0.7, 0.2]]]))
    tree = build_tree(torch.tensor([0]), log_probs, torch.tensor([[[1, 2], [3, 4]]]), 5)
    choices = torch.tensor([[2, 0, 0, 3, 8, 0]])  # root -> 2 (row 3) -> 3 (row 4) -> 8
    result = walk(tree, choices)
    assert result.path.tolist() == [[0, 3, 4]]
    assert result.tokens.tolist() == [[2, 3, 8]]
    assert result.bonus.tolist() == [8]


def test_nothing_accepted_still_emits_one_token() -> None:
    tree, dummy = some_tree(0)
    result = walk(tree, torch.full_like(tree.tokens, 99))
    assert result.lengths.tolist() == [1, 1, 1, 1]
    assert result.tokens.tolist() == [[99]] * 4


def test_a_whole_chain_is_accepted() -> None:
    chain = chain_tree(torch.tensor([5]), torch.zeros(1, 3, 1), torch.tensor([[[6], [7], [8]]]))
    result = walk(chain, torch.tensor([[6, 7, 8, 9]]))
    assert result.lengths.tolist() == [4]
    assert result.tokens.tolist() == [[6, 7, 8, 9]]


def test_fillers_are_never_entered() -> None:
    """Fillers carry token 0 and no parent; a target that states 0 everywhere must not walk into them."""
    tree = build_tree(torch.tensor([1]), torch.zeros(1, 1, 1), torch.tensor([[[4]]]), 4)
    assert walk(tree, torch.zeros(1, 5, dtype=torch.int64)).lengths.tolist() == [1]


def test_plain_decoding_is_a_walk_over_the_root() -> None:
    result = walk(root_tree(torch.tensor([5, 6])), torch.tensor([[1], [2]]))
    assert result.tokens.tolist() == [[1], [2]]


def test_compaction_indices() -> None:
    path = torch.tensor([[0, 3, 4], [0, NONE, NONE], [0, 2, NONE]])
    requests, sources, targets = compaction_indices(path, torch.tensor([3, 1, 2]), torch.tensor([10, 4, 12]), 12)
    assert requests.tolist() == [0, 0, 0, 1, 2, 2]
    assert sources.tolist() == [12, 15, 16, 12, 12, 14]
    assert targets.tolist() == [10, 11, 12, 4, 12, 13]
    assert (sources >= targets).all()


def test_cache_keeps_what_lists_would_keep() -> None:
    """Rounds, joins and departures against plain Python lists of rows."""
    generator = torch.Generator().manual_seed(0)
    cache, expected = RaggedKV.empty(2, 2, torch.device("cpu")), [[], []]
    stamp = 0
    for step in range(40):
        batch, rows = len(expected), 1 + step % 5
        fresh = stamp + torch.arange(batch * rows).view(batch, 1, rows, 1).expand(-1, 2, -1, 3).float()
        stamp += batch * rows
        for layer in range(2):
            keys, values = cache.append(layer, fresh + layer / 4, -fresh)
            assert keys.shape[2] == cache.front + rows
            assert torch.equal(keys[:, :, cache.front :], fresh + layer / 4)
            assert torch.isfinite(values).all()
        counts = torch.randint(1, rows + 1, (batch,), generator=generator)
        picks = [sorted(torch.randperm(rows, generator=generator)[:count].tolist()) for count in counts.tolist()]
        width = max(map(len, picks))
        cache.commit(torch.tensor([pick + [NONE] * (width - len(pick)) for pick in picks]), counts)
        for request, pick in enumerate(picks):
            expected[request] += [float(fresh[request, 0, row, 0]) for row in pick]
        if step == 15:
            other = RaggedKV.empty(2, 1, torch.device("cpu"))
            for layer in range(2):
                other.append(layer, torch.full((1, 2, 3, 3), 7.0) + layer / 4, torch.full((1, 2, 3, 3), -7.0))
            other.commit(torch.tensor([[0, 1, 2]]), torch.tensor([3]))
            cache.extend(other)
            expected.append([7.0, 7.0, 7.0])
        if step == 25:
            cache.select([2, 0])
            expected = [expected[2], expected[0]]
        assert cache.lengths.tolist() == [len(rows) for rows in expected]
        assert cache.front == max(map(len, expected))
        for layer in range(2):
            stored, values = cache.append(
                layer, torch.zeros(len(expected), 2, 0, 3), torch.zeros(len(expected), 2, 0, 3)
            )
            for request, rows in enumerate(expected):
                assert stored[request, 1, : len(rows), 2].tolist() == [row + layer / 4 for row in rows]
                assert values[request, 0, : len(rows), 0].tolist() == [-row for row in rows]
                assert cache.prefix_mask()[request].tolist() == [True] * len(rows) + [False] * (cache.front - len(rows))


def test_cache_can_become_empty_and_be_used_again() -> None:
    cache = RaggedKV.empty(1, 1, torch.device("cpu"))
    cache.append(0, torch.ones(1, 1, 2, 2), torch.ones(1, 1, 2, 2))
    cache.commit(torch.tensor([[0, 1]]), torch.tensor([2]))
    cache.select([])
    assert (cache.front, len(cache.lengths)) == (0, 0)
    other = RaggedKV.empty(1, 1, torch.device("cpu"))
    other.append(0, torch.full((1, 1, 1, 2), 5.0), torch.ones(1, 1, 1, 2))
    other.commit(torch.tensor([[0]]), torch.tensor([1]))
    cache.extend(other)
    assert cache.append(0, torch.zeros(1, 1, 1, 2), torch.zeros(1, 1, 1, 2))[0][0, 0, 0].tolist() == [5.0, 5.0]
