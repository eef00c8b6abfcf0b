# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""The short causal convolution of gated delta nets over a draft tree, all rows at once.

SGLang's kernel (0.5.17, `kernels/ops/mamba/causal_conv1d_triton.py`) takes a tree's rows one after the other, unrolled, in programs of 256 channels:
few programs, each with a chain of as many steps as the tree has rows, and a compilation that grows with the square of the rows. But a row needs only
its last three ancestors, which the parents name; so each row is a program of its own here. Products are summed from the oldest input on, as SGLang's
decoding does it (its tree branch begins with the newest).

SGLang's kernel also makes the parents from first children and next siblings; :func:`fill_parents` does that, once a round. And it rolls the flat rows into
the request's own window, which the commit overwrites; that is left out here.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl

WIDTH = 4
"""Taps of the convolution: `linear_conv_kernel_dim` of the Qwen3-Next and Qwen3.5 families."""
TREE_CONV_ENV = "SGLANG_DDTREE_TREE_CONV"
"""0 keeps SGLang's kernel in every layer."""
logger = logging.getLogger(__name__)


@triton.jit
def _parents_kernel(
    child_ptr,
    sibling_ptr,
    parent_ptr,
    child_request_stride,
    child_row_stride,
    sibling_request_stride,
    sibling_row_stride,
    parent_request_stride,
    parent_row_stride,
    N: tl.constexpr,
    N_POW2: tl.constexpr,
    DOUBLINGS: tl.constexpr,
):
    request = tl.program_id(0).to(tl.int64)
    rows = tl.arange(0, N_POW2)
    inside = rows < N
    children = child_ptr + request * child_request_stride + rows * child_row_stride
    child = tl.load(children, mask=inside, other=-1).to(tl.int32)
    siblings = sibling_ptr + request * sibling_request_stride + rows * sibling_row_stride
    sibling = tl.load(siblings, mask=inside, other=-1).to(tl.int32)
    # A first child knows its parent; the others know the sibling before them, from which they take it.
    parent = tl.sum(tl.where(rows[:, None] == child[None, :], rows[None, :] + 1, 0), axis=1) - 1
    elder = tl.sum(tl.where(rows[:, None] == sibling[None, :], rows[None, :] + 1, 0), axis=1) - 1
    for _doubling in range(DOUBLINGS):
        named = elder[:, None] == rows[None, :]
        parent = tl.maximum(parent, tl.sum(tl.where(named, parent[None, :] + 1, 0), axis=1) - 1)
        elder = tl.sum(tl.where(named, elder[None, :] + 1, 0), axis=1) - 1
    # Rows that nothing names, fillers and the root, get 0, as from SGLang's kernel.
    cells = parent_ptr + request * parent_request_stride + rows * parent_row_stride
    tl.store(cells, tl.maximum(parent, 0).to(parent_ptr.dtype.element_ty), mask=inside)


def fill_parents(child: torch.Tensor, sibling: torch.Tensor, parent: torch.Tensor) -> None:
    """Fills ``parent`` [b, N] from each row's first child and next sibling, int [b, N] with -1 for none; 0 where nothing names a row."""
    bs, rows = parent.shape
    padded = triton.next_power_of_2(rows)
    strides = (*child.stride(), *sibling.stride(), *parent.stride())
    _parents_kernel[(bs,)](
        child, sibling, parent, *strides, N=rows, N_POW2=padded, DOUBLINGS=padded.bit_length() - 1, num_warps=4
    )


def links(parents: list[int]) -> tuple[list[int], list[int]]:
    """First child and next sibling of every row, -1 for none, children in the order of their rows. The root's parent is ignored."""
    child, sibling, last = [-1] * len(parents), [-1] * len(parents), {}
    for row, parent in enumerate(parents[1:], start=1):
        (sibling if parent in last else child)[last.get(parent, parent)] = row
        last[parent] = row
    return child, sibling


