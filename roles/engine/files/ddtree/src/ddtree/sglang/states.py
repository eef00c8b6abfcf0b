# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""What a verify row of a gated delta net target costs in memory, and how SGLang is told that no row keeps a state.

SGLang allocates every verify row's recurrent state (147 MiB a row and request for a 27B target) and sizes its pools for it. The tree
recurrence needs none of them: it keeps k, u and G of each row (1.6 MB) and writes the accepted row's state straight into the request's own slot.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

TREE_RECURRENCE_ENV = "SGLANG_DDTREE_TREE_RECURRENCE"
"""0 keeps SGLang's kernel; 1 warns where this one cannot serve, which is otherwise only said."""
COMPACT_STATES_ENV = "SGLANG_DDTREE_COMPACT_STATES"
"""0 allocates and counts SGLang's states a row, which the tree recurrence does not need."""
MAX_RECURRENCE_ROWS = 65
"""Rows of the largest tree for the tree recurrence, root included: its matrices of more than 64 rows spill out of the register file."""


def is_compact(rows: int, topk: int, environ: Mapping[str, str] | None = None) -> bool:
    """Whether the rows of such a tree keep no states: the tree recurrence serves it, and neither is switched off."""
    environ = os.environ if environ is None else environ
    serves = topk > 1 and rows <= MAX_RECURRENCE_ROWS
    return serves and "0" not in (environ.get(TREE_RECURRENCE_ENV), environ.get(COMPACT_STATES_ENV))


def linear_layers(text_config: Any) -> int:
    """Gated delta net layers of a target."""
    explicit = getattr(text_config, "layer_types", None)
    if explicit:
        return sum(kind == "linear_attention" for kind in explicit)
    every = int(getattr(text_config, "full_attention_interval", 4))
    return sum((i + 1) % every != 0 for i in range(text_config.num_hidden_layers))


def conv_bytes(text_config: Any) -> int:
    """Bytes of one layer's convolution window of one row, in 16 bit, on one GPU."""
    heads, key_heads = text_config.linear_num_value_heads, text_config.linear_num_key_heads
    channels = 2 * key_heads * text_config.linear_key_head_dim + heads * text_config.linear_value_head_dim
    return channels * (text_config.linear_conv_kernel_dim - 1) * 2


def state_bytes(text_config: Any, tp_size: int) -> int:
    """Bytes of one row's recurrent and convolution state over all linear layers of one tensor-parallel rank.

    Gated delta net: SSM [value heads, key dim, value dim] in float32, convolution window in 16 bit.
    """
    key_dim, value_dim = text_config.linear_key_head_dim, text_config.linear_value_head_dim
    ssm = text_config.linear_num_value_heads * key_dim * value_dim * 4
    return linear_layers(text_config) * (ssm + conv_bytes(text_config)) // tp_size


def row_bytes(text_config: Any, tp_size: int) -> int:
    """Bytes of one row without a recurrent state: its k, u and G in float32, and its convolution window."""
    heads = text_config.linear_num_value_heads
    kept = text_config.linear_num_key_heads * text_config.linear_key_head_dim
    kept += heads * text_config.linear_value_head_dim + heads
    return linear_layers(text_config) * (kept * 4 + conv_bytes(text_config)) // tp_size


@contextlib.contextmanager
def _in_place_of(module: Any, name: str, value: Any) -> Iterator[None]:
    before = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, before)


class _Around:
    """Something's attributes, with some of them changed."""

    def __init__(self, base: Any, **changed: Any) -> None:
        self.__dict__.update(changed)
        self._base = base

    def __getattr__(self, name: str) -> Any:
        return getattr(self._base, name)


def size_pool(original: Callable[..., Any], configurator: Any, total_rest_memory: float) -> Any:
    """`KVCacheConfigurator._handle_max_mamba_cache`, which counts a state for every verify row, counting what a row keeps."""
    from sglang.srt.mem_cache import kv_cache_configurator as module

    spec = module.get_spec()
    config = configurator.mambaish_config
    a_row = row_bytes(config, int(configurator.server_args.tp_size))
    rows = spec.speculative_num_draft_tokens * a_row / config.mamba2_cache_params.mamba_cache_per_req
    seen = _Around(spec, speculative_num_draft_tokens=rows)
    with _in_place_of(module, "get_spec", lambda: seen):
        return original(configurator, total_rest_memory)


def make_pool(original: Callable[..., Any], pool: Any, **passed: Any) -> Any:
    """`MambaPool.__init__` with one cell in place of the states a row: they have their shape, and nobody reads or writes them."""
    from sglang.srt.mem_cache import memory_pool as module

    torch = module.torch
    rows, state = passed.get("speculative_num_draft_tokens"), tuple(passed["cache_params"].shape.temporal)

    def zeros(*size: Any, **options: Any) -> Any:
        shape = tuple(options.get("size", size))
        if len(shape) != 6 or shape[2] != rows or shape[3:] != state:
            return torch.zeros(*size, **options)
        return torch.zeros((1,) * 6, **{k: v for k, v in options.items() if k != "size"}).expand(shape)

    with _in_place_of(module, "torch", _Around(torch, zeros=zeros)):
        return original(pool, **passed)
