# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""The gated delta rule over a tree, in Triton's interpreter, against the rule taken one row after the other in float64."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch

pytest.importorskip("triton", reason="triton is not installed")

import triton.language as tl
from ddtree.sglang import recurrent
from ddtree.tree import ancestor_mask

H, HV, K, V = 2, 4, 32, 32


@pytest.fixture(autouse=True)
def _bfloat16_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton's interpreter (3.6) keeps bfloat16 as its bits, and its tl.dot multiplies the bits."""
    from triton.runtime import interpreter

    original: Callable = interpreter.InterpreterBuilder.create_dot

    def create_dot(self: object, a: interpreter.TensorHandle, b: interpreter.TensorHandle, *rest: object) -> object:
        def widened(x: interpreter.TensorHandle) -> interpreter.TensorHandle:
            if x.dtype.scalar != tl.bfloat16:
                return x
            bits = np.ascontiguousarray(x.data).view(np.uint16).astype(np.uint32) << 16
            return interpreter.TensorHandle(bits.view(np.float32), tl.float32)

        return original(self, widened(a), widened(b), *rest)

    monkeypatch.setattr(interpreter.InterpreterBuilder, "create_dot", create_dot)


def random_tree(rows: int, deepest: int, generator: torch.Generator, fillers: int = 0) -> list[int]:
    """Parents of a random tree with every parent before its children; fillers at the end have none."""
    parent, depth = [-1], [0]
    for _row in range(1, rows - fillers):
        open_rows = [i for i in range(len(parent)) if depth[i] < deepest]
        chosen = open_rows[int(torch.randint(0, len(open_rows), (1,), generator=generator))]
        parent.append(chosen)
        depth.append(depth[chosen] + 1)
    return parent + [-1] * fillers


def layer(bs: int, rows: int, slots: int, generator: torch.Generator, dtype: torch.dtype = torch.float32) -> dict:
    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator).to(dtype)

    # The layer's q, k and v are views of one projection, so their rows lie apart.
    mixed = normal(1, bs * rows, 2 * H * K + HV * V)
    return {
        "q": mixed[..., : H * K].unflatten(-1, (H, K)),
        "k": mixed[..., H * K : 2 * H * K].unflatten(-1, (H, K)),
        "v": mixed[..., 2 * H * K :].unflatten(-1, (HV, V)),
        "a": normal(bs * rows, HV),
        "b": normal(bs * rows, HV),
        "a_log": torch.rand(HV, generator=generator),
        "dt_bias": torch.rand(HV, generator=generator),
        "states": torch.randn(slots, HV, V, K, generator=generator),
    }


