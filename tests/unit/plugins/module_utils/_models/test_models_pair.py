# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Target and drafter: the published pair passes; each single fault is named with its code and cause."""

from __future__ import annotations

import copy
import random

import pytest
from ansible_collections.inferlab.dflash.plugins.module_utils._models import checkpoint, pair
from ansible_collections.inferlab.dflash.tests.unit.plugins.module_utils._models import model_dirs as dirs


def bare(config, tensors=None, words=None):
    """What checkpoint.read returns for a directory with this configuration."""
    known = None
    if words is not None:
        vocabulary = {**words["model"]["vocab"], **{a["content"]: a["id"] for a in words["added_tokens"]}}
        known = {"hash": repr(words), "vocabulary": vocabulary, "added": {}}
    tensors = {
        name: {"dtype": value[0], "shape": value[1]} if isinstance(value, tuple) else {"dtype": "BF16", "shape": value}
        for name, value in (tensors or {}).items()
    }
    weights = {"files": ["model.safetensors"] if tensors else [], "bytes": 1, "tensors": tensors, "problems": []}
    return {
        "path": "/m",
        "exists": True,
        "config": config,
        "quantization": None,
        "weights": weights,
        "tokenizer": known,
        "problems": [],
    }


def changed(config, path, value):
    """A copy of the configuration with one key changed, or removed for the value KeyError."""
    result = copy.deepcopy(config)
    *outer, last = path.split(".")
    inner = result
    for key in outer:
        inner = inner[key]
    if value is KeyError:
        del inner[last]
    else:
        inner[last] = value
    return result


def marks(found):
    return [(item["code"], item["cause"]) for item in found if item["severity"] == "error"]


TARGET = bare(dirs.TARGET, dirs.TARGET_TENSORS)
DRAFTER = bare(dirs.DRAFTER, dirs.draft_tensors())


def test_the_published_pair_passes():
    target, draft = bare(dirs.QWEN_TARGET), bare(dirs.QWEN_DRAFTER)
    assert pair.check(target, draft, require_weights=False) == []
    said = pair.describe_drafter(draft)
    assert (said["block_size"], said["mask_token_id"], said["hidden_size"]) == (16, 248070, 5120)
    assert (said["intermediate_size"], said["num_attention_heads"], said["num_key_value_heads"]) == (17408, 32, 8)
    assert (said["head_dim"], said["num_layers"], said["sliding_window"]) == (128, 5, 2048)
    assert said["layer_types"] == {"full_attention": 1, "sliding_attention": 4}
    # hidden_states has the embedding at 0, so tap i is entry i + 1.
    assert said["target_layer_ids"] == [1, 16, 31, 46, 61]
    assert said["taps"] == [2, 17, 32, 47, 62]
    assert pair.describe_target(target)["num_layers"] == 64
    assert pair.describe_target(target)["hidden_size"] == 5120


def test_the_shapes_of_the_published_drafter():
    tensors = dirs.draft_tensors(dirs.QWEN_DRAFTER)
    assert tensors["fc.weight"] == [5120, 5 * 5120]
    assert tensors["layers.4.self_attn.q_proj.weight"] == [4096, 5120]
    assert tensors["layers.0.self_attn.k_proj.weight"] == [1024, 5120]
    assert len(tensors) == 3 + 5 * 11


def test_a_small_pair_with_weights_passes():
    assert pair.check(TARGET, DRAFTER) == []


def test_the_highest_layer_is_a_legal_tap_and_the_next_is_explained():
    config = changed(dirs.DRAFTER, "dflash_config.target_layer_ids", [1, 3, 6])
    (found,) = pair.check(TARGET, bare(config, dirs.draft_tensors()))
    assert (found["code"], found["cause"]) == ("draft_target_mismatch", "target_layer_ids")
    assert "6 is outside the target's layers 0 to 5" in found["message"]
    assert "looks like counted from 1" in found["message"]


