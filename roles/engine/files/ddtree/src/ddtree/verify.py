# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""The walk over a verified draft tree, and where the accepted rows go.

The target runs once over the `N` rows of a tree. At every row it states which token it would emit next (its argmax, or
one sample of its distribution). The walk starts at the root and follows, as long as there is one, the child that
carries the token the target states at the current row. Everything on that path is text the target itself would
have produced; the statement at the path's last row, for which there is no child, is emitted as well (the "bonus").

So a path of `a` rows (root included) emits `a` tokens, of which `a - 1` were drafted, and `a` rows of the cache stay. `a` is
the acceptance length of the round: at least 1, at most the block size.

Why this is lossless for sampling: the statement at a row is one sample of the target's conditional distribution
given the row's path. The walk reads exactly one statement per emitted token, and which row it reads next depends only
on tokens emitted before. So each emitted token is a sample of the target's conditional, whatever the tree was; the
drafter's probabilities do not enter. (The classical rejection test min(1, p/q) would be wrong here: tree nodes are
the top candidates of marginals, not samples of q.)

Sources: DDTree paper, section 3 ("verification"); the greedy walk of `verify_tree_greedy` in sgl_kernel and its results'
layout in sglang/srt/speculative/eagle_utils.py.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ddtree.tree import NONE, DraftTree


@dataclass(frozen=True)
class Walk:
    """Result of a walk over `b` trees; `P` is the width of the longest path.

    * `path` int64 `[b, P]`: rows of the accepted path, root first, then `NONE`.
    * `lengths` int64 `[b]`: acceptance length of each request, the number of rows of its path.
    * `tokens` int64 `[b, P]`: tokens emitted, `tokens[r, :lengths[r]]`; the last is the bonus, the next round's root.
    """

    path: torch.Tensor
    lengths: torch.Tensor
    tokens: torch.Tensor

    @property
    def bonus(self) -> torch.Tensor:
        """Last token emitted by each request, int64 `[b]`."""
        return self.tokens.gather(1, self.lengths[:, None] - 1)[:, 0]


def walk(tree: DraftTree, choices: torch.Tensor) -> Walk:
    """Follow the target's statements down the trees.

    `choices` int64 `[b, N]`: the token that the target states after each row. All requests step together; one that
    has stopped stays on its last row.
    """
    batch = choices.shape[0]
    every = torch.arange(batch, device=choices.device)
    current = torch.zeros(batch, dtype=torch.int64, device=choices.device)
    walking = torch.ones(batch, dtype=torch.bool, device=choices.device)
    steps = [current]
    for dummy in range(tree.max_depth):
        wanted = choices[every, current]
        matches = (tree.parents == current[:, None]) & (tree.tokens == wanted[:, None]) & tree.valid
        walking = walking & matches.any(dim=1)
        current = torch.where(walking, matches.int().argmax(dim=1), current)
        steps.append(torch.where(walking, current, NONE))
    path = torch.stack(steps, dim=1)
    lengths = (path != NONE).sum(dim=1)
    path = path[:, : int(lengths.max())]
    tokens = choices.gather(1, path.clamp_min(0))
    return Walk(path=path, lengths=lengths, tokens=tokens)


def walk_reference(tree: DraftTree, choices: torch.Tensor, request: int) -> list[int]:
    """Rows of the accepted path of one request, by the child links, as the kernels of the serving engines walk."""
    path = [0]
    row = int(tree.first_child[request, 0])
    while row != NONE:
        if tree.tokens[request, row] == choices[request, path[-1]]:
            path.append(row)
            row = int(tree.first_child[request, row])
        else:
            row = int(tree.next_sibling[request, row])
    return path


def compaction_indices(
    path: torch.Tensor, lengths: torch.Tensor, prefix_lengths: torch.Tensor, front: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Which cache columns move where after a round.

    A round writes the `N` rows of a tree to the columns `front .. front + N - 1` of every request, where `front` is not below
    any committed length. Accepted row `path[r, i]` belongs at column `prefix_lengths[r] + i`. A row needs no new rotary
    position: it already was computed at `prefix + depth`, and `i` is its depth.

    Returns `(requests, sources, targets)`, int64 `[sum(lengths)]` each. Reading every source before writing any target is safe
    in place. Source columns are never below their targets.
    """
    order = torch.arange(path.shape[1], device=path.device)
    requests, index = torch.nonzero(order[None, :] < lengths[:, None], as_tuple=True)
    return requests, front + path[requests, index], prefix_lengths[requests] + index
