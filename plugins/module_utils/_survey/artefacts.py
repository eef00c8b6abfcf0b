# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Model directories: size, what they are, whether they are complete, and which are copies of another."""

from __future__ import annotations

import json
import os
import re
import typing as t

from .source import Source

_WEIGHTS = (".safetensors", ".gguf", ".bin", ".pt", ".pth")
_MIB = 1024 * 1024


def describe_model(source: Source, path: str) -> dict[str, t.Any]:
    """Return what a model directory holds, from its config.json, file sizes and weight index."""
    text = source.read(f"{path}/config.json", 4 * _MIB)
    config = parse_object(text)
    if config is None:
        source.warn(f"models.{path}", "config.json is no JSON object")
        config = {}
    size = 0
    shards = 0
    for name in source.names(path):
        try:
            # Hub caches hold links to blobs: the size is that of what they point at.
            state = os.stat(source.path(f"{path}/{name}"))
        except OSError:
            continue
        if state.st_mode & 0o170000 == 0o100000:
            size += state.st_size
            shards += name.endswith(_WEIGHTS)
    missing = missing_shards(source, path)
    inner = config.get("text_config") if isinstance(config.get("text_config"), dict) else config
    architectures = config.get("architectures")
    return {
        "path": path,
        "name": model_name(path, config),
        "role": "drafter" if is_drafter(config) else "target",
        "architecture": architectures[0] if isinstance(architectures, list) and architectures else None,
        "model_type": config.get("model_type"),
        "layers": inner.get("num_hidden_layers"),
        "hidden_size": inner.get("hidden_size"),
        "quantization": (config.get("quantization_config") or {}).get("quant_method"),
        "dtype": inner.get("dtype") or inner.get("torch_dtype") or config.get("torch_dtype"),
        "size_mib": size // _MIB,
        "weight_files": shards,
        "missing_files": missing,
        "in_memory": path.startswith("/dev/shm/"),
        "copy_of": None,
        "pairs": [],
    }


def parse_object(text: str | None) -> dict[str, t.Any] | None:
    """Return a JSON object, or None for anything else."""
    try:
        data = json.loads(text or "")
    except ValueError:
        return None
    return data if isinstance(data, dict) else None


def model_name(path: str, config: t.Mapping[str, t.Any]) -> str:
    """Return ORG/NAME for a hub cache, else the directory's name."""
    match = re.search(r"/models--([^/]+?)--([^/]+)/snapshots/", path)
    return f"{match.group(1)}/{match.group(2)}" if match else path.rsplit("/", 1)[-1]


def is_drafter(config: t.Mapping[str, t.Any]) -> bool:
    """Whether a configuration is a drafter's: it names layers of a target to read from, or its kind."""
    kinds = " ".join(str(name) for name in config.get("architectures") or [])
    if re.search(r"DFlash|Eagle|Medusa|Draft", kinds, re.IGNORECASE):
        return True
    return any(key in config for key in ("dflash_config", "target_layer_ids", "draft_vocab_size", "speculators_config"))


def missing_shards(source: Source, path: str) -> list[str]:
    """Return the weight files that an index names and that are not there."""
    for name in ("model.safetensors.index.json", "pytorch_model.bin.index.json"):
        index = parse_object(source.read(f"{path}/{name}", 32 * _MIB))
        if index is not None:
            wanted = {str(file) for file in (index.get("weight_map") or {}).values()}
            return sorted(file for file in wanted if not source.exists(f"{path}/{file}"))
    return []


def mark_copies(models: t.Sequence[t.MutableMapping[str, t.Any]]) -> None:
    """Write into each copy in memory which directory on disk it is a copy of: same role, architecture, size and files."""

    def mark(model: t.Mapping[str, t.Any]) -> tuple[t.Any, ...]:
        return tuple(
            model[key] for key in ("role", "architecture", "layers", "hidden_size", "size_mib", "weight_files")
        )

    disk = {mark(model): model["path"] for model in models if not model["in_memory"]}
    for model in models:
        if model["in_memory"]:
            model["copy_of"] = disk.get(mark(model))
