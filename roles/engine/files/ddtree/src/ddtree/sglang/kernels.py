# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""Triton kernels of the DDTree draft and verify steps.

Vocabulary and shapes (b requests, L block size, D = L - 1 draft positions, N verify rows, K ranks kept per position):

* a *tree* is stored node-indexed in best-first order: node 0 is the root (the bonus token), a parent comes before its
  children and a lower rank before a higher one, so ``next_token`` and ``next_sibling`` links only point forward, which
  is what SGLang's tree kernels (attention mask tail, causal conv, gated delta rule) rely on;
* an unused row (a *filler*) has parent -1 and depth 0: it sees the prefix, the root and itself, hangs in no list and
  can never be accepted.

Trees agree bit for bit with ``ddtree.tree`` (same float32 sums, same tie rule), masks with ``ancestor_mask``, the walk
with ``ddtree.verify``. Every launcher takes preallocated outputs, launches a fixed grid and reads nothing back: all
are safe inside CUDA graph capture and under ``torch.cuda.set_sync_debug_mode("error")``.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

# One stage-1 program reads this many logits; small enough to fill the chip for a single request (15 rows x 152k ids).
TOPK_BLOCK = 2048


@triton.jit
def _pack_desc(value, index):
    """Order-preserving int64 of (value descending, index ascending): the maximum is the first largest value."""
    bits = value.to(tl.int32, bitcast=True)
    bits = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    return (bits.to(tl.int64) << 32) | (0x7FFFFFFF - index).to(tl.int64)


@triton.jit
def _packed_index(packed):
    return 0x7FFFFFFF - (packed & 0x7FFFFFFF)


@triton.jit
def _packed_value(packed):
    bits = (packed >> 32).to(tl.int32)
    bits = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    return bits.to(tl.float32, bitcast=True)


@triton.jit
def _topk_partial_kernel(
    logits_ptr,
    value_ptr,
    index_ptr,
    max_ptr,
    sum_ptr,
    logits_row_stride,
    vocab,
    index_start,
    SPLITS: tl.constexpr,
    K: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0)
    split = tl.program_id(1)
    offs = split * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(logits_ptr + row.to(tl.int64) * logits_row_stride + offs, mask=offs < vocab, other=float("-inf"))
    x = x.to(tl.float32)
    # +0.0 folds -0.0 into 0.0, so that the integer order below agrees with the float order on ties.
    x = x + 0.0
    m = tl.max(x, axis=0)
    safe = tl.where(m == float("-inf"), 0.0, m)
    tl.store(max_ptr + row * SPLITS + split, m)
    tl.store(sum_ptr + row * SPLITS + split, tl.sum(tl.exp(x - safe), axis=0))
    packed = _pack_desc(x, offs)
    out = (row * SPLITS + split).to(tl.int64) * K
    for k in range(K):
        best = tl.max(packed, axis=0)
        tl.store(value_ptr + out + k, _packed_value(best))
        tl.store(index_ptr + out + k, (_packed_index(best) + index_start).to(tl.int32))
        packed = tl.where(packed == best, -0x7FFFFFFFFFFFFFFF, packed)


