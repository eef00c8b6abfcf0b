# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""Memory of verify rows: bytes, who keeps no states, and the two places where SGLang counts and makes them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from ddtree.sglang import states
from ddtree.sglang.config import ConfigError, plan_memory

GIB = 2**30
# 48 gated-delta-net layers of 48 heads of 128 x 128 in float32: Qwen3.6-27B.
HYBRID = SimpleNamespace(
    layer_types=["linear_attention", "linear_attention", "linear_attention", "full_attention"] * 16,
    linear_num_value_heads=48,
    linear_num_key_heads=16,
    linear_key_head_dim=128,
    linear_value_head_dim=128,
    linear_conv_kernel_dim=4,
)
# The same, said by its configuration in the other way.
BY_INTERVAL = SimpleNamespace(**{**vars(HYBRID), "layer_types": None}, num_hidden_layers=64, full_attention_interval=4)


def test_bytes_of_a_row_with_and_without_a_state() -> None:
    state = 48 * (48 * 128 * 128 * 4 + 10240 * 3 * 2)
    assert states.state_bytes(HYBRID, 1) == states.state_bytes(BY_INTERVAL, 1) == state
    kept = 48 * ((16 * 128 + 48 * 128 + 48) * 4 + 10240 * 3 * 2)
    assert states.row_bytes(HYBRID, 1) == kept
    assert states.row_bytes(HYBRID, 2) == kept // 2
    assert kept < state / 30


@pytest.mark.parametrize(
    ("rows", "topk", "environ", "expected"),
    [
        (17, 16, {}, True),
        (65, 16, {}, True),
        (66, 16, {}, False),
        (16, 1, {}, False),
        (17, 16, {"SGLANG_DDTREE_COMPACT_STATES": "1", "SGLANG_DDTREE_TREE_RECURRENCE": "0"}, False),
        (17, 16, {"SGLANG_DDTREE_COMPACT_STATES": "0"}, False),
        (17, 16, {"SGLANG_DDTREE_COMPACT_STATES": "1"}, True),
    ],
)
def test_whose_rows_keep_no_states(rows: int, topk: int, environ: dict[str, str], expected: bool) -> None:
    assert states.is_compact(rows, topk, environ) is expected


def test_state_of_a_27b_hybrid() -> None:
    state = states.state_bytes(HYBRID, 1)
    assert 150e6 < state < 156e6
    assert states.state_bytes(HYBRID, 2) == state // 2


def always(size: int) -> Callable[[int], int]:
    return lambda rows: size


def test_running_requests_follow_from_memory() -> None:
    state = states.state_bytes(HYBRID, 1)
    how: dict[str, Any] = {"rows": 17, "state_bytes": state, "row_bytes": always(state), "available_bytes": 70 * GIB}
    plan = plan_memory(**how, requested=None)
    need = ((plan.max_running_requests + 1) * 17 + plan.max_running_requests * 3 + 1) * state
    assert need <= 0.8 * 70 * GIB < need + 20 * state
    small = {**how, "state_bytes": 1000, "row_bytes": always(1000)}
    assert plan_memory(**small, requested=None).max_running_requests == 48
    assert plan_memory(**how, requested=4).max_running_requests == 4


def test_a_budget_that_does_not_fit_names_the_largest_that_does() -> None:
    state = states.state_bytes(HYBRID, 1)
    how: dict[str, Any] = {
        "state_bytes": state,
        "row_bytes": always(state),
        "available_bytes": 70 * GIB,
        "requested": 8,
    }
    with pytest.raises(ConfigError) as error:
        plan_memory(rows=65, **how)
    best = int(str(error.value).split("--speculative-ddtree-budget ")[1].split()[0])
    plan_memory(rows=best + 1, **how)
    with pytest.raises(ConfigError):
        plan_memory(rows=best + 2, **how)
    with pytest.raises(ConfigError, match="DFLASH"):
        plan_memory(rows=17, **{**how, "available_bytes": GIB})
    # A tree below the drafter's block would be refused, so none is named.
    with pytest.raises(ConfigError, match="No tree fits"):
        plan_memory(rows=65, least_rows=best + 2, **how)