def by_rows(one: dict, parents: list[list[int]], slots: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Outputs [b, N, HV, V] and states [b, N, HV, V, K] in float64, each row from its parent's state."""
    bs, rows = len(parents), len(parents[0])
    q, k, v = (one[n][0].double().unflatten(0, (bs, rows)) for n in "qkv")
    a, b = (one[n].double().unflatten(0, (bs, rows)) for n in "ab")
    outputs = torch.zeros(bs, rows, HV, V, dtype=torch.float64)
    states = torch.zeros(bs, rows, HV, V, K, dtype=torch.float64)
    for r in range(bs):
        for i in range(rows):
            for h in range(HV):
                before = torch.zeros(V, K, dtype=torch.float64)
                if parents[r][i] >= 0:
                    before = states[r, parents[r][i], h]
                elif slots[r] >= 0:
                    before = one["states"][slots[r], h].double()
                key = k[r, i, h // (HV // H)]
                key = key / (key.square().sum() + 1e-6).sqrt()
                query = q[r, i, h // (HV // H)]
                query = query / (query.square().sum() + 1e-6).sqrt() / math.sqrt(K)
                x = a[r, i, h] + one["dt_bias"][h].double()
                decayed = before * torch.exp(-one["a_log"][h].double().exp() * torch.nn.functional.softplus(x))
                update = torch.sigmoid(b[r, i, h]) * (v[r, i, h] - decayed @ key)
                states[r, i, h] = decayed + update[:, None] * key[None, :]
                outputs[r, i, h] = states[r, i, h] @ query
    return outputs, states


@pytest.mark.parametrize(("rows", "deepest"), [(16, 15), (17, 15), (33, 7), (65, 15), (5, 3)])
def test_the_mask_is_the_trees(rows: int, deepest: int) -> None:
    generator = torch.Generator().manual_seed(rows)
    parents = [random_tree(rows, deepest, generator) for dummy in range(3)]
    mask = torch.full((3, rows - 1, rows - 1), 7, dtype=torch.uint8)
    recurrent.ancestors(torch.tensor(parents, dtype=torch.int64), mask, deepest)
    assert torch.equal(mask.bool(), ancestor_mask(torch.tensor(parents))[:, 1:, 1:])


def test_the_mask_of_garbage_stays_within_the_tree() -> None:
    """A graph's warm-up runs on parents that nothing has written yet."""
    mask = torch.zeros((1, 5, 5), dtype=torch.uint8)
    recurrent.ancestors(torch.tensor([[99, 0, 5, -7, 3, 2**40]]), mask, 4)
    assert mask[0].tolist()[3] == [0, 0, 1, 1, 0]
    assert torch.equal(mask[0].triu(1), torch.zeros(5, 5, dtype=torch.uint8))


def run(one: dict, parents: list[list[int]], slots: list[int], deepest: int, requests: int | None = None):
    bs, rows = len(parents), len(parents[0])
    parent = torch.tensor(parents)
    mask = torch.zeros((bs, rows - 1, rows - 1), dtype=torch.uint8)
    recurrent.ancestors(parent, mask, deepest)
    kept = {
        "keys": torch.zeros(requests or bs, rows, H, K),
        "updates": torch.zeros(requests or bs, rows, HV, V),
        "gates": torch.zeros(requests or bs, rows, HV),
    }
    out = recurrent.verify(
        **one, slots=torch.tensor(slots, dtype=torch.int32), mask=mask, max_depth=deepest, **kept, precision="ieee"
    )
    return out.unflatten(0, (bs, rows)), kept, parent


@pytest.mark.parametrize(
    ("rows", "deepest", "fillers"),
    [(16, 15, 0), (17, 15, 0), (18, 15, 0), (33, 15, 5), (65, 15, 0), (9, 3, 2), (3, 2, 0), (2, 1, 0)],
)
def test_outputs_are_those_of_one_row_after_the_other(rows: int, deepest: int, fillers: int) -> None:
    generator = torch.Generator().manual_seed(rows)
    parents = [random_tree(rows, deepest, generator, fillers) for dummy in range(2)]
    one = layer(2, rows, 4, generator)
    out = run(one, parents, [3, 1], deepest)[0]
    expected = by_rows(one, parents, [3, 1])[0]
    real = rows - fillers
    torch.testing.assert_close(out[:, :real].double(), expected[:, :real], rtol=2e-5, atol=2e-5)
    assert torch.isfinite(out).all()


def test_a_chain_of_the_whole_block() -> None:
    generator = torch.Generator().manual_seed(1)
    one = layer(1, 16, 1, generator)
    chain = [list(range(-1, 15))]
    torch.testing.assert_close(run(one, chain, [0], 15)[0].double(), by_rows(one, chain, [0])[0], rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_sixteen_bit_inputs_keep_their_dtype_and_lose_nothing_else(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(2)
    one = layer(1, 17, 1, generator, dtype)
    parents = [random_tree(17, 15, generator)]
    out, kept, dummy = run(one, parents, [0], 15)
    assert out.dtype == dtype
    outputs, states = by_rows(one, parents, [0])
    torch.testing.assert_close(out.double(), outputs, rtol=2 * torch.finfo(dtype).eps, atol=2e-5)
    # What the commit takes is float32: the state after the last row, from the products of 16-bit values.
    made = torch.zeros(1, 1, 17, HV, V, K)
    recurrent.make_states(
        one["states"][None],
        torch.tensor([0]),
        torch.tensor(parents),
        torch.tensor([16]),
        **{n: t[None] for n, t in kept.items()},
        out=made,
        max_depth=15,
    )
    torch.testing.assert_close(made[0, 0, 16].double(), states[0, 16], rtol=2e-5, atol=2e-5)


def test_strong_gates_do_not_overflow() -> None:
    generator = torch.Generator().manual_seed(3)
    one = layer(1, 33, 1, generator)
    one["a"] += 60.0  # a gate of e^-100 and less a row
    parents = [random_tree(33, 15, generator)]
    out = run(one, parents, [0], 15)[0]
    torch.testing.assert_close(out.double(), by_rows(one, parents, [0])[0], rtol=2e-5, atol=2e-5)


def test_a_padded_request_has_no_state_and_touches_none() -> None:
    generator = torch.Generator().manual_seed(4)
    one = layer(2, 17, 2, generator)
    parents = [random_tree(17, 15, generator) for dummy in range(2)]
    before = one["states"].clone()
    out = run(one, parents, [1, -1], 15)[0]
    torch.testing.assert_close(out.double(), by_rows(one, parents, [1, -1])[0], rtol=2e-5, atol=2e-5)
    assert torch.equal(one["states"], before)


def pool(layers: int, requests: int, rows: int, slots: int, generator: torch.Generator):
    temporal = torch.randn(layers, slots, HV, V, K, generator=generator)
    intermediate = torch.full((layers, requests, rows, HV, V, K), 777.0)
    return temporal, intermediate


def verify_layer(
    whole: recurrent.TreeRecurrence, number: int, one: dict, parents: list[list[int]], slots: list[int]
) -> None:
    """One layer's verification, with what SGLang hands to its kernel."""
    given = {n: one[n] for n in "qkvab"}
    whole.target_verify(
        one["a_log"],
        one["dt_bias"],
        **given,
        ssm_states=whole.temporal[number],
        cache_indices=torch.tensor(slots, dtype=torch.int32),
        query_start_loc=None,
        cache_steps=len(parents[0]),
        retrieve_parent_token=torch.tensor(parents),
    )


def test_states_of_accepted_rows_and_no_others() -> None:
    """Two layers of a pool, three requests of which one accepts nothing; prefix caching wants a row on one path."""
    generator = torch.Generator().manual_seed(5)
    rows, deepest = 33, 15
    temporal, intermediate = pool(2, 4, rows, 5, generator)
    whole = recurrent.TreeRecurrence(temporal, intermediate, H, deepest)
    parents = [random_tree(rows, deepest, generator) for dummy in range(3)]
    slots, steps, tracked = [4, 0, 2], [rows - 1, -1, 0], [parents[0][rows - 1], -1, -1]
    layers = []
    for number in range(2):
        one = layer(3, rows, 5, generator)
        layers.append({**one, "states": temporal[number]})
        verify_layer(whole, number, one, parents, slots)
    whole.make(
        torch.tensor(slots, dtype=torch.int32), torch.tensor(parents), [torch.tensor(steps), torch.tensor(tracked)]
    )
    for number, one in enumerate(layers):
        expected = by_rows(one, parents, slots)[1]
        for request, row in [(0, steps[0]), (0, tracked[0]), (2, 0)]:
            torch.testing.assert_close(
                intermediate[number, request, row].double(), expected[request, row], rtol=2e-4, atol=2e-4
            )
            intermediate[number, request, row] = 777.0
    assert (intermediate == 777.0).all()


@pytest.mark.parametrize("tracks", [True, False])
def test_accepted_states_in_place(tracks: bool) -> None:
    """Without states a row: a request's own slot becomes the accepted row's state, another slot the tracked row's, and no more."""
    generator = torch.Generator().manual_seed(9)
    rows, deepest = 17, 15
    temporal = pool(2, 1, rows, 6, generator)[0]
    fresh = temporal.clone()
    nothing = torch.zeros((1,) * 6).expand(2, 4, rows, HV, V, K)
    whole = recurrent.TreeRecurrence(temporal, nothing, H, deepest)
    parents = [random_tree(rows, deepest, generator) for dummy in range(3)]
    slots, steps = [4, 0, 2], [rows - 1, -1, 3]
    tracked_slots, tracked_steps = [1, 5, 3], [parents[0][rows - 1], -1, -1]
    layers = []
    for number in range(2):
        one = {**layer(3, rows, 6, generator), "states": fresh[number]}
        layers.append(one)
        verify_layer(whole, number, one, parents, slots)
    whole.commit(
        torch.tensor(slots, dtype=torch.int32),
        torch.tensor(parents),
        torch.tensor(steps),
        torch.tensor(tracked_slots) if tracks else None,
        torch.tensor(tracked_steps) if tracks else None,
    )
    for number, one in enumerate(layers):
        wanted = fresh[number].double()
        expected = by_rows(one, parents, slots)[1]
        for request, row, slot in [(0, steps[0], 4), (2, 3, 2)] + [(0, tracked_steps[0], 1)] * tracks:
            wanted[slot] = expected[request, row]
        torch.testing.assert_close(temporal[number].double(), wanted, rtol=2e-4, atol=2e-4)
        untouched = [s for s in range(6) if s not in ({4, 2, 1} if tracks else {4, 2})]
        assert torch.equal(temporal[number][untouched], fresh[number][untouched])


def test_a_view_that_is_not_of_the_pool_is_refused() -> None:
    generator = torch.Generator().manual_seed(6)
    temporal, intermediate = pool(2, 1, 17, 3, generator)
    whole = recurrent.TreeRecurrence(temporal, intermediate, H, 15)
    assert whole.layer_of(temporal[1]) == 1
    with pytest.raises(RuntimeError, match="not in the target's pool"):
        whole.layer_of(temporal[1, 1])


class Nets:
    """Stands for SGLang's GDNAttnBackend, which does not import without a GPU's packages."""

    def __init__(self) -> None:
        self.kernel_dispatcher = SimpleNamespace(tree_verify_kernel="SGLang's")


def target(backend: object, states: object) -> SimpleNamespace:
    pool = SimpleNamespace(get_speculative_mamba2_params_all_layers=lambda: states)
    return SimpleNamespace(attn_backend=SimpleNamespace(linear_attn_backend=backend), req_to_token_pool=pool)


@pytest.fixture
def nets(monkeypatch: pytest.MonkeyPatch) -> Nets:
    module = "sglang.srt.layers.attention.linear.gdn_backend"
    parts = module.split(".")
    for number in range(1, len(parts)):
        monkeypatch.setitem(sys.modules, ".".join(parts[:number]), ModuleType(parts[number - 1]))
    monkeypatch.setitem(sys.modules, module, SimpleNamespace(GDNAttnBackend=Nets))
    return Nets()


def test_it_takes_the_place_of_the_tree_kernel(nets: Nets) -> None:
    temporal, intermediate = pool(2, 3, 17, 4, torch.Generator().manual_seed(7))
    states = SimpleNamespace(temporal=temporal, intermediate_ssm=intermediate)
    made = recurrent.install(target(nets, states), H, 17, 15)
    assert nets.kernel_dispatcher.tree_verify_kernel is made
    assert made.keys.shape == (2, 3, 17, H, K)
    assert made.updates.shape == (2, 3, 17, HV, V)
    assert made.max_depth == 15


@pytest.mark.parametrize(
    ("backend", "rows", "kept", "reason"),
    [
        ("another", 17, True, "this target has SimpleNamespace"),
        ("nets", 66, True, "--speculative-ddtree-budget 64 is the largest for it"),
        ("nets", 17, False, "SGLang keeps no states a row here"),
    ],
)
@pytest.mark.parametrize(("asked", "level"), [(None, "INFO"), ("1", "WARNING")])
def test_what_it_does_not_serve_keeps_sglangs_kernel(
    nets: Nets,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    backend: str,
    rows: int,
    kept: bool,
    reason: str,
    asked: str | None,
    level: str,
) -> None:
    caplog.set_level("INFO", logger=recurrent.logger.name)
    monkeypatch.delenv(recurrent.TREE_RECURRENCE_ENV, raising=False)
    if asked:
        monkeypatch.setenv(recurrent.TREE_RECURRENCE_ENV, asked)
    temporal, intermediate = pool(1, 1, rows, 2, torch.Generator().manual_seed(8))
    states = SimpleNamespace(temporal=temporal, intermediate_ssm=intermediate if kept else None)
    chosen = nets if backend == "nets" else SimpleNamespace()
    assert recurrent.install(target(chosen, states), H, rows, 15) is None
    assert nets.kernel_dispatcher.tree_verify_kernel == "SGLang's"
    assert [r.levelname for r in caplog.records if reason in r.getMessage()] == [level]
    with pytest.raises(RuntimeError, match="Set SGLANG_DDTREE_COMPACT_STATES=0"):
        recurrent.install(target(chosen, states), H, rows, 15, compact=True)