@triton.jit
def _topk_merge_kernel(
    value_ptr,
    index_ptr,
    max_ptr,
    sum_ptr,
    logprob_ptr,
    id_ptr,
    lse_ptr,
    row_stride,
    split_stride,
    stat_row_stride,
    stat_split_stride,
    SPLITS: tl.constexpr,
    SPLITS_POW2: tl.constexpr,
    K: tl.constexpr,
    CANDIDATES_POW2: tl.constexpr,
    NORMALISE: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    s = tl.arange(0, SPLITS_POW2)
    stat = row * stat_row_stride + s * stat_split_stride
    part_max = tl.load(max_ptr + stat, mask=s < SPLITS, other=float("-inf"))
    part_sum = tl.load(sum_ptr + stat, mask=s < SPLITS, other=0.0)
    m = tl.max(part_max, axis=0)
    total = tl.sum(tl.where(part_sum > 0, part_sum * tl.exp(part_max - m), 0.0), axis=0)
    lse = m + tl.log(total)
    tl.store(lse_ptr + row, lse)
    c = tl.arange(0, CANDIDATES_POW2)
    cand = row * row_stride + (c // K) * split_stride + c % K
    value = tl.load(value_ptr + cand, mask=c < SPLITS * K, other=float("-inf"))
    # Splits (and ranks) own ascending id ranges and are sorted inside, so the candidate number orders ties by token id.
    packed = tl.where(c < SPLITS * K, _pack_desc(value, c), -0x7FFFFFFFFFFFFFFF)
    for k in range(K):
        best = tl.max(packed, axis=0)
        at = _packed_index(best)
        best_value = _packed_value(best)
        token = tl.load(index_ptr + row * row_stride + (at // K) * split_stride + at % K)
        tl.store(logprob_ptr + row * K + k, best_value - lse if NORMALISE else best_value)
        tl.store(id_ptr + row * K + k, token)
        packed = tl.where(packed == best, -0x7FFFFFFFFFFFFFFF, packed)


@triton.jit
def _build_tree_kernel(
    logprob_ptr,
    id_ptr,
    bonus_ptr,
    bonus_stride,
    token_ptr,
    parent_ptr,
    depth_ptr,
    next_token_ptr,
    next_sibling_ptr,
    D: tl.constexpr,
    K: tl.constexpr,
    N: tl.constexpr,
    N_POW2: tl.constexpr,
    FORCE_SPINE: tl.constexpr,
):
    """Lazy-child best-first selection: each selected node offers exactly one candidate, its next unexpanded child.

    A node's children come in descending log-probability, and a child never scores above its parent, so the frontier of
    these single candidates always holds the globally best unselected prefix. That is Algorithm 1 of the DDTree paper
    (heap of next sibling and first child) with an exact argmax over at most N lanes instead of a heap.
    """
    req = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, N_POW2)
    lp = logprob_ptr + req * D * K
    ids = id_ptr + req * D * K
    minus_inf = float("-inf")

    score = tl.where(lane == 0, 0.0, minus_inf)
    # The candidate of lane i: score of its next child. Lanes that are not selected yet offer nothing.
    candidate = tl.where(lane == 0, tl.load(lp), minus_inf)
    # depth, next child rank and last child of a lane in one word: one reduction reads all three.
    state = tl.zeros((N_POW2,), dtype=tl.int32)
    token = tl.zeros((N_POW2,), dtype=tl.int64)
    parent = tl.full((N_POW2,), -1, dtype=tl.int32)
    next_token = tl.full((N_POW2,), -1, dtype=tl.int64)
    next_sibling = tl.full((N_POW2,), -1, dtype=tl.int64)
    token = tl.where(lane == 0, tl.load(bonus_ptr + req * bonus_stride).to(tl.int64), token)

    for j in range(1, N):
        packed = _pack_desc(candidate, lane)
        best = tl.max(packed, axis=0)
        at = _packed_index(best).to(tl.int32)
        best_score = _packed_value(best)
        if FORCE_SPINE:
            # The rank-0 chain takes the first D nodes; the rest is filled best-first.
            at = tl.where(j <= D, j - 1, at)
            best_score = tl.where(j <= D, tl.sum(tl.where(lane == j - 1, candidate, 0.0), axis=0), best_score)
        live = best_score > minus_inf
        # Nothing left to select: no lane matches -1, so the row stays a filler.
        chosen = lane == tl.where(live, at, -1)
        new = lane == tl.where(live, j, -1)
        word = tl.sum(tl.where(chosen, state, 0), axis=0)
        d = word & 31
        rank = (word >> 5) & 255
        elder = tl.where(rank > 0, word >> 13, -1)
        tok = tl.load(ids + d * K + rank, mask=live, other=0)

        score = tl.where(new, best_score, score)
        token = tl.where(new, tok.to(tl.int64), token)
        parent = tl.where(new, at, parent)
        next_token = tl.where(lane == tl.where(live & (rank == 0), at, -1), j, next_token)
        next_sibling = tl.where(lane == elder, j, next_sibling)

        # Refresh the chosen lane's candidate with its next child and open the new lane's first child.
        parent_score = tl.sum(tl.where(chosen, score, 0.0), axis=0)
        sibling_lp = tl.load(lp + d * K + rank + 1, mask=live & (rank + 1 < K), other=minus_inf)
        child_lp = tl.load(lp + (d + 1) * K, mask=live & (d + 1 < D), other=minus_inf)
        candidate = tl.where(chosen, parent_score + sibling_lp, candidate)
        candidate = tl.where(new, best_score + child_lp, candidate)
        state = tl.where(chosen, d | ((rank + 1) << 5) | (j << 13), state)
        state = tl.where(new, d + 1, state)

    out = req * N + lane
    keep = lane < N
    tl.store(token_ptr + out, token, mask=keep)
    tl.store(parent_ptr + out, parent, mask=keep)
    tl.store(depth_ptr + out, state & 31, mask=keep)
    tl.store(next_token_ptr + out, next_token, mask=keep)
    tl.store(next_sibling_ptr + out, next_sibling, mask=keep)


@triton.jit
def _prepare_verify_kernel(
    parent_ptr,
    depth_ptr,
    seq_lens_ptr,
    req_pool_indices_ptr,
    req_to_token_ptr,
    req_to_token_stride,
    positions_ptr,
    cache_loc_ptr,
    mask_ptr,
    bs,
    N: tl.constexpr,
    N_POW2: tl.constexpr,
    MAX_DEPTH: tl.constexpr,
    BS_POW2: tl.constexpr,
    WRITE_MASK: tl.constexpr,
):
    req = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, N_POW2)
    keep = lane < N
    prefix = tl.load(seq_lens_ptr + req).to(tl.int64)
    depth = tl.load(depth_ptr + req * N + lane, mask=keep, other=0)
    tl.store(positions_ptr + req * N + lane, prefix + depth, mask=keep)
    row_ptr = req_to_token_ptr + tl.load(req_pool_indices_ptr + req).to(tl.int64) * req_to_token_stride
    loc = tl.load(row_ptr + prefix + lane, mask=keep, other=0)
    tl.store(cache_loc_ptr + req * N + lane, loc.to(tl.int64), mask=keep)
    if WRITE_MASK:
        # FULL_MASK layout: request r owns N rows of (seq_len + N) cells. Only the N x N tail is read by the Triton
        # extend kernel (skip_prefix_custom_mask), so only the tail is written.
        before = tl.arange(0, BS_POW2)
        lens = tl.load(seq_lens_ptr + before, mask=(before < req) & (before < bs), other=0).to(tl.int64)
        base = tl.sum(tl.where(before < req, (lens + N) * N, 0), axis=0)
        cell = mask_ptr + base + lane[:, None].to(tl.int64) * (prefix + N) + prefix + lane[None, :]
        ancestor = lane
        visible = (lane[None, :] == lane[:, None]) | (lane[None, :] == 0)
        for dummy in range(MAX_DEPTH):
            ancestor = tl.load(parent_ptr + req * N + ancestor, mask=keep & (ancestor > 0), other=0)
            visible = visible | (lane[None, :] == ancestor[:, None])
        tl.store(cell, visible.to(tl.uint8), mask=keep[:, None] & keep[None, :])


@triton.jit
def _accept_kernel(
    token_ptr,
    parent_ptr,
    predict_ptr,
    cache_loc_ptr,
    seq_lens_ptr,
    accept_index_ptr,
    out_token_ptr,
    src_loc_ptr,
    tgt_loc_ptr,
    hidden_index_ptr,
    commit_loc_ptr,
    commit_position_ptr,
    accept_len_ptr,
    bonus_ptr,
    new_seq_len_ptr,
    live_ptr,
    N: tl.constexpr,
    N_POW2: tl.constexpr,
    L: tl.constexpr,
    L_POW2: tl.constexpr,
    HAS_LIVE: tl.constexpr,
):
    """Walk the verified tree: follow the child that carries the target's choice until there is none."""
    req = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, N_POW2)
    keep = lane < N
    token = tl.load(token_ptr + req * N + lane, mask=keep, other=-1)
    parent = tl.load(parent_ptr + req * N + lane, mask=keep, other=-1)

    step = tl.arange(0, L_POW2)
    path = tl.full((L_POW2,), -1, dtype=tl.int32)
    out = tl.zeros((L_POW2,), dtype=tl.int64)
    node = tl.full((), 0, dtype=tl.int32)
    alive = tl.full((), 1, dtype=tl.int32)
    if HAS_LIVE:
        alive = (req < tl.load(live_ptr)).to(tl.int32)
    length = tl.full((), 0, dtype=tl.int32)
    bonus = tl.full((), 0, dtype=tl.int64)
    for s in range(L):
        choice = tl.load(predict_ptr + req * N + node).to(tl.int64)
        path = tl.where((step == s) & (alive > 0), node, path)
        out = tl.where((step == s) & (alive > 0), choice, out)
        bonus = tl.where(alive > 0, choice, bonus)
        length += alive
        child = tl.max(tl.where((parent == node) & (token == choice), lane, -1), axis=0)
        alive = tl.where(child >= 0, alive, 0)
        node = tl.where(alive > 0, child, node)

    inside = step < L
    accepted = path >= 0
    row = req * L + step
    source = req * N + tl.maximum(path, 0)
    tl.store(accept_index_ptr + row, tl.where(accepted, source, -1).to(tl.int32), mask=inside)
    tl.store(out_token_ptr + row, out, mask=inside)
    tl.store(hidden_index_ptr + row, source, mask=inside)
    # Slot 0 is the pool's dummy: rows past the accepted run copy it onto itself.
    tl.store(src_loc_ptr + row, tl.load(cache_loc_ptr + source, mask=inside & accepted, other=0), mask=inside)
    tl.store(tgt_loc_ptr + row, tl.load(cache_loc_ptr + req * N + step, mask=inside & accepted, other=0), mask=inside)
    prefix = tl.load(seq_lens_ptr + req).to(tl.int64)
    tl.store(commit_loc_ptr + row, tl.load(cache_loc_ptr + req * N + step, mask=inside, other=0), mask=inside)
    tl.store(commit_position_ptr + row, prefix + step, mask=inside)
    tl.store(accept_len_ptr + req, length)
    tl.store(bonus_ptr + req, bonus)
    tl.store(new_seq_len_ptr + req, prefix + length)


def topk_splits(vocab: int) -> int:
    """Number of stage-1 programs (and partial results) per row of ``vocab`` logits."""
    return triton.cdiv(vocab, TOPK_BLOCK)


def topk_partial(
    logits: torch.Tensor,
    *,
    index_start: int,
    k: int,
    value: torch.Tensor,
    index: torch.Tensor,
    part_max: torch.Tensor,
    part_sum: torch.Tensor,
) -> None:
    """Stage 1 of the exact top-k: per split the k largest logits (ties by lowest id) and log-sum-exp partials.

    ``logits`` [n, vocab] any float type; ``value`` fp32 and ``index`` int32 [n, splits, k]; ``part_max`` and
    ``part_sum`` fp32 [n, splits]. ``index_start`` is the global id of column 0 (vocabulary shard).
    """
    rows, vocab = logits.shape
    splits = topk_splits(vocab)
    _topk_partial_kernel[(rows, splits)](
        logits,
        value,
        index,
        part_max,
        part_sum,
        logits.stride(0),
        vocab,
        index_start,
        SPLITS=splits,
        K=k,
        BLOCK=TOPK_BLOCK,
        num_warps=4,
    )


def topk_merge(
    value: torch.Tensor,
    index: torch.Tensor,
    part_max: torch.Tensor,
    part_sum: torch.Tensor,
    *,
    rows: int,
    splits: int,
    k: int,
    split_major: bool,
    normalise: bool,
    logprob: torch.Tensor,
    ids: torch.Tensor,
    lse: torch.Tensor,
) -> None:
    """Stage 2: merge partial results to the row's top k.

    Partials are [rows, splits, k] / [rows, splits], or [splits, rows, k] / [splits, rows] with ``split_major`` (the
    layout an all-gather over tensor-parallel ranks leaves). Writes ``ids`` int32 and ``logprob`` fp32 [rows, k]
    (log-probabilities with ``normalise``, else raw logits, so that a second merge can follow) and ``lse`` [rows].
    """
    row_stride, split_stride = (k, rows * k) if split_major else (splits * k, k)
    stat_row_stride, stat_split_stride = (1, rows) if split_major else (splits, 1)
    _topk_merge_kernel[(rows,)](
        value,
        index,
        part_max,
        part_sum,
        logprob,
        ids,
        lse,
        row_stride,
        split_stride,
        stat_row_stride,
        stat_split_stride,
        SPLITS=splits,
        SPLITS_POW2=triton.next_power_of_2(splits),
        K=k,
        CANDIDATES_POW2=triton.next_power_of_2(splits * k),
        NORMALISE=normalise,
        num_warps=4 if splits * k > 256 else 1,
    )


def build_tree(
    logprob: torch.Tensor,
    ids: torch.Tensor,
    bonus: torch.Tensor,
    *,
    force_spine: bool,
    token: torch.Tensor,
    parent: torch.Tensor,
    depth: torch.Tensor,
    next_token: torch.Tensor,
    next_sibling: torch.Tensor,
) -> None:
    """Exact best-first draft tree of each request.

    ``logprob`` fp32 and ``ids`` int32 [b, D, K], descending in K; ``bonus`` int64, one element per request at
    ``bonus.stride(0)``. Outputs [b, N]: ``token``, ``next_token``, ``next_sibling`` int64 and ``parent``, ``depth``
    int32.
    """
    bs, positions, k = logprob.shape
    rows = token.shape[1]
    if positions > 30 or rows > 512 or k > 255:
        raise ValueError(f"tree too large for the packed lane state: D={positions}, N={rows}, K={k}")
    _build_tree_kernel[(bs,)](
        logprob,
        ids,
        bonus,
        bonus.stride(0),
        token,
        parent,
        depth,
        next_token,
        next_sibling,
        D=positions,
        K=k,
        N=rows,
        N_POW2=triton.next_power_of_2(rows),
        FORCE_SPINE=force_spine,
        num_warps=1 if rows <= 128 else 4,
    )


def prepare_verify(
    parent: torch.Tensor,
    depth: torch.Tensor,
    seq_lens: torch.Tensor,
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    *,
    max_depth: int,
    positions: torch.Tensor,
    cache_loc: torch.Tensor,
    mask: torch.Tensor | None,
) -> None:
    """Positions, KV slots and (with ``mask``) the mask tails of the verify rows.

    ``positions`` and ``cache_loc`` int64 [b, N]. ``mask`` is a flat uint8 buffer in SGLang's FULL_MASK layout of at
    least sum(N * (seq_len + N)) cells; prefix cells are left alone.
    """
    bs, rows = depth.shape
    _prepare_verify_kernel[(bs,)](
        parent,
        depth,
        seq_lens,
        req_pool_indices,
        req_to_token,
        req_to_token.stride(0),
        positions,
        cache_loc,
        positions if mask is None else mask,
        bs,
        N=rows,
        N_POW2=triton.next_power_of_2(rows),
        MAX_DEPTH=max_depth,
        BS_POW2=triton.next_power_of_2(bs),
        WRITE_MASK=mask is not None,
        num_warps=4,
    )


def accept(
    token: torch.Tensor,
    parent: torch.Tensor,
    predict: torch.Tensor,
    cache_loc: torch.Tensor,
    seq_lens: torch.Tensor,
    *,
    accept_index: torch.Tensor,
    out_token: torch.Tensor,
    src_loc: torch.Tensor,
    tgt_loc: torch.Tensor,
    hidden_index: torch.Tensor,
    commit_loc: torch.Tensor,
    commit_positions: torch.Tensor,
    accept_lens: torch.Tensor,
    bonus: torch.Tensor,
    new_seq_lens: torch.Tensor,
    live: torch.Tensor | None = None,
) -> None:
    """Walk each verified tree and lay out what the commit needs.

    ``predict`` int64 [b, N] is the target's choice (argmax or sample) after each row. Outputs: ``accept_index`` int32
    [b, L] flat row numbers, -1 padded; ``out_token`` int64 [b, L], accepted drafts then the bonus; ``src_loc`` and
    ``tgt_loc`` int64 [b, L] KV slots to move, 0 padded; ``hidden_index`` int64 [b, L] row gather; ``commit_loc`` and
    ``commit_positions`` int64 [b, L], slots and text positions of the rows p .. p + L - 1 that ``accept_lens`` int32 [b]
    (drafts + bonus) cuts; ``bonus`` and ``new_seq_lens`` int64 [b].

    ``live`` (int32, one element) is the number of requests to walk; the others accept nothing and move nothing. It
    makes the launch safe in a graph that is padded, or replayed for a round that another walk decides.
    """
    bs, rows = token.shape
    block_size = out_token.shape[1]
    _accept_kernel[(bs,)](
        token,
        parent,
        predict,
        cache_loc,
        seq_lens,
        accept_index,
        out_token,
        src_loc,
        tgt_loc,
        hidden_index,
        commit_loc,
        commit_positions,
        accept_lens,
        bonus,
        new_seq_lens,
        accept_lens if live is None else live,
        N=rows,
        N_POW2=triton.next_power_of_2(rows),
        L=block_size,
        L_POW2=triton.next_power_of_2(block_size),
        HAS_LIVE=live is not None,
        num_warps=1,
    )
