# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""Best-first draft trees from one block of DFlash marginals (DDTree, Algorithm 1).

A DFlash drafter gives, in one forward pass, a distribution `q_d` for each of the next `D = block_size - 1` positions.
The distributions are marginals: `q_d` does not know which token was chosen at `d - 1`. Under the factorised
distribution `Q(u_1..u_d) = q_1(u_1) * ... * q_d(u_d)` the expected number of accepted tokens of a tree `T` is the sum of
`Q(u)` over its nodes (Proposition 1), so the best tree of `B` nodes holds the `B` most probable prefixes. A prefix is
never less probable than its extensions, so that set is closed under taking parents (Proposition 2), and no token
outside the `min(B, |V|)` most probable of its position can be in it (Lemma 1).

Vocabulary used throughout the package:

* `B` (budget): nodes without the root. `N = B + 1`: rows that the target verifies. The root, row 0, is the last
  committed token; its own key and value are not in the cache yet.
* `D`: maximum depth of a node; `K`: candidates per depth, sorted from most to least probable; rank 0 is the best.
* score of a node: the sum of the log-probabilities along its path. Scores are float32 sums `parent + step`, in that
  order, in every implementation of this package: floating-point addition is not associative, and equal rounding is
  what lets two builders agree to the last bit.

Order and ties. Nodes are numbered in the order in which the best-first search takes them: a parent precedes its
children, a better-ranked sibling precedes a worse one. Each node taken so far offers exactly one candidate (its best
child not taken yet), so a candidate is named by its parent, and among candidates of equal score the one whose parent
has the lowest number wins. The paper's reference breaks exact ties by the tuple of ranks instead; both keep the
two orders above and give trees of equal total score.

`build_tree_reference` is the readable heap for one request; `build_tree` is the batched tensor form. They agree
exactly. Where fewer than `B` candidates exist (`K` or `D` small, or log-probabilities of minus infinity), the rest
of the `N` rows are fillers: not valid, without links, and visible only to themselves and the root.

Sources: DDTree paper, sections 3-4 and Algorithm 1 (liranringel/ddtree, ddtree.py); link layout as the kernels of
SGLang's EAGLE verification expect it (sglang/srt/speculative/eagle_utils.py).
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

NONE = -1
"""Marks "no parent", "no child", "no sibling" and unused rows in every index tensor of this package."""


@dataclass(frozen=True)
class Node:
    """One node of a reference tree. `parent` is a row number; row 0 is the root, so the first node is row 1."""

    parent: int
    rank: int
    depth: int
    token: int
    score: float


@dataclass(frozen=True)
class DraftTree:
    """Draft trees of `b` requests, padded to the same number of rows `N`.

    All tensors are `[b, N]` and lie on one device; column 0 is the root.

    * `tokens` int64: token of each row; 0 in fillers.
    * `parents` int64: row of the parent, `NONE` for the root and for fillers. `parents[i] < i`.
    * `depths` int64: 0 for the root; fillers carry 0.
    * `ranks` int64: rank of the row's token among its position's candidates; 0 for root and fillers.
    * `scores` float32: log-probability of the path; 0 for the root, minus infinity in fillers.
    * `first_child`, `next_sibling` int64: links to a higher row, or `NONE`.
    * `valid` bool: false in fillers.
    """

    tokens: torch.Tensor
    parents: torch.Tensor
    depths: torch.Tensor
    ranks: torch.Tensor
    scores: torch.Tensor
    first_child: torch.Tensor
    next_sibling: torch.Tensor
    valid: torch.Tensor

    @property
    def max_depth(self) -> int:
        """Depth of the deepest node of any request; 0 if there are only roots."""
        return int(self.depths.max())

    def mask(self) -> torch.Tensor:
        """Which rows see which: see `ancestor_mask`."""
        return ancestor_mask(self.parents, self.max_depth)

    def positions(self, prefix_lengths: torch.Tensor) -> torch.Tensor:
        """Positions of the rows in the text, int64 `[b, N]`: committed length of the request plus depth."""
        return prefix_lengths[:, None] + self.depths

    def expected_acceptance(self) -> torch.Tensor:
        """Expected tokens a round under the drafter's factorised distribution, float32 `[b]`: 1 + sum of Q(u)
        (Proposition 1; the 1 is the token that the target adds after the accepted path)."""
        return self.scores.exp().sum(dim=1)


