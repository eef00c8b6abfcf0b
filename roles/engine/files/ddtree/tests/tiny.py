# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""Tiny random models for tests: real architectures, real checkpoint layouts, made in milliseconds."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from ddtree.drafter import Drafter, DrafterConfig
from ddtree.target import Target
from safetensors.torch import save_file
from transformers import Qwen3Config, Qwen3ForCausalLM

HIDDEN = 32
LAYERS = 4


def target(vocabulary: int = 11, seed: int = 0, spread: float = 4.0) -> Target:
    """A Qwen3 with random weights. `spread` widens its output distribution: larger means more peaked."""
    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=vocabulary,
        hidden_size=HIDDEN,
        intermediate_size=48,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        max_position_embeddings=512,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        tie_word_embeddings=False,
        initializer_range=0.15,
        eos_token_id=None,
        bos_token_id=None,
        pad_token_id=None,
        attn_implementation="sdpa",
    )
    model = Qwen3ForCausalLM(config)
    with torch.no_grad():
        model.lm_head.weight.mul_(spread)
    return Target(model)


def drafter_dict(vocabulary: int = 11, **changes: object) -> dict:
    """A config.json of a drafter for `target`, in the published layout."""
    raw = {
        "architectures": ["DFlashDraftModel"],
        "model_type": "qwen3",
        "block_size": 6,
        "num_target_layers": LAYERS,
        "dflash_config": {"mask_token_id": vocabulary - 1, "target_layer_ids": [0, 2]},
        "vocab_size": vocabulary,
        "hidden_size": HIDDEN,
        "intermediate_size": 40,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "rope_theta": 10000.0,
        "rms_norm_eps": 1e-6,
    }
    return {**raw, **changes}


def drafter(vocabulary: int = 11, seed: int = 1, **changes: object) -> Drafter:
    """A drafter with random weights of a size at which its guesses differ from position to position."""
    torch.manual_seed(seed)
    model = Drafter(DrafterConfig.parse(drafter_dict(vocabulary, **changes), "test"))
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(torch.randn_like(weight) * 0.3 if weight.dim() > 1 else 1 + 0.1 * torch.randn_like(weight))
    return model.eval().requires_grad_(False)


def write_drafter(path: Path, weights: dict[str, torch.Tensor] | None = None, **changes: object) -> Path:
    """A drafter checkpoint directory."""
    path.mkdir(parents=True, exist_ok=True)
    (path / "config.json").write_text(json.dumps(drafter_dict(**changes)), encoding="utf-8")
    if weights is None:
        weights = {name: weight.clone() for name, weight in drafter(**changes).state_dict().items()}
    save_file(weights, path / "model.safetensors")
    return path