@pytest.mark.parametrize(
    ("path", "value", "mark"),
    [
        ("architectures", ["DFlash2DraftModel"], ("draft_arch_unsupported", None)),
        ("architectures", KeyError, ("draft_arch_unsupported", None)),
        ("block_size", KeyError, ("draft_config_invalid", "block_size")),
        ("block_size", 1, ("draft_config_invalid", "block_size")),
        ("block_size", "8", ("draft_config_invalid", "block_size")),
        ("dflash_config.block_size", 16, ("draft_config_invalid", "block_size")),
        ("dflash_config.mask_token_id", KeyError, ("draft_config_invalid", "mask_token")),
        ("dflash_config.mask_token_id", 64, ("draft_config_invalid", "mask_token")),
        ("dflash_config.target_layer_ids", KeyError, ("draft_config_invalid", "target_layer_ids_missing")),
        ("dflash_config.target_layer_ids", "1,2", ("draft_config_invalid", "target_layer_ids")),
        ("dflash_config.target_layer_ids", [1, 1, 2], ("draft_config_invalid", "target_layer_ids")),
        ("dflash_config.target_layer_ids", [-1, 1, 2], ("draft_target_mismatch", "target_layer_ids")),
        ("num_target_layers", 7, ("draft_target_mismatch", "target_layer_ids")),
        ("layer_types", ["full_attention"], ("draft_config_invalid", "layer_types")),
        ("layer_types", ["full_attention", "chunked"], ("draft_config_invalid", "layer_types")),
        ("sliding_window", None, ("draft_config_invalid", "layer_types")),
        ("num_hidden_layers", 0, ("draft_config_invalid", "num_hidden_layers")),
        ("intermediate_size", 32, ("draft_config_invalid", "weights")),
    ],
)
def test_one_wrong_key(path, value, mark):
    draft = bare(changed(dirs.DRAFTER, path, value), dirs.draft_tensors())
    assert mark in marks(pair.check(TARGET, draft))


def test_another_hidden_size():
    config = changed(dirs.DRAFTER, "hidden_size", 16)
    found = pair.check(TARGET, bare(config, dirs.draft_tensors(config)))
    assert marks(found) == [("draft_target_mismatch", "hidden_size")]


def test_missing_and_unknown_tensors_are_named():
    tensors = dirs.draft_tensors()
    tensors["layers.1.mlp.surprise.weight"] = tensors.pop("layers.1.mlp.up_proj.weight")
    messages = [item["message"] for item in pair.check(TARGET, bare(dirs.DRAFTER, tensors))]
    assert any("1 tensors are missing, the first is layers.1.mlp.up_proj.weight" in text for text in messages)
    assert any("layers.1.mlp.surprise.weight" in text for text in messages)


def test_a_model_prefix_is_tolerated():
    tensors = {f"model.{name}": shape for name, shape in dirs.draft_tensors().items()}
    assert pair.check(TARGET, bare(dirs.DRAFTER, tensors)) == []


@pytest.mark.parametrize(
    ("tensors", "config", "head"),
    [
        ({"lm_head.weight": ("BF16", [64, 8])}, {}, "dense"),
        ({"lm_head.weight": ("F8_E4M3", [64, 8]), "lm_head.weight_scale": ("F32", [1])}, {}, "quantised"),
        ({"lm_head.qweight": ("U8", [64, 4])}, {}, "quantised"),
        ({"model.embed_tokens.weight": ("BF16", [64, 8])}, {"tie_word_embeddings": True}, "dense"),
        ({}, {"quantization_config": {"quant_method": "fp8", "ignore": ["lm_head"]}}, "dense"),
        ({}, {"quantization_config": {"quant_method": "fp8", "modules_to_not_convert": ["a", "lm_head"]}}, "dense"),
        ({}, {"quantization_config": {"quant_method": "awq"}}, "unknown"),
        ({}, {}, "dense"),
    ],
)
def test_quantised_heads(tensors, config, head):
    target = bare({**dirs.TARGET, **config}, tensors)
    assert pair.lm_head(target) == head
    found = [item for item in pair.pair(target, DRAFTER) if item["cause"] == "quantized_lm_head"]
    assert [item["severity"] for item in found] == {"dense": [], "quantised": ["error"], "unknown": ["warning"]}[head]


def test_a_quantisation_file_of_its_own():
    target = {
        **bare(dirs.TARGET),
        "quantization": {"quantization": {"quant_algo": "NVFP4", "exclude_modules": ["lm_head"]}},
    }
    assert pair.describe_target(target)["quantization"] == "NVFP4"
    assert pair.lm_head(target) == "dense"


