# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""Gated delta nets over a draft tree, all rows at once, and without a state a row.

SGLang's kernel takes a tree's rows one after the other: each loads its parent's whole state, and writes its own (151 MB a row and
request for a 27B target). With G the sum of log gates along a row's path, row i has

    h_i = exp(G_i) h_0 + sum over its ancestors and itself of exp(G_i - G_j) k_j u_j^T
    u_i = beta_i (v_i - exp(G_i) h_0^T k_i - sum over its ancestors of exp(G_i - G_j) (k_j . k_i) u_j)
    o_i = h_i^T q_i

so U solves (I + A) U = R with A strictly lower triangular (a parent comes before its children) and A^depth = 0. That is the chunk form of
the delta rule (Yang et al. 2024, "Parallelizing Linear Transformers with the Delta Rule over Sequence Length", section 3; with gates:
"Gated Delta Networks", section 3.3) with the tree's ancestor mask in place of the causal one. The inverse is
(I - A)(I + A^2)(I + A^4)..., a few small matrix products. Kept for the commit are k, u and G of each row, from which the state
of the one accepted row is made, once a round for all layers.

The root is above every row, so that it is eliminated first, by vectors: its u needs h_0 alone, and is one more known term of every other
row. What is left for the matrices are the budget's rows, so that budgets of 16, 32 and 64 fill their tiles, which root and rows would overflow.