def fills_parents(rows: int, device: torch.device | str) -> bool:
    """Whether :func:`fill_parents` is right, on this device, for a tree of ``rows`` rows in which siblings and generations are mixed."""
    expected = [0, *((row * 7 % 11) * row // 11 for row in range(1, rows))]
    pair = (torch.tensor([one, [-1] * rows], dtype=torch.int32, device=device) for one in links(expected))
    found = torch.full((2, rows), -7, dtype=torch.int32, device=device)
    fill_parents(*pair, found)
    return found.tolist() == [expected, [0] * rows]


@triton.jit
def _above(parent_ptr, row_stride, node):
    """The parent of ``node``; of the root, -1, and from there on -2, -3: inputs before the tree."""
    parent = tl.load(parent_ptr + tl.maximum(node, 0) * row_stride).to(tl.int32)
    # A filler's parent, or a warm-up's, is anything.
    parent = tl.where((parent >= 0) & (parent < node), parent, -1)
    return tl.where(node > 0, parent, tl.minimum(node, 0) - 1)


@triton.jit
def _input(x_ptr, x_row_stride, state_ptr, state_tap_stride, node, mask, TAPS: tl.constexpr):
    """The input at ``node``, or what the request's window holds of it."""
    inside = tl.load(x_ptr + tl.maximum(node, 0) * x_row_stride, mask=mask & (node >= 0), other=0.0)
    before = tl.load(
        state_ptr + (TAPS - 1 + tl.minimum(node, -1)) * state_tap_stride, mask=mask & (node < 0), other=0.0
    )
    return tl.where(node >= 0, inside, before.to(inside.dtype))


@triton.jit
def _tree_conv_kernel(
    x_ptr,
    weight_ptr,
    bias_ptr,
    state_ptr,
    slot_ptr,
    parent_ptr,
    window_ptr,
    window_slot_ptr,
    out_ptr,
    dim,
    x_request_stride,
    x_dim_stride,
    x_row_stride,
    weight_dim_stride,
    weight_tap_stride,
    state_slot_stride,
    state_dim_stride,
    state_tap_stride,
    parent_request_stride,
    parent_row_stride,
    window_slot_stride,
    window_row_stride,
    window_dim_stride,
    window_tap_stride,
    out_request_stride,
    out_dim_stride,
    out_row_stride,
    HAS_BIAS: tl.constexpr,
    SILU: tl.constexpr,
    BLOCK: tl.constexpr,
    TAPS: tl.constexpr,
):
    row = tl.program_id(1)
    request = tl.program_id(2).to(tl.int64)
    slot = tl.load(slot_ptr + request).to(tl.int64)
    if slot >= 0:
        dims = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        mask = dims < dim
        x = x_ptr + request * x_request_stride + dims * x_dim_stride
        state = state_ptr + slot * state_slot_stride + dims * state_dim_stride
        weight = weight_ptr + dims * weight_dim_stride
        parent = parent_ptr + request * parent_request_stride

        one = _above(parent, parent_row_stride, row)
        two = _above(parent, parent_row_stride, one)
        three = _above(parent, parent_row_stride, two)
        newest = tl.load(x + row * x_row_stride, mask=mask, other=0.0)
        first = _input(x, x_row_stride, state, state_tap_stride, one, mask, TAPS)
        second = _input(x, x_row_stride, state, state_tap_stride, two, mask, TAPS)
        third = _input(x, x_row_stride, state, state_tap_stride, three, mask, TAPS)

        total = tl.zeros((BLOCK,), dtype=tl.float32)
        if HAS_BIAS:
            total += tl.load(bias_ptr + dims, mask=mask, other=0.0).to(tl.float32)
        # In the inputs' own precision, as SGLang's kernel.
        total += third * tl.load(weight, mask=mask, other=0.0)
        total += second * tl.load(weight + weight_tap_stride, mask=mask, other=0.0)
        total += first * tl.load(weight + 2 * weight_tap_stride, mask=mask, other=0.0)
        total += newest * tl.load(weight + 3 * weight_tap_stride, mask=mask, other=0.0)
        if SILU:
            total = total / (1.0 + tl.exp(-total))
        out = out_ptr + request * out_request_stride + row * out_row_stride + dims * out_dim_stride
        tl.store(out, total.to(out_ptr.dtype.element_ty), mask=mask)

        window_slot = tl.load(window_slot_ptr + request).to(tl.int64)
        window = window_ptr + window_slot * window_slot_stride + row * window_row_stride + dims * window_dim_stride
        tl.store(window, second.to(window_ptr.dtype.element_ty), mask=mask)
        tl.store(window + window_tap_stride, first.to(window_ptr.dtype.element_ty), mask=mask)
        tl.store(window + 2 * window_tap_stride, newest.to(window_ptr.dtype.element_ty), mask=mask)


def tree_conv(
    x: torch.Tensor,
    state: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    silu: bool,
    *,
    slots: torch.Tensor,
    parent: torch.Tensor,
    windows: torch.Tensor,
    window_slots: torch.Tensor,
    block: int = 128,
) -> torch.Tensor:
    """Outputs of a tree's rows, like ``x`` [b, dim, N]; fills ``windows`` [requests, N, dim, 3] at ``window_slots`` [b].

    ``state`` [slots, dim, 3] holds the inputs before the tree, oldest first, and is only read; ``slots`` [b] names each request's, -1
    none. ``weight`` [dim, 4], ``bias`` [dim]. ``parent`` [b, N], the root's is ignored.
    """
    bs, dim, rows = x.shape
    out = torch.empty_like(x)
    _tree_conv_kernel[(triton.cdiv(dim, block), rows, bs)](
        x,
        weight,
        weight if bias is None else bias,
        state,
        slots,
        parent,
        windows,
        window_slots,
        out,
        dim,
        *x.stride(),
        *weight.stride(),
        *state.stride(),
        *parent.stride(),
        *windows.stride(),
        *out.stride(),
        HAS_BIAS=bias is not None,
        SILU=silu,
        BLOCK=block,
        TAPS=WIDTH,
        num_warps=4,
    )
    return out


def wrapped(
    original: Callable[..., torch.Tensor], conv_pool: torch.Tensor, parents_too: bool = True
) -> Callable[..., torch.Tensor]:
    """SGLang's `causal_conv1d_update` with trees taken by :func:`tree_conv`.

    Args:
        conv_pool: windows of all layers, [S, slots, dim, 3].
        parents_too: the first layer, in which SGLang's kernel fills ``retrieve_parent_token`` for the others, is taken as well.
    """

    def causal_conv1d_update(
        x: torch.Tensor,
        conv_state: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None = None,
        activation: str | bool | None = None,
        **rest: Any,
    ) -> torch.Tensor:
        parent = rest.get("retrieve_parent_token")
        windows = rest.get("intermediate_conv_window")
        first = conv_state.data_ptr() == conv_pool.data_ptr()
        if parent is None or windows is None or (first and not parents_too) or weight.shape[-1] != WIDTH:
            return original(x, conv_state, weight, bias, activation, **rest)
        if first:
            fill_parents(rest["retrieve_next_token"], rest["retrieve_next_sibling"], parent)
        return tree_conv(
            x,
            conv_state,
            weight,
            bias,
            activation in ("silu", "swish", True),
            slots=rest["conv_state_indices"],
            parent=parent,
            windows=windows,
            window_slots=rest["intermediate_state_indices"],
        )

    return causal_conv1d_update


def install(model_runner: Any, rows: int) -> bool:
    """Use :func:`tree_conv` for trees of ``rows`` rows in the target's gated delta nets, unless it is switched off."""
    if os.environ.get(TREE_CONV_ENV) == "0":
        return False
    from sglang.srt.layers.attention.linear import gdn_backend

    pool = model_runner.req_to_token_pool.get_speculative_mamba2_params_all_layers().conv[0]
    try:
        wrong = None if fills_parents(rows, pool.device) else "it made other parents than a known tree's"
    except Exception as error:  # a compiler's or driver's: SGLang's kernel serves as well
        wrong = f"it does not run: {error}"
    if wrong:
        logger.warning(
            "DDTREE: the parents' kernel is not used on this device, SGLang's convolution makes them: %s.", wrong
        )
    gdn_backend.causal_conv1d_update = wrapped(gdn_backend.causal_conv1d_update, pool, parents_too=not wrong)
    return True