def test_more_requests_fit_without_states() -> None:
    """A card of 96 GiB with 27 GiB left by the weights."""
    state, kept = states.state_bytes(HYBRID, 1), states.row_bytes(HYBRID, 1)
    how: dict[str, Any] = {"state_bytes": state, "available_bytes": 27 * GIB}
    assert plan_memory(rows=17, row_bytes=always(state), requested=None, **how).max_running_requests == 6
    assert plan_memory(rows=17, row_bytes=always(kept), requested=None, **how).max_running_requests == 42
    with pytest.raises(ConfigError, match="147 MiB a row"):
        plan_memory(rows=65, row_bytes=always(state), requested=4, **how)
    assert plan_memory(rows=65, row_bytes=always(kept), requested=4, **how).max_running_requests == 4
    with pytest.raises(ConfigError, match="4 MiB a row"):
        plan_memory(rows=65, row_bytes=always(kept), requested=400, **how)
    # Above what the tree recurrence takes, rows keep states again: the largest budget that fits is one without.
    with pytest.raises(ConfigError, match=r"147 MiB a row.*--speculative-ddtree-budget 64 "):
        plan_memory(rows=101, row_bytes=lambda n: kept if n <= 65 else state, requested=8, **how)


def module(monkeypatch: pytest.MonkeyPatch, name: str, **names: Any) -> ModuleType:
    """A module of SGLang's pools under its own name, where SGLang is not."""
    path = f"sglang.srt.mem_cache.{name}"
    parts = path.split(".")
    for number in range(1, len(parts)):
        parent = ".".join(parts[:number])
        if parent not in sys.modules:
            monkeypatch.setitem(sys.modules, parent, ModuleType(parent))
    made = ModuleType(path)
    vars(made).update(names)
    monkeypatch.setitem(sys.modules, path, made)
    monkeypatch.setattr(sys.modules["sglang.srt.mem_cache"], name, made, raising=False)
    return made


def test_the_pool_is_sized_for_what_rows_keep(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = SimpleNamespace(speculative_num_draft_tokens=17, speculative_algorithm="DDTREE")
    there = module(monkeypatch, "kv_cache_configurator", get_spec=lambda: spec)
    per_request = states.state_bytes(HYBRID, 2)
    configurator = SimpleNamespace(
        server_args=SimpleNamespace(tp_size=2),
        mambaish_config=SimpleNamespace(
            **vars(HYBRID), mamba2_cache_params=SimpleNamespace(mamba_cache_per_req=per_request)
        ),
    )

    def original(self: Any, rest: float) -> float:
        assert there.get_spec().speculative_algorithm == "DDTREE"
        return rest - per_request * there.get_spec().speculative_num_draft_tokens

    assert states.size_pool(original, configurator, 1e12) == pytest.approx(1e12 - 17 * states.row_bytes(HYBRID, 2))
    assert there.get_spec() is spec

    def fails(self: Any, rest: float) -> float:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        states.size_pool(fails, configurator, 1e12)
    assert there.get_spec() is spec


def test_the_pool_is_made_with_one_cell_for_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    there = module(monkeypatch, "memory_pool", torch=torch)

    def original(pool: SimpleNamespace, *, size: int, cache_params: Any, speculative_num_draft_tokens: int) -> None:
        heads, value, key = cache_params.shape.temporal
        pool.temporal = there.torch.zeros(size=(3, size + 1, heads, value, key), dtype=there.torch.float32)
        pool.rows = there.torch.zeros(
            size=(3, size + 1, speculative_num_draft_tokens, heads, value, key), dtype=there.torch.float32, device="cpu"
        )
        pool.windows = there.torch.zeros((3, size + 1, speculative_num_draft_tokens, 24, 3), dtype=there.torch.bfloat16)

    pool = SimpleNamespace()
    params = SimpleNamespace(shape=SimpleNamespace(temporal=(4, 8, 8)))
    states.make_pool(original, pool, size=5, cache_params=params, speculative_num_draft_tokens=17)
    assert pool.rows.shape == (3, 6, 17, 4, 8, 8)
    assert pool.rows.untyped_storage().nbytes() == 4
    assert pool.temporal.untyped_storage().nbytes() == 3 * 6 * 4 * 64 * 4
    assert pool.windows.is_contiguous()
    assert there.torch is torch