Shapes: b requests, N rows, H key heads, HV value heads, K and V head dims, S layers.
"""

from __future__ import annotations

import logging
import os
from typing import Any

import torch
import triton
import triton.language as tl

from ddtree.sglang.states import COMPACT_STATES_ENV, MAX_RECURRENCE_ROWS, TREE_RECURRENCE_ENV

logger = logging.getLogger(__name__)


@triton.jit
def _ancestors_kernel(
    parent_ptr, mask_ptr, request_stride, row_stride, N: tl.constexpr, N_POW2: tl.constexpr, MAX_DEPTH: tl.constexpr
):
    # Without the root: row r here is row r + 1 of the tree, and the root's number is -1, which also ends a path.
    request = tl.program_id(0)
    rows = tl.arange(0, N_POW2)
    cells = parent_ptr + request * request_stride + (rows + 1) * row_stride
    parent = tl.load(cells, mask=rows < N, other=0).to(tl.int32) - 1
    # A filler's parent, or a warm-up's, is anything.
    parent = tl.where((parent < rows) & (parent >= 0), parent, -1)
    at = rows
    mask = rows[:, None] == rows[None, :]
    for _depth in range(MAX_DEPTH):
        at = tl.sum(tl.where(at[:, None] == rows[None, :], parent[None, :] + 1, 0), axis=1) - 1
        mask = mask | (at[:, None] == rows[None, :])
    out = mask_ptr + request.to(tl.int64) * N * N + rows[:, None] * N + rows[None, :]
    tl.store(out, mask.to(tl.uint8), mask=(rows[:, None] < N) & (rows[None, :] < N))


@triton.jit
def _products(a, b, PRECISION: tl.constexpr):
    """a [M, K] times b [N, K] transposed, both as the layer made them; float32 [M, N]. Of bfloat16 values every product is exact."""
    if a.dtype == tl.bfloat16:
        return tl.dot(a, tl.trans(b))
    return tl.dot(a.to(tl.float32), tl.trans(b.to(tl.float32)), input_precision=PRECISION)


@triton.jit
def _of_state(a, state, PRECISION: tl.constexpr):
    """a [M, K] times a float32 state [V, K] transposed. Three bfloat16 numbers hold a float32 one, so that only their sum rounds."""
    if a.dtype == tl.bfloat16:
        high = state.to(tl.bfloat16)
        rest = state - high.to(tl.float32)
        middle = rest.to(tl.bfloat16)
        low = (rest - middle.to(tl.float32)).to(tl.bfloat16)
        return tl.dot(a, tl.trans(high), tl.dot(a, tl.trans(middle), tl.dot(a, tl.trans(low))))
    return tl.dot(a.to(tl.float32), tl.trans(state), input_precision=PRECISION)


@triton.jit
def _verify_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    a_ptr,
    b_ptr,
    a_log_ptr,
    dt_bias_ptr,
    state_ptr,
    slot_ptr,
    mask_ptr,
    out_ptr,
    key_ptr,
    update_ptr,
    gate_ptr,
    q_stride,
    k_stride,
    v_stride,
    a_stride,
    b_stride,
    slot_stride,
    scale,
    N: tl.constexpr,
    N_POW2: tl.constexpr,
    H: tl.constexpr,
    HV: tl.constexpr,
    K: tl.constexpr,
    V: tl.constexpr,
    BLOCK_V: tl.constexpr,
    BLOCK_K: tl.constexpr,
    SQUARINGS: tl.constexpr,
    PRECISION: tl.constexpr,
):
    # N rows below the root, which is row 0 of N + 1.
    part = tl.program_id(0)
    request = (tl.program_id(1) // HV).to(tl.int64)
    head = tl.program_id(1) % HV
    key_head = head // (HV // H)
    rows = tl.arange(0, N_POW2)
    live = rows < N
    root = request * (N + 1)
    at = root + 1 + rows
    dim_v = part * BLOCK_V + tl.arange(0, BLOCK_V)

    rate = -tl.exp(tl.load(a_log_ptr + head).to(tl.float32))
    bias = tl.load(dt_bias_ptr + head).to(tl.float32)
    x = tl.load(a_ptr + at * a_stride + head, mask=live, other=0.0).to(tl.float32) + bias
    log_gate = tl.where(live, rate * tl.where(x <= 20.0, tl.log(1.0 + tl.exp(tl.minimum(x, 20.0))), x), 0.0)
    beta = 1.0 / (1.0 + tl.exp(-tl.load(b_ptr + at * b_stride + head, mask=live, other=0.0).to(tl.float32)))
    root_x = tl.load(a_ptr + root * a_stride + head).to(tl.float32) + bias
    root_gate = rate * tl.where(root_x <= 20.0, tl.log(1.0 + tl.exp(tl.minimum(root_x, 20.0))), root_x)
    root_beta = 1.0 / (1.0 + tl.exp(-tl.load(b_ptr + root * b_stride + head).to(tl.float32)))

    both = live[:, None] & live[None, :]
    cells = mask_ptr + request * N * N + rows[:, None] * N + rows[None, :]
    related = tl.load(cells, mask=both, other=0) != 0
    below = tl.sum(tl.where(related, log_gate[None, :], 0.0), axis=1)
    decay = tl.where(related, tl.exp(tl.where(related, below[:, None] - below[None, :], 0.0)), 0.0)
    since_root = tl.exp(below)
    carried = tl.exp(below + root_gate)[:, None]

    # The state is kept [V, K]. A padded request has slot -1 and no state.
    slot = tl.load(slot_ptr + request).to(tl.int64)
    state_ptr += slot * slot_stride + head * V * K
    has_state = slot >= 0
    root_k_ptr = k_ptr + root * k_stride + key_head * K
    root_q_ptr = q_ptr + root * q_stride + key_head * K
    k_ptr += at[:, None] * k_stride + key_head * K
    q_ptr += at[:, None] * q_stride + key_head * K

    # The head dimension in pieces: whole tiles of it would not fit into registers and shared memory beside the rest.
    dim = tl.arange(0, BLOCK_K)
    gram = tl.zeros((N_POW2, N_POW2), dtype=tl.float32)
    seen = tl.zeros((N_POW2, BLOCK_V), dtype=tl.float32)
    square = tl.zeros((N_POW2,), dtype=tl.float32)
    like_root = tl.zeros((N_POW2,), dtype=tl.float32)
    root_seen = tl.zeros((BLOCK_V,), dtype=tl.float32)
    root_square = 0.0
    for start in range(0, K, BLOCK_K):
        raw = tl.load(k_ptr + start + dim[None, :], mask=live[:, None], other=0.0)
        k = raw.to(tl.float32)
        root_k = tl.load(root_k_ptr + start + dim).to(tl.float32)
        state = tl.load(state_ptr + dim_v[:, None] * K + start + dim[None, :], mask=has_state, other=0.0).to(tl.float32)
        square += tl.sum(k * k, axis=1)
        like_root += tl.sum(k * root_k[None, :], axis=1)
        root_seen += tl.sum(state * root_k[None, :], axis=1)
        root_square += tl.sum(root_k * root_k, axis=0)
        gram += _products(raw, raw, PRECISION)
        seen += _of_state(raw, state, PRECISION)
    k_norm = 1.0 / tl.sqrt(square + 1e-6)
    root_norm = 1.0 / tl.sqrt(root_square + 1e-6)

    root_v = tl.load(v_ptr + root * v_stride + head * V + dim_v).to(tl.float32)
    root_update = root_beta * (root_v - tl.exp(root_gate) * root_norm * root_seen)
    v = tl.load(v_ptr + at[:, None] * v_stride + head * V + dim_v[None, :], mask=live[:, None], other=0.0).to(
        tl.float32
    )
    of_root = (since_root * k_norm * root_norm * like_root)[:, None] * root_update[None, :]
    rhs = beta[:, None] * (v - carried * k_norm[:, None] * seen - of_root)
    power = beta[:, None] * decay * (k_norm[:, None] * gram * k_norm[None, :])
    power = tl.where(rows[:, None] > rows[None, :], power, 0.0)
    update = rhs - tl.dot(power, rhs, input_precision=PRECISION)
    for _squaring in range(SQUARINGS):
        power = tl.dot(power, power, input_precision=PRECISION)
        update += tl.dot(power, update, input_precision=PRECISION)

    scores = tl.zeros((N_POW2, N_POW2), dtype=tl.float32)
    out = tl.zeros((N_POW2, BLOCK_V), dtype=tl.float32)
    square = tl.zeros((N_POW2,), dtype=tl.float32)
    like_root = tl.zeros((N_POW2,), dtype=tl.float32)
    root_out = tl.zeros((BLOCK_V,), dtype=tl.float32)
    root_square = 0.0
    root_score = 0.0
    for start in range(0, K, BLOCK_K):
        raw = tl.load(q_ptr + start + dim[None, :], mask=live[:, None], other=0.0)
        q = raw.to(tl.float32)
        k = tl.load(k_ptr + start + dim[None, :], mask=live[:, None], other=0.0)
        root_q = tl.load(root_q_ptr + start + dim).to(tl.float32)
        root_k = tl.load(root_k_ptr + start + dim).to(tl.float32) * root_norm
        state = tl.load(state_ptr + dim_v[:, None] * K + start + dim[None, :], mask=has_state, other=0.0).to(tl.float32)
        square += tl.sum(q * q, axis=1)
        like_root += tl.sum(q * root_k[None, :], axis=1)
        root_out += tl.sum(state * root_q[None, :], axis=1)
        root_square += tl.sum(root_q * root_q, axis=0)
        root_score += tl.sum(root_q * root_k, axis=0)
        scores += _products(raw, k, PRECISION)
        out += _of_state(raw, state, PRECISION)
        if (part == 0) & (head % (HV // H) == 0):
            key = key_ptr + key_head * K + start
            tl.store(key + at[:, None] * H * K + dim[None, :], k.to(tl.float32) * k_norm[:, None], mask=live[:, None])
            tl.store(key + root * H * K + dim, root_k)
    out = carried * out + (since_root * like_root)[:, None] * root_update[None, :]
    out += tl.dot(decay * scores * k_norm[None, :], update, input_precision=PRECISION)
    out *= (scale / tl.sqrt(square + 1e-6))[:, None]
    root_out = (tl.exp(root_gate) * root_out + root_score * root_update) * (scale / tl.sqrt(root_square + 1e-6))

    cell = (at[:, None] * HV + head) * V + dim_v[None, :]
    root_cell = (root * HV + head) * V + dim_v
    tl.store(out_ptr + cell, out.to(out_ptr.dtype.element_ty), mask=live[:, None])
    tl.store(out_ptr + root_cell, root_out.to(out_ptr.dtype.element_ty))
    tl.store(update_ptr + cell, update, mask=live[:, None])
    tl.store(update_ptr + root_cell, root_update)
    if part == 0:
        tl.store(gate_ptr + at * HV + head, below + root_gate, mask=live)
        tl.store(gate_ptr + root * HV + head, root_gate)


@triton.jit
def _state_kernel(
    state_ptr,
    slot_ptr,
    parent_ptr,
    step_ptr,
    key_ptr,
    update_ptr,
    gate_ptr,
    out_ptr,
    out_slot_ptr,
    bs,
    layer_stride,
    slot_stride,
    parent_stride,
    out_layer_stride,
    out_place_stride,
    out_row_stride,
    requests: tl.constexpr,
    N: tl.constexpr,
    H: tl.constexpr,
    HV: tl.constexpr,
    K: tl.constexpr,
    V: tl.constexpr,
    BLOCK_V: tl.constexpr,
    MAX_DEPTH: tl.constexpr,
    INTO_SLOTS: tl.constexpr,
):
    part = tl.program_id(0)
    head = tl.program_id(1)
    layer = (tl.program_id(2) // bs).to(tl.int64)
    request = (tl.program_id(2) % bs).to(tl.int64)
    step = tl.load(step_ptr + request).to(tl.int32)
    slot = tl.load(slot_ptr + request).to(tl.int64)
    if (step >= 0) & (slot >= 0):
        dim_k = tl.arange(0, K)
        dim_v = part * BLOCK_V + tl.arange(0, BLOCK_V)
        tile = head * V * K + dim_v[:, None] * K + dim_k[None, :]
        rows = (layer * requests + request) * N
        last = tl.load(gate_ptr + (rows + step) * HV + head)
        state = tl.load(state_ptr + layer * layer_stride + slot * slot_stride + tile).to(tl.float32) * tl.exp(last)
        node = step
        for _depth in range(MAX_DEPTH + 1):
            on_path = node >= 0
            here = rows + tl.maximum(node, 0)
            weight = tl.exp(last - tl.load(gate_ptr + here * HV + head))
            key = tl.load(key_ptr + (here * H + head // (HV // H)) * K + dim_k)
            update = tl.load(update_ptr + (here * HV + head) * V + dim_v)
            state += tl.where(on_path, weight * update[:, None] * key[None, :], 0.0)
            parent = tl.load(parent_ptr + request * parent_stride + tl.maximum(node, 0)).to(tl.int32)
            node = tl.where(on_path & (parent < node), parent, -1)
        # In place where that is the slot itself: every program reads and writes the same part of it.
        place = request * out_place_stride + step * out_row_stride
        if INTO_SLOTS:
            place = tl.load(out_slot_ptr + request).to(tl.int64) * out_place_stride
        tl.store(out_ptr + layer * out_layer_stride + place + tile, state.to(out_ptr.dtype.element_ty))


def ancestors(parent: torch.Tensor, mask: torch.Tensor, max_depth: int) -> None:
    """``mask`` uint8 [b, N - 1, N - 1], without the root, becomes 1 where the column is the row itself or one of its ancestors in ``parent`` [b, N]."""
    bs, rows = mask.shape[0], mask.shape[1]
    _ancestors_kernel[(bs,)](
        parent,
        mask,
        parent.stride(0),
        parent.stride(1),
        N=rows,
        N_POW2=max(16, triton.next_power_of_2(rows)),
        MAX_DEPTH=max_depth,
        num_warps=4,
    )


def verify(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    *,
    a_log: torch.Tensor,
    dt_bias: torch.Tensor,
    states: torch.Tensor,
    slots: torch.Tensor,
    mask: torch.Tensor,
    keys: torch.Tensor,
    updates: torch.Tensor,
    gates: torch.Tensor,
    max_depth: int,
    precision: str = "tf32x3",
    columns: int = 64,
    warps: int = 4,
    step: int = 32,
) -> torch.Tensor:
    """Outputs [b * N, HV, V] of one layer's rows, in ``v``'s dtype; fills ``keys``, ``updates`` and ``gates`` (float32).

    ``q`` and ``k`` [1, b * N, H, K], ``v`` [1, b * N, HV, V], ``a`` and ``b`` [b * N, HV]: as the layer makes them, before normalisation and
    gates. ``states`` [slots, HV, V, K] is only read; ``slots`` [b] names each request's, -1 none. ``mask`` is :func:`ancestors`'.
    ``keys`` [b, N, H, K], ``updates`` [b, N, HV, V], ``gates`` [b, N, HV], contiguous.
    ``columns`` of V a program, ``warps``, ``step`` of K and ``precision`` (Triton's input_precision) trade speed: tests/gpu/recurrence_bench.py.
    """
    bs, below = mask.shape[0], mask.shape[1]
    heads, key_dim, value_heads, value_dim = q.shape[-2], q.shape[-1], v.shape[-2], v.shape[-1]
    out = torch.empty((bs * (below + 1), value_heads, value_dim), dtype=v.dtype, device=v.device)
    columns = min(columns, value_dim)
    _verify_kernel[(value_dim // columns, bs * value_heads)](
        q,
        k,
        v,
        a,
        b,
        a_log,
        dt_bias,
        states,
        slots,
        mask,
        out,
        keys,
        updates,
        gates,
        q.stride(1),
        k.stride(1),
        v.stride(1),
        a.stride(-2),
        b.stride(-2),
        states.stride(0),
        key_dim**-0.5,
        N=below,
        N_POW2=max(16, triton.next_power_of_2(below)),
        H=heads,
        HV=value_heads,
        K=key_dim,
        V=value_dim,
        BLOCK_V=columns,
        BLOCK_K=min(step, key_dim),
        # A path has at most max_depth rows below the root, so A to that power is zero.
        SQUARINGS=max(0, (max_depth - 1).bit_length() - 1),
        PRECISION=precision,
        num_warps=warps,
        num_stages=1,
    )
    return out


def make_states(
    states: torch.Tensor,
    slots: torch.Tensor,
    parent: torch.Tensor,
    steps: torch.Tensor,
    *,
    keys: torch.Tensor,
    updates: torch.Tensor,
    gates: torch.Tensor,
    out: torch.Tensor,
    max_depth: int,
    out_slots: torch.Tensor | None = None,
) -> None:
    """The state after row ``steps`` [b] of each request (-1: none), of all layers, into ``out`` at that row, or at ``out_slots`` [b].

    ``states`` [S, slots, HV, V, K]; ``keys``, ``updates`` and ``gates`` as :func:`verify` left them, [S, requests, N, ...]; ``parent`` [b, N];
    ``out`` [S, requests, N, HV, V, K], or with ``out_slots`` [S, slots, HV, V, K], which may be ``states`` itself.
    """
    layers, requests, rows, value_heads, value_dim = updates.shape
    bs = steps.shape[0]
    columns = min(32, value_dim)
    _state_kernel[(value_dim // columns, value_heads, layers * bs)](
        states,
        slots,
        parent,
        steps,
        keys,
        updates,
        gates,
        out,
        slots if out_slots is None else out_slots,
        bs,
        states.stride(0),
        states.stride(1),
        parent.stride(0),
        out.stride(0),
        out.stride(1),
        out.stride(2),
        requests=requests,
        N=rows,
        H=keys.shape[-2],
        HV=value_heads,
        K=keys.shape[-1],
        V=value_dim,
        BLOCK_V=columns,
        MAX_DEPTH=max_depth,
        INTO_SLOTS=out_slots is not None,
        num_warps=4,
    )


class TreeRecurrence:
    """Takes the place of SGLang's recurrent kernel in tree verification, and makes the states that its commit copies.

    Args:
        temporal: states of all layers, [S, slots, HV, V, K].
        intermediate: SGLang's states a row, [S, requests + 1, N, HV, V, K]: :meth:`make` writes accepted rows, :meth:`commit` none.
        key_heads: H.
        max_depth: block size - 1.
    """

    def __init__(self, temporal: torch.Tensor, intermediate: torch.Tensor, key_heads: int, max_depth: int) -> None:
        self.temporal, self.intermediate, self.max_depth = temporal, intermediate, max_depth
        layers, requests, rows, value_heads, value_dim, key_dim = intermediate.shape

        def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
            return torch.zeros(shape, dtype=dtype, device=temporal.device)

        self.keys = zeros(layers, requests, rows, key_heads, key_dim)
        self.updates = zeros(layers, requests, rows, value_heads, value_dim)
        self.gates = zeros(layers, requests, rows, value_heads)
        self.mask = zeros(requests, rows - 1, rows - 1, dtype=torch.uint8)

    def layer_of(self, states: torch.Tensor) -> int:
        """Which layer of the pool a layer's view of it is."""
        offset = states.data_ptr() - self.temporal.data_ptr()
        layer, rest = divmod(offset, self.temporal.stride(0) * self.temporal.element_size())
        if rest or not 0 <= layer < self.temporal.shape[0]:
            raise RuntimeError("DDTREE: this layer's recurrent state is not in the target's pool.")
        return layer

    def target_verify(
        self,
        A_log: torch.Tensor,
        dt_bias: torch.Tensor,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        a: torch.Tensor,
        b: torch.Tensor,
        *,
        ssm_states: torch.Tensor,
        cache_indices: torch.Tensor,
        retrieve_parent_token: torch.Tensor,
        **_others: Any,
    ) -> torch.Tensor:
        """SGLang's `GDNKernelDispatcher.tree_verify_kernel.target_verify` (0.5.17, `layers/attention/linear/gdn_backend.py`)."""
        layer = self.layer_of(ssm_states)
        mask = self.mask[: len(retrieve_parent_token)]
        if layer == 0:
            ancestors(retrieve_parent_token, mask, self.max_depth)
        return verify(
            q,
            k,
            v,
            a,
            b,
            a_log=A_log,
            dt_bias=dt_bias,
            states=ssm_states,
            slots=cache_indices,
            mask=mask,
            keys=self.keys[layer],
            updates=self.updates[layer],
            gates=self.gates[layer],
            max_depth=self.max_depth,
        )

    def _make(self, slots: torch.Tensor, parent: torch.Tensor, steps: torch.Tensor, **into: torch.Tensor) -> None:
        kept = {"keys": self.keys, "updates": self.updates, "gates": self.gates}
        make_states(self.temporal, slots, parent, steps, **kept, **into, max_depth=self.max_depth)

    def make(self, slots: torch.Tensor, parent: torch.Tensor, steps: list[torch.Tensor]) -> None:
        """States after each of ``steps`` (rows, int [b], -1 for none) where SGLang's commit looks for them."""
        for each in steps:
            self._make(slots, parent, each, out=self.intermediate)

    def commit(
        self,
        slots: torch.Tensor,
        parent: torch.Tensor,
        steps: torch.Tensor,
        tracked_slots: torch.Tensor | None,
        tracked_steps: torch.Tensor | None,
    ) -> None:
        """Each request's own state becomes that after row ``steps`` [b] (-1: stays), in place; after ``tracked_steps`` to ``tracked_slots``."""
        # The tracked row first: it too begins at the state that the other replaces.
        if tracked_steps is not None:
            self._make(slots, parent, tracked_steps, out=self.temporal, out_slots=tracked_slots)
        self._make(slots, parent, steps, out=self.temporal, out_slots=slots)


def install(
    model_runner: Any, key_heads: int, rows: int, max_depth: int, compact: bool = False
) -> TreeRecurrence | None:
    """Put a :class:`TreeRecurrence` into the target's gated delta nets, or None and a line in the log that says what prevents it.

    Args:
        model_runner: the hybrid target's, with its pools and attention backend.
        key_heads: key heads of this tensor-parallel rank.
        rows: verify rows, root included.
        max_depth: block size - 1.
        compact: the pool holds no states a row, so that SGLang's kernel cannot serve instead.
    """
    from sglang.srt.layers.attention.linear.gdn_backend import GDNAttnBackend

    backend = getattr(model_runner.attn_backend, "linear_attn_backend", None)
    states = model_runner.req_to_token_pool.get_speculative_mamba2_params_all_layers()
    unfit = None
    if not isinstance(backend, GDNAttnBackend):
        unfit = f"it serves gated delta nets, and this target has {type(backend).__name__}"
    elif rows > MAX_RECURRENCE_ROWS:
        unfit = (
            f"it takes at most {MAX_RECURRENCE_ROWS} rows, and budget {rows - 1} has {rows}; "
            f"--speculative-ddtree-budget {MAX_RECURRENCE_ROWS - 1} is the largest for it"
        )
    elif states.intermediate_ssm is None:
        unfit = "SGLang keeps no states a row here"
    if unfit and compact:
        raise RuntimeError(
            f"DDTREE: no states a row were made, which SGLang's kernel needs, and the tree recurrence cannot serve instead: {unfit}. "
            f"Set {COMPACT_STATES_ENV}=0."
        )
    if unfit:
        asked = os.environ.get(TREE_RECURRENCE_ENV) == "1"
        logger.log(
            logging.WARNING if asked else logging.INFO,
            "DDTREE: gated delta nets keep SGLang's kernel, row by row, not the tree recurrence: %s.",
            unfit,
        )
        return None
    made = TreeRecurrence(states.temporal, states.intermediate_ssm, key_heads, max_depth)
    backend.kernel_dispatcher.tree_verify_kernel = made
    return made
