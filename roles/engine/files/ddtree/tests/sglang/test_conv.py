# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""The short convolution over a tree, in Triton's interpreter, against torch's convolution over each row's own path."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

pytest.importorskip("triton", reason="triton is not installed")

from ddtree.sglang import conv

DIM, SLOTS = 24, 5


def path_of(parents: list[int], row: int) -> list[int]:
    """Rows from the root to ``row``."""
    path = [row]
    while path[-1] > 0:
        path.append(parents[path[-1]])
    return path[::-1]


def case(bs: int, rows: int, seed: int) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(seed)
    parents = [
        [0, *(int(torch.randint(0, row, (1,), generator=generator)) for row in range(1, rows))] for dummy in range(bs)
    ]
    return {
        # As the layer has them: rows apart, channels side by side.
        "x": torch.randn(bs, rows, DIM, generator=generator).transpose(1, 2),
        "state": torch.randn(SLOTS, DIM, 3, generator=generator),
        "weight": torch.randn(DIM, 4, generator=generator),
        "bias": torch.randn(DIM, generator=generator),
        "parents": parents,
    }


def expected(one: dict[str, Any], request: int, slot: int, row: int, silu: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Output and window of one row: the window before the tree, then the inputs on its path, through a plain convolution."""
    inputs = torch.cat([one["state"][slot], one["x"][request][:, path_of(one["parents"][request], row)]], dim=1)
    total = torch.nn.functional.conv1d(inputs[None].double(), one["weight"][:, None].double(), groups=DIM)[0, :, -1]
    if one["bias"] is not None:
        total = total + one["bias"]
    return torch.nn.functional.silu(total) if silu else total, inputs[:, -3:]


@pytest.mark.parametrize(
    ("rows", "silu", "bias"), [(1, True, True), (2, True, False), (17, True, True), (33, False, True)]
)
def test_rows_are_those_of_their_paths(rows: int, silu: bool, bias: bool) -> None:
    one = case(2, rows, rows)
    one["bias"] = one["bias"] if bias else None
    windows = torch.full((4, rows, DIM, 3), 7.0)
    slots, places, before = [4, 1], [0, 2], one["state"].clone()
    out = conv.tree_conv(
        one["x"],
        one["state"],
        one["weight"],
        one["bias"],
        silu,
        slots=torch.tensor(slots, dtype=torch.int32),
        parent=torch.tensor(one["parents"]),
        windows=windows,
        window_slots=torch.tensor(places, dtype=torch.int32),
        block=16,
    )
    for request in range(2):
        for row in range(rows):
            total, window = expected(one, request, slots[request], row, silu)
            torch.testing.assert_close(out[request, :, row].double(), total.double(), rtol=1e-5, atol=1e-5)
            assert torch.equal(windows[places[request], row], window)
    assert torch.equal(one["state"], before)
    assert (windows[[1, 3]] == 7.0).all()
    assert out.stride() == one["x"].stride()


def test_padding_and_garbage_touch_nothing_else() -> None:
    """A padded request has slot -1; a warm-up's parents are anything."""
    one = case(2, 5, 1)
    windows = torch.full((2, 5, DIM, 3), 7.0)
    parent = torch.tensor([[0, 99, -5, 2, 2**40], [0, 0, 0, 0, 0]])
    out = conv.tree_conv(
        one["x"],
        one["state"],
        one["weight"],
        None,
        True,
        slots=torch.tensor([0, -1], dtype=torch.int32),
        parent=parent,
        windows=windows,
        window_slots=torch.tensor([0, 1], dtype=torch.int32),
    )
    assert torch.isfinite(out[0]).all()
    assert (windows[1] == 7.0).all()


@pytest.mark.parametrize("rows", [1, 2, 17, 33, 65, 128])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_parents_follow_from_children_and_siblings(rows: int, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(rows)
    trees = [
        [0, *(int(torch.randint(0, row, (1,), generator=generator)) for row in range(1, rows))],
        # Every row a child of the root; every row a child of the one before; rows that nothing names.
        [0] * rows,
        [0, *range(rows - 1)],
    ]
    links = [torch.tensor(each, dtype=dtype) for each in zip(*map(conv.links, trees))]
    # A view of something wider, so that strides count.
    child, sibling = (torch.cat([each, torch.full((3, 3), 1, dtype=dtype)], dim=1)[:, :rows] for each in links)
    child[:, rows // 2 :][child[:, rows // 2 :] >= 0] = -1
    for tree in trees:
        named = {row for row, parent in enumerate(tree) if parent < rows // 2}
        tree[:] = [parent if row in named else 0 for row, parent in enumerate(tree)]
    found = torch.full((3, rows), -7, dtype=dtype)
    conv.fill_parents(child, sibling, found)
    assert found.tolist() == trees
    assert conv.fills_parents(rows, "cpu")


def test_parents_of_a_warm_up_are_anything_but_end() -> None:
    """Captured graphs begin with links of zeros, and rows of padding keep an older tree's or none."""
    found = torch.full((2, 5), -7, dtype=torch.int32)
    garbage = torch.tensor([[0, 0, 0, 0, 0], [3, 2**31 - 1, -9, 1, 3]], dtype=torch.int32)
    conv.fill_parents(garbage, garbage.flip(1), found)
    assert (found >= 0).all()


def test_a_wrong_parents_kernel_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conv, "fill_parents", lambda child, sibling, parent: parent.zero_())
    assert not conv.fills_parents(17, "cpu")


def test_trees_of_four_taps_are_taken_in_every_layer() -> None:
    pool = torch.randn(3, SLOTS, DIM, 3)
    seen = []

    def original(x: torch.Tensor, conv_state: torch.Tensor, weight: torch.Tensor, *rest: Any, **more: Any) -> str:
        seen.append((rest, sorted(more)))
        return "SGLang's"

    update = conv.wrapped(original, pool)
    one = case(1, 5, 2)
    links = [torch.tensor([each], dtype=torch.int32) for each in conv.links(one["parents"][0])]
    tree = {
        "conv_state_indices": torch.tensor([1], dtype=torch.int32),
        "intermediate_conv_window": torch.zeros(1, 5, DIM, 3),
        "intermediate_state_indices": torch.tensor([0], dtype=torch.int32),
        "retrieve_next_token": links[0],
        "retrieve_next_sibling": links[1],
        "retrieve_parent_token": torch.full((1, 5), -7, dtype=torch.int32),
    }
    assert update(one["x"], pool[1], one["weight"][:, :3], None, "silu", **tree) == "SGLang's"
    assert update(one["x"], pool[1], one["weight"], None, "silu", conv_state_indices=None) == "SGLang's"
    assert seen[0] == ((None, "silu"), sorted(tree))
    kept = conv.wrapped(original, pool, parents_too=False)
    assert kept(one["x"], pool[0], one["weight"], None, "silu", **tree) == "SGLang's"
    assert (tree["retrieve_parent_token"] == -7).all()
    # The first layer makes the parents, the second reads them.
    for layer in (0, 1):
        out = update(one["x"], pool[layer], one["weight"], None, "silu", **tree)
        assert tree["retrieve_parent_token"].tolist() == one["parents"]
        of_layer = {**one, "state": pool[layer], "bias": None}
        torch.testing.assert_close(out[0, :, 4].double(), expected(of_layer, 0, 1, 4, True)[0], rtol=1e-5, atol=1e-5)
    assert len(seen) == 3


def test_it_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(conv.TREE_CONV_ENV, "0")
    assert conv.install(SimpleNamespace(), 17) is False


def fails(*_tensors: Any) -> None:
    raise RuntimeError("ptxas: unknown target")


@pytest.mark.parametrize(
    ("fill", "said"),
    [
        (conv.fill_parents, None),
        (lambda child, sibling, parent: parent.zero_(), "other parents than a known tree's"),
        (fails, "it does not run: ptxas: unknown target"),
    ],
)
def test_where_the_parents_kernel_does_not_serve_sglangs_makes_them(
    fill: Any, said: str | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    names = ["sglang", "srt", "layers", "attention", "linear", "gdn_backend"]
    modules = [ModuleType(".".join(names[: i + 1])) for i in range(len(names))]
    for outer, inner, name in zip(modules, modules[1:], names[1:]):
        setattr(outer, name, inner)
    for module in modules:
        monkeypatch.setitem(sys.modules, module.__name__, module)
    backend, pool = modules[-1], torch.randn(3, SLOTS, DIM, 3)
    backend.causal_conv1d_update = lambda *_rest, **_more: "SGLang's"
    monkeypatch.setattr(conv, "fill_parents", fill)
    states = SimpleNamespace(conv=[pool])
    requests = SimpleNamespace(get_speculative_mamba2_params_all_layers=lambda: states)
    assert conv.install(SimpleNamespace(req_to_token_pool=requests), 5) is True
    one = case(1, 5, 2)
    links = [torch.tensor([each], dtype=torch.int32) for each in conv.links(one["parents"][0])]
    tree = {
        "conv_state_indices": torch.tensor([1], dtype=torch.int32),
        "intermediate_conv_window": torch.zeros(1, 5, DIM, 3),
        "intermediate_state_indices": torch.tensor([0], dtype=torch.int32),
        "retrieve_next_token": links[0],
        "retrieve_next_sibling": links[1],
        "retrieve_parent_token": torch.tensor(one["parents"], dtype=torch.int32),
    }
    of_layer = [
        backend.causal_conv1d_update(one["x"], pool[layer], one["weight"], None, "silu", **tree) for layer in (0, 1)
    ]
    assert [isinstance(out, str) for out in of_layer] == [said is not None, False]
    assert said is None or said in caplog.text
