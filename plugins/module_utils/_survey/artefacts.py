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
_MOST_PAIRS = 30


def describe_models(source: Source, paths: t.Sequence[str]) -> list[dict[str, t.Any]]:
    """Describe all model directories, mark copies, and say of each drafter which targets here it is a pair with."""
    configs: dict[str, dict[str, t.Any]] = {}
    for path in paths:
        config = parse_object(source.read(f"{path}/config.json", 4 * _MIB))
        if config is None:
            source.warn(f"models.{path}", "config.json is no JSON object")
        configs[path] = config or {}
    models = [describe_model(source, path, config) for path, config in configs.items()]
    mark_copies(models)
    for model in models:
        if model["role"] == "drafter":
            targets = [other["path"] for other in models if other["role"] == "target" and not other["copy_of"]]
            model["pairs"] = [pair_with(model["path"], target, configs) for target in targets[:_MOST_PAIRS]]
    return models


def pair_with(drafter: str, target: str, configs: t.Mapping[str, dict[str, t.Any]]) -> dict[str, t.Any]:
    """Return {target, ok, problems} by the configurations alone; tokenizers and weights are drafter_info's business."""
    # Only hosts with a drafter pay for this import: a module's code is compiled anew on every call.
    from ansible_collections.inferlab.dflash.plugins.module_utils._models import pair

    checkpoints = [
        {
            "path": path,
            "config": configs[path] or None,
            "quantization": None,
            "tokenizer": None,
            "weights": {"files": [], "bytes": 0, "tensors": {}, "problems": []},
        }
        for path in (target, drafter)
    ]
    found = pair.pair(*checkpoints) + pair.drafter(checkpoints[1])
    problems = [finding["message"] for finding in found if finding["severity"] == "error"]
    return {"target": target, "ok": not problems and bool(configs[target]), "problems": problems}


def describe_model(source: Source, path: str, config: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return what a model directory holds, from its configuration, file sizes and weight index."""
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
    nested = config.get("text_config")
    inner = {**config, **nested} if isinstance(nested, dict) else config
    quantization = inner.get("quantization_config")
    architectures = config.get("architectures")
    return {
        "path": path,
        "name": model_name(path, config),
        "role": "drafter" if is_drafter(config) else "target",
        "architecture": architectures[0] if isinstance(architectures, list) and architectures else None,
        "model_type": config.get("model_type"),
        "layers": inner.get("num_hidden_layers"),
        "hidden_size": inner.get("hidden_size"),
        "quantization": quantization.get("quant_method") if isinstance(quantization, dict) else None,
        "dtype": inner.get("dtype") or inner.get("torch_dtype"),
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
