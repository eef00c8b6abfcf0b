# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Model directories for tests: real configurations in miniature, real safetensors headers, zeros for weights."""

from __future__ import annotations

import json
import pathlib
import struct
import typing as t

from ansible_collections.inferlab.dflash.plugins.module_utils._models import pair

BYTES = {"BF16": 2, "F32": 4, "U8": 1, "F8_E4M3": 1}

#: The text shape of Qwen3.6-27B and of its published drafter, from their public configurations.
QWEN_TARGET = {
    "architectures": ["Qwen3_5ForConditionalGeneration"],
    "model_type": "qwen3_5",
    "tie_word_embeddings": False,
    "text_config": {
        "model_type": "qwen3_5_text",
        "hidden_size": 5120,
        "num_hidden_layers": 64,
        "vocab_size": 248320,
    },
}
QWEN_DRAFTER = {
    "architectures": ["DFlashDraftModel"],
    "model_type": "qwen3",
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
    "sliding_window": 2048,
    "layer_types": ["sliding_attention"] * 4 + ["full_attention"],
}

TARGET = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_size": 8,
    "num_hidden_layers": 6,
    "vocab_size": 64,
    "tie_word_embeddings": False,
}
DRAFTER = {
    "architectures": ["DFlashDraftModel"],
    "model_type": "qwen3",
    "block_size": 8,
    "num_target_layers": 6,
    "dflash_config": {"mask_token_id": 3, "target_layer_ids": [0, 2, 5], "mask_token": "<|MASK|>"},
    "hidden_size": 8,
    "intermediate_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 4,
    "vocab_size": 64,
    "layer_types": ["sliding_attention", "full_attention"],
    "sliding_window": 32,
}
TARGET_TENSORS = {"model.embed_tokens.weight": [64, 8], "lm_head.weight": [64, 8]}


def tokenizer(**more: t.Any) -> dict[str, t.Any]:
    return {
        "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]},
        "added_tokens": [{"id": 3, "content": "<|MASK|>"}],
        **more,
    }


def safetensors(path: pathlib.Path, tensors: dict[str, t.Any], dtype: str = "BF16") -> None:
    """Write zeros under the given names; a value is a shape, or a pair of dtype and shape."""
    header: dict[str, t.Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, value in tensors.items():
        kind, shape = value if isinstance(value, tuple) else (dtype, value)
        count = BYTES[kind]
        for length in shape:
            count *= length
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [end, end + count]}
        end += count
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(end))


def directory(
    path: pathlib.Path,
    config: t.Any,
    tensors: dict[str, t.Any] | None = None,
    words: dict[str, t.Any] | None = None,
) -> pathlib.Path:
    path.mkdir(parents=True)
    path.joinpath("config.json").write_text(json.dumps(config))
    if tensors is not None:
        safetensors(path / "model.safetensors", tensors)
    if words is not None:
        path.joinpath("tokenizer.json").write_text(json.dumps(words))
    return path


def draft_tensors(config: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
    tensors = pair.expected_tensors(DRAFTER if config is None else config)
    assert tensors
    return dict(tensors)
