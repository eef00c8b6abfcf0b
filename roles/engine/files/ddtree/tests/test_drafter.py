# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""The drafter: its arithmetic against a naive re-statement, and what it says about broken checkpoints."""

from __future__ import annotations

import json

import pytest
import tiny
import torch
from ddtree.drafter import Drafter, DrafterConfig, check_pair, rotate
from ddtree.target import ModelError


def naive_block(drafter: Drafter, features: torch.Tensor, embedded: torch.Tensor) -> torch.Tensor:
    """One request, no cache, every row and key spelled out: features `[p, ids * hidden]`, embedded `[L, hidden]`."""
    config = drafter.config
    groups = config.num_heads // config.num_kv_heads
    length, rows = len(features), len(embedded)
    context = drafter.hidden_norm(drafter.fc(features))
    hidden = embedded
    for number, layer in enumerate(drafter.layers):
        attention = layer.self_attn
        normed = layer.input_layernorm(hidden)
        inputs = torch.cat([context, normed])
        out = []
        for row in range(rows):
            heads = []
            for head in range(config.num_heads):
                dim = slice(head * config.head_dim, (head + 1) * config.head_dim)
                shared = slice((head // groups) * config.head_dim, (head // groups + 1) * config.head_dim)
                query = rotated(attention.q_norm(attention.q_proj(normed[row])[dim]), length + row, config.rope_theta)
                weights, values = [], []
                for column in range(length + rows):
                    own = config.layer_types[number]
                    causal = own == "sliding_attention" if config.is_causal is None else config.is_causal
                    if causal and column > length + row:
                        continue
                    if own == "sliding_attention" and abs(length + row - column) >= config.sliding_window:
                        continue
                    key = attention.k_norm(attention.k_proj(inputs[column])[shared])
                    weights.append(query @ rotated(key, column, config.rope_theta) / config.head_dim**0.5)
                    values.append(attention.v_proj(inputs[column])[shared])
                heads.append(torch.stack(weights).softmax(0) @ torch.stack(values))
            out.append(attention.o_proj(torch.cat(heads)))
        hidden = hidden + torch.stack(out)
        hidden = hidden + layer.mlp(layer.post_attention_layernorm(hidden))
    return drafter.norm(hidden)


def rotated(x: torch.Tensor, position: int, theta: float) -> torch.Tensor:
    """Rotary embedding of one vector as complex numbers."""
    half = len(x) // 2
    angle = position * theta ** (-torch.arange(half) * 2.0 / len(x))
    turned = torch.complex(x[:half], x[half:]) * torch.polar(torch.ones(half), angle)
    return torch.cat([turned.real, turned.imag])


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 4, "use_sliding_window": True},
        {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 4, "is_causal": False},
        {"is_causal": True},
        {"attention_bias": True, "num_key_value_heads": 4},
        {"num_hidden_layers": 3, "num_key_value_heads": 1},
    ],
    ids=["full", "sliding-first", "sliding-bidirectional", "causal", "bias", "three-layers"],
)
def test_block_agrees_with_the_naive_form(changes: dict) -> None:
    """Two requests of different length whose features arrive in pieces, against each computed at once."""
    drafter = tiny.drafter(**changes)
    torch.manual_seed(5)
    lengths, rows = [9, 5], 6
    features = torch.randn(2, 9, 2 * tiny.HIDDEN)
    embedded = torch.randn(2, rows, tiny.HIDDEN)
    cache = drafter.new_cache(2)
    position = torch.arange(9).expand(2, -1)
    drafter.observe(cache, features[:, :4], position[:, :4], torch.tensor([4, 4]))
    drafter(cache, torch.randn(2, rows, tiny.HIDDEN))  # another block must leave no trace
    drafter.observe(cache, features[:, 4:], position[:, 4:], torch.tensor([5, 1]))
    block = drafter(cache, embedded)
    for request, length in enumerate(lengths):
        expected = naive_block(drafter, features[request, :length], embedded[request])
        torch.testing.assert_close(block[request], expected, atol=2e-5, rtol=1e-4)


def test_rotation_keeps_relative_positions() -> None:
    torch.manual_seed(0)
    query, key = torch.randn(1, 1, 1, 8), torch.randn(1, 1, 1, 8)

    def product(at: int, to: int) -> float:
        return float((rotate(query, torch.tensor([[at]]), 1e4) * rotate(key, torch.tensor([[to]]), 1e4)).sum())

    assert product(3, 1) == pytest.approx(product(103, 101), abs=1e-5)
    assert product(3, 1) != pytest.approx(product(3, 2), abs=1e-3)


def test_checkpoint_round_trip(tmp_path) -> None:
    original = tiny.drafter()
    loaded = Drafter.load(tiny.write_drafter(tmp_path))
    for name, weight in original.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], weight), name
    assert next(Drafter.load(tmp_path, "bfloat16").parameters()).dtype == torch.bfloat16


def test_prefix_model_is_tolerated(tmp_path) -> None:
    weights = {f"model.{name}": weight.clone() for name, weight in tiny.drafter().state_dict().items()}
    Drafter.load(tiny.write_drafter(tmp_path, weights))