def top_candidates(draft_logits: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The `K = min(count, V)` most probable tokens of every position of a block.

    `draft_logits` `[b, D, V]` in any floating type; the normalisation runs in float32 over the whole vocabulary.
    Returns log-probabilities float32 `[b, D, K]`, sorted from best to worst, and token ids int64 `[b, D, K]`.
    """
    logits = draft_logits.float()
    top, ids = logits.topk(min(count, logits.shape[-1]), dim=-1)
    return top - logits.logsumexp(dim=-1, keepdim=True), ids


def build_tree_reference(
    log_probs: Sequence[Sequence[float]], token_ids: Sequence[Sequence[int]], budget: int
) -> list[Node]:
    """Algorithm 1 for one request: the `budget` most probable prefixes, best first.

    `log_probs[d][r]` and `token_ids[d][r]` are the log-probability and the token of rank `r` at depth `d + 1`, sorted
    from best to worst. Returns the nodes of rows 1, 2, ... in order; fewer than `budget` when the candidates run out.
    """
    steps = [np.asarray(row, dtype=np.float32) for row in log_probs]
    nodes = [Node(parent=NONE, rank=0, depth=0, token=NONE, score=0.0)]
    heap: list[tuple[np.float32, int, int]] = []  # (-score, parent row, rank): the order of the module's docstring

    def offer(parent: int, rank: int) -> None:
        """Put the candidate "child of `parent` with this rank" on the heap, if there is one."""
        depth = nodes[parent].depth
        if depth < len(steps) and rank < len(steps[depth]) and steps[depth][rank] > -np.inf:
            score = np.float32(nodes[parent].score) + steps[depth][rank]
            heapq.heappush(heap, (-score, parent, rank))

    offer(0, 0)
    while heap and len(nodes) <= budget:
        negated, parent, rank = heapq.heappop(heap)
        depth = nodes[parent].depth + 1
        nodes.append(Node(parent, rank, depth, int(token_ids[depth - 1][rank]), float(-negated)))
        offer(parent, rank + 1)
        offer(len(nodes) - 1, 0)
    return nodes[1:]


def build_tree(root: torch.Tensor, log_probs: torch.Tensor, token_ids: torch.Tensor, budget: int) -> DraftTree:
    """Algorithm 1 for `b` requests at once, without a heap and without reading any value on the host.

    `root` int64 `[b]`: last committed token of each request. `log_probs` float32 and `token_ids` int64 `[b, D, K]`: from
    `top_candidates`, sorted along K. The search needs no heap because its frontier is "the next child of each row taken so
    far": every row has a cursor into the table of candidates, and the score that the child under its cursor would have.
    """
    batch, width = len(log_probs), log_probs.shape[2]
    device = log_probs.device
    rows = budget + 1

    # One table row per depth. A row at the depth limit has no children and a rank past the last has no candidate: an
    # extra row and an extra column of minus infinity stand for both, so that the loop needs no special case.
    stride = width + 1
    table = torch.nn.functional.pad(log_probs, (0, 1, 0, 1), value=-torch.inf).flatten(1)
    ids = torch.nn.functional.pad(token_ids, (0, 1, 0, 1)).flatten(1)

    scores = torch.full((batch, rows), -torch.inf, device=device)
    offers = scores.clone()  # score of the next child of each row
    cursors = torch.zeros((batch, rows), dtype=torch.int64, device=device)  # place of that child in the table
    parents, places = cursors.clone(), cursors.clone()  # of the rows themselves
    scores[:, 0] = 0.0
    offers[:, 0] = table[:, 0]

    for row in range(1, rows):
        own = slice(row, row + 1)
        parent = offers.argmax(dim=1, keepdim=True)  # the first maximum: the lowest parent on ties
        score = offers.gather(1, parent)
        place = cursors.gather(1, parent)
        parents[:, own], places[:, own], scores[:, own] = parent, place, score
        # The parent moves on to its next child. Once nothing is left (minus infinity) it must stay where it is.
        sibling = place + (score > -torch.inf)
        cursors.scatter_(1, parent, sibling)
        offers.scatter_(1, parent, scores.gather(1, parent) + table.gather(1, sibling))
        # The new row begins at the best candidate of the next depth.
        child = (place // stride + 1) * stride
        cursors[:, own] = child
        offers[:, own] = score + table.gather(1, child)

    valid = scores > -torch.inf
    drafted = valid.clone()
    drafted[:, 0] = False
    parents = torch.where(drafted, parents, NONE)
    ranks = torch.where(drafted, places % stride, 0)
    tokens = torch.where(drafted, ids.gather(1, places), 0)
    tokens[:, 0] = root
    siblings = (parents[:, :, None] == parents[:, None, :]) & drafted[:, :, None] & drafted[:, None, :]
    return DraftTree(
        tokens=tokens,
        parents=parents,
        depths=torch.where(drafted, places // stride + 1, 0),
        ranks=ranks,
        scores=scores,
        first_child=_row_of(drafted[:, None, :] & (parents[:, None, :] == _rows(parents)) & (ranks[:, None, :] == 0)),
        next_sibling=_row_of(siblings & (ranks[:, None, :] == ranks[:, :, None] + 1)),
        valid=valid,
    )


def _rows(table: torch.Tensor) -> torch.Tensor:
    """Row numbers as `[1, N, 1]`, to compare with `[b, 1, N]`."""
    return torch.arange(table.shape[1], device=table.device)[None, :, None]


def _row_of(matches: torch.Tensor) -> torch.Tensor:
    """Column of the match in each row of bool `[b, N, N]`, `NONE` where there is none."""
    return torch.where(matches.any(dim=2), matches.int().argmax(dim=2), NONE)


def chain_tree(root: torch.Tensor, log_probs: torch.Tensor, token_ids: torch.Tensor) -> DraftTree:
    """The draft of plain DFlash as a tree: one node per depth, the best token of each position.

    Arguments as for `build_tree`; the result has `N = D + 1` rows.
    """
    batch, depth_limit, dummy = log_probs.shape
    device = log_probs.device
    line = torch.arange(depth_limit + 1, device=device).expand(batch, -1)
    after = torch.where(line < depth_limit, line + 1, NONE)
    return DraftTree(
        tokens=torch.cat([root[:, None], token_ids[:, :, 0]], dim=1),
        parents=line - 1,
        depths=line.clone(),
        ranks=torch.zeros_like(line),
        scores=torch.cat([log_probs.new_zeros(batch, 1), log_probs[:, :, 0].cumsum(dim=1)], dim=1),
        first_child=after,
        next_sibling=torch.full_like(line, NONE),
        valid=torch.ones_like(line, dtype=torch.bool),
    )


def root_tree(root: torch.Tensor) -> DraftTree:
    """A tree of the root alone, `N = 1`: plain decoding in the terms of this package."""
    empty = root.new_zeros((root.shape[0], 0, 1))
    return chain_tree(root, empty.float(), empty)


def ancestor_mask(parents: torch.Tensor, levels: int | None = None) -> torch.Tensor:
    """Tree attention mask, bool `[b, N, N]`: row `i` sees column `j` iff `j` is `i` itself or an ancestor of `i`.

    Fillers (no parent, not row 0) see the root and themselves, so that no row of an attention is empty. All rows climb to
    the root together, `levels` steps (at least the deepest depth; by default as many as there can be).
    """
    batch, rows = parents.shape
    mask = torch.eye(rows, dtype=torch.bool, device=parents.device).repeat(batch, 1, 1)
    above = parents.clamp_min(0)  # the root is taken for its own parent
    current = above
    for dummy in range(max(rows - 1 if levels is None else levels, 1)):
        mask.scatter_(2, current[:, :, None], True)
        current = above.gather(1, current)
    return mask


def child_links(parents: torch.Tensor, valid: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """First-child and next-sibling links, int64 `[b, N]` each, from the parents alone.

    Children of one parent are linked in row order, which is rank order. `build_tree` keeps the links as it goes; this
    independent form serves trees that come from elsewhere and the tests.
    """
    batch, rows = parents.shape
    first_child = torch.full_like(parents, NONE)
    next_sibling = torch.full_like(parents, NONE)
    for request in range(batch):
        last: dict[int, int] = {}
        for row in range(1, rows):
            if not valid[request, row]:
                continue
            parent = int(parents[request, row])
            if parent in last:
                next_sibling[request, last[parent]] = row
            else:
                first_child[request, parent] = row
            last[parent] = row
    return first_child, next_sibling
