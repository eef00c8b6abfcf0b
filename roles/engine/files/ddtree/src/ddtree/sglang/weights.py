# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""Size of a checkpoint on disk, the best estimate of its weights in memory before anything is loaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def checkpoint_bytes(path: str | None) -> int:
    """Bytes of the safetensors files in a model directory.

    A directory without weights (dummy loading) is estimated from its configuration; a name that is no directory
    (a hub id) counts 0.
    """
    root = Path(path or "/nonexistent")
    size = sum(file.stat().st_size for file in root.glob("*.safetensors")) if root.is_dir() else 0
    config = root / "config.json"
    if size == 0 and config.is_file():
        parsed = json.loads(config.read_text())
        size = 2 * parameter_count(parsed.get("text_config", parsed))
    return size


def parameter_count(config: dict[str, Any]) -> int:
    """Parameters of a dense decoder with (gated) MLPs, to a few percent."""
    hidden, layers = config["hidden_size"], config["num_hidden_layers"]
    heads = config["num_attention_heads"]
    head_dim = config.get("head_dim") or hidden // heads
    attention = hidden * head_dim * (2 * heads + 2 * config.get("num_key_value_heads", heads))
    mlp = 3 * hidden * config["intermediate_size"]
    embeddings = config.get("vocab_size", 0) * hidden * (1 if config.get("tie_word_embeddings") else 2)
    return layers * (attention + mlp) + embeddings