def test_weights_in_several_files(tmp_path) -> None:
    from safetensors.torch import save_file

    weights = {name: weight.clone() for name, weight in tiny.drafter().state_dict().items()}
    moved = {name: weights.pop(name) for name in ("fc.weight", "norm.weight")}
    tiny.write_drafter(tmp_path, weights)
    save_file(moved, tmp_path / "other.safetensors")
    Drafter.load(tmp_path)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            lambda weights: weights.pop("layers.1.self_attn.q_norm.weight"),
            "lacks the weights layers.1.self_attn.q_norm.weight",
        ),
        (lambda weights: weights.update({"lm_head.weight": torch.ones(2)}), "unknown weights lm_head.weight"),
        (
            lambda weights: weights.update({"fc.weight": torch.ones(3, 3)}),
            r"fc.weight has shape \[3, 3\], .* \[32, 64\]",
        ),
    ],
    ids=["missing", "unknown", "misshapen"],
)
def test_wrong_weights_are_named(tmp_path, damage, message: str) -> None:
    weights = {name: weight.clone() for name, weight in tiny.drafter().state_dict().items()}
    damage(weights)
    with pytest.raises(ModelError, match=message):
        Drafter.load(tiny.write_drafter(tmp_path, weights))


def test_truncated_file(tmp_path) -> None:
    file = tiny.write_drafter(tmp_path) / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(ModelError, match=r"model\.safetensors is not a readable safetensors file"):
        Drafter.load(tmp_path)


def test_directories_without_a_checkpoint(tmp_path) -> None:
    with pytest.raises(ModelError, match=r"no config\.json"):
        Drafter.load(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(tiny.drafter_dict()), encoding="utf-8")
    with pytest.raises(ModelError, match=r"no \.safetensors"):
        Drafter.load(tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"architectures": ["DFlash2DraftModel"]}, "DFlash2DraftModel"),
        ({"hidden_size": None}, "missing key hidden_size"),
        ({"block_size": None}, "missing key block_size"),
        ({"block_size": 1}, "block_size 1"),
        ({"dflash_config": {"target_layer_ids": [0]}}, "missing key mask_token_id"),
        ({"dflash_config": {"mask_token_id": 1}}, "missing key target_layer_ids"),
        ({"rope_theta": None}, "missing key rope_theta"),
        ({"layer_types": ["full_attention"]}, "1 entries for 2 layers"),
        ({"layer_types": ["full_attention", "linear_attention"]}, "linear_attention"),
        ({"layer_types": ["full_attention", "sliding_attention"]}, "sliding_window"),
        ({"hidden_act": "gelu"}, "gelu"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, "yarn"),
    ],
)
def test_configurations_that_are_refused(changes: dict, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        DrafterConfig.parse(tiny.drafter_dict(**changes), "config.json")


def test_keys_may_stand_in_either_place() -> None:
    inner = DrafterConfig.parse(tiny.drafter_dict(), "config.json")
    outer = tiny.drafter_dict(dflash_config={"block_size": 6}, mask_token_id=10, target_layer_ids=[0, 2])
    outer["block_size"] = None
    outer["rope_parameters"] = {"rope_type": "default", "rope_theta": outer.pop("rope_theta")}
    assert DrafterConfig.parse(outer, "config.json") == inner


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((64, 4, 11), "hidden size 32 against 64"),
        ((32, 6, 11), "made for 4 target layers, found 6"),
        ((32, 4, 12), "vocabulary 11 against 12"),
    ],
)
def test_drafters_of_another_target(shape: tuple[int, int, int], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        check_pair(DrafterConfig.parse(tiny.drafter_dict(), "config.json"), *shape)


def test_layers_and_mask_token_out_of_range() -> None:
    raw = tiny.drafter_dict(dflash_config={"mask_token_id": 10, "target_layer_ids": [0, 4]})
    with pytest.raises(ModelError, match=r"reads target layers \[0, 4\] of 4"):
        check_pair(DrafterConfig.parse(raw, "config.json"), 32, 4, 11)
    raw = tiny.drafter_dict(dflash_config={"mask_token_id": 11, "target_layer_ids": [0, 2]})
    with pytest.raises(ModelError, match="mask token 11"):
        check_pair(DrafterConfig.parse(raw, "config.json"), 32, 4, 11)


def test_the_published_27b_layout_is_understood() -> None:
    """Shape keys as published for Qwen3.6-27B: four sliding layers and a full one."""
    config = DrafterConfig.parse(
        {
            "architectures": ["DFlashDraftModel"],
            "model_type": "qwen3",
            "dtype": "bfloat16",
            "block_size": 16,
            "num_target_layers": 64,
            "dflash_config": {"mask_token_id": 248070, "target_layer_ids": [1, 16, 31, 46, 61]},
            "hidden_size": 5120,
            "intermediate_size": 17408,
            "num_hidden_layers": 5,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "vocab_size": 248320,
            "hidden_act": "silu",
            "rms_norm_eps": 1e-06,
            "rope_theta": 10000000,
            "attention_bias": False,
            "max_position_embeddings": 262144,
            "sliding_window": 2048,
            "use_sliding_window": True,
            "layer_types": ["sliding_attention"] * 4 + ["full_attention"],
        },
        "config.json",
    )
    assert [config.window(layer) for layer in range(5)] == [2048] * 4 + [None]
    assert [config.causal(layer) for layer in range(5)] == [True] * 4 + [False]
    with torch.device("meta"):
        names = Drafter(config).state_dict()
    assert names["fc.weight"].shape == (5120, 5 * 5120)
    assert names["layers.4.self_attn.k_proj.weight"].shape == (1024, 5120)
    assert len(names) == 5 * 11 + 3