def test_tokenizers():
    words = dirs.tokenizer()
    target = bare(dirs.TARGET, dirs.TARGET_TENSORS, words)
    same = bare(dirs.DRAFTER, dirs.draft_tensors(), words)
    assert pair.check(target, same) == []
    other = copy.deepcopy(words)
    other["model"]["vocab"]["ab"] = 7
    found = pair.check(target, bare(dirs.DRAFTER, dirs.draft_tensors(), other))
    assert marks(found) == [("draft_target_mismatch", "tokenizer")]
    assert "'ab' (2 in the target, 7 in the drafter)" in found[0]["message"]
    merged = copy.deepcopy(words)
    merged["model"]["merges"] = []
    found = pair.check(target, bare(dirs.DRAFTER, dirs.draft_tensors(), merged))
    assert [(item["severity"], item["cause"]) for item in found] == [("warning", "tokenizer")]


def test_the_mask_token_means_the_same_in_both():
    words = dirs.tokenizer(added_tokens=[{"id": 9, "content": "<|MASK|>"}])
    found = pair.check(bare(dirs.TARGET, dirs.TARGET_TENSORS, words), DRAFTER)
    assert marks(found) == [("draft_config_invalid", "mask_token")]
    assert "has id 9" in found[0]["message"]


def test_another_vocabulary_size_only_warns():
    found = pair.check(TARGET, bare(changed(dirs.DRAFTER, "vocab_size", 60), dirs.draft_tensors()))
    assert [(item["severity"], item["cause"]) for item in found] == [("warning", "vocab_size")]


def test_errors_come_first():
    config = changed(changed(dirs.DRAFTER, "vocab_size", 60), "num_target_layers", 7)
    found = pair.check(TARGET, bare(config, dirs.draft_tensors()))
    assert [item["severity"] for item in found] == ["error", "warning"]


def test_absent_directories_and_weights(tmp_path):
    target = checkpoint.read(str(tmp_path / "t"))
    draft = checkpoint.read(str(dirs.directory(tmp_path / "d", dirs.DRAFTER)))
    assert marks(pair.check(target, draft)) == [("model_path_missing", "path"), ("checkpoint_incomplete", "no_weights")]
    assert marks(pair.check(draft, target)) == [
        ("checkpoint_incomplete", "no_weights"),
        ("model_path_missing", "draft"),
    ]


def test_a_truncated_drafter_on_disk(tmp_path):
    target = dirs.directory(tmp_path / "t", dirs.TARGET, dirs.TARGET_TENSORS, dirs.tokenizer())
    draft = dirs.directory(tmp_path / "d", dirs.DRAFTER, dirs.draft_tensors())
    assert pair.check(checkpoint.read(str(target)), checkpoint.read(str(draft))) == []
    weights = draft / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-10])
    found = pair.check(checkpoint.read(str(target)), checkpoint.read(str(draft)))
    assert marks(found) == [("checkpoint_incomplete", None)]
    assert "truncated" in found[0]["message"] and str(draft) in found[0]["message"]


def test_junk_in_a_configuration_is_a_finding_and_never_a_crash():
    rng = random.Random(7)
    junk = [None, True, 0, -1, 10**12, 1.5, "x", "", [], [1, "a"], {}, {"a": []}, [[]]]
    keys = [*dirs.DRAFTER, "dflash_config.mask_token_id", "dflash_config.target_layer_ids", "quantization_config"]
    for dummy in range(2000):
        sides = []
        for base in (dirs.TARGET, dirs.DRAFTER):
            config = copy.deepcopy(base)
            for key in rng.sample(keys, 3):
                outer, _dot, inner = key.partition(".")
                value = copy.deepcopy(rng.choice(junk))
                if inner:
                    config[outer] = {inner: value}
                else:
                    config[outer] = value
            sides.append(bare(config, dirs.draft_tensors()))
        for found in pair.check(*sides):
            assert found["message"] and found["remedy"]
        pair.describe_target(sides[0])
        pair.describe_drafter(sides[1])
