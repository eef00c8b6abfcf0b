# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a model directory holds: configuration, tokenizer and the headers of its weights. No weights are read, no torch."""

from __future__ import annotations

import hashlib
import json
import os
import typing as t

from . import safetensors


class CheckpointError(Exception):
    """A file of the checkpoint that cannot be what its name says; the text names the file and the reason."""


def _json_file(directory: str, name: str) -> t.Any:
    """A JSON file of the directory, or None when it is absent."""
    path = os.path.join(directory, name)
    if not os.path.isfile(path):
        return None
    try:
        with open(path, encoding="utf-8") as stream:
            return json.load(stream)
    except (ValueError, OSError) as exc:
        raise CheckpointError(f"{name} cannot be read: {exc}") from exc


def _weights(directory: str) -> dict[str, t.Any]:
    """The headers of all shards; what is missing or broken goes to ``problems`` and does not stop the others."""
    problems: list[str] = []
    tensors: dict[str, dict[str, t.Any]] = {}
    index: dict[str, t.Any] | None = None
    try:
        index = _json_file(directory, "model.safetensors.index.json")
    except CheckpointError as exc:
        problems.append(str(exc))
    there = sorted(name for name in os.listdir(directory) if name.endswith(".safetensors"))
    mapping = index.get("weight_map") if isinstance(index, dict) else None
    mapping = mapping if isinstance(mapping, dict) else {}
    wanted = sorted({str(shard) for shard in mapping.values()})
    problems += [f"{shard} is missing, the index names it" for shard in wanted if shard not in there]
    files = [shard for shard in wanted if shard in there] if wanted else there
    for name in files:
        try:
            tensors.update(safetensors.read_header(os.path.join(directory, name)))
        except safetensors.SafetensorsError as exc:
            problems.append(str(exc))
        except OSError as exc:
            problems.append(f"{name} cannot be read: {exc.strerror}")
    if not problems:
        lost = [tensor for tensor in mapping if tensor not in tensors]
        if lost:
            problems.append(f"{len(lost)} tensors of the index are in no shard, the first is {lost[0]}")
    size = sum(os.path.getsize(os.path.join(directory, name)) for name in files)
    return {"files": files, "bytes": size, "tensors": tensors, "problems": problems}


def _tokenizer(directory: str) -> dict[str, t.Any] | None:
    """Vocabulary of the tokenizer, and a hash of all that decides which ids a text gets; None when there is none."""
    fast = _json_file(directory, "tokenizer.json")
    if isinstance(fast, dict):
        try:
            model = fast.get("model") or {}
            added = {str(entry["content"]): entry["id"] for entry in fast.get("added_tokens") or []}
            vocabulary = model.get("vocab") or {}
            if isinstance(vocabulary, list):
                vocabulary = {str(entry[0]): number for number, entry in enumerate(vocabulary)}
            vocabulary = dict(vocabulary)
        except (AttributeError, KeyError, IndexError, TypeError, ValueError) as exc:
            raise CheckpointError(f"tokenizer.json is malformed ({type(exc).__name__}: {exc})") from exc
        decisive = [vocabulary, model.get("merges"), added, fast.get("normalizer"), fast.get("pre_tokenizer")]
        return {"hash": _hash(decisive), "vocabulary": {**vocabulary, **added}, "added": added}
    vocabulary = _json_file(directory, "vocab.json")
    if isinstance(vocabulary, dict):
        return {"hash": _hash(vocabulary), "vocabulary": vocabulary, "added": {}}
    return None


def _hash(value: t.Any) -> str:
    # Merges are written as "a b" or as ["a", "b"], by the age of the library that wrote the file.
    if isinstance(value, list) and len(value) == 5 and isinstance(value[1], list):
        value = [value[0], [" ".join(m) if isinstance(m, list) else m for m in value[1]], *value[2:]]
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def read(directory: str) -> dict[str, t.Any]:
    """All that is known about a model directory; ``problems`` lists what is wrong with its files.

    :returns: ``path``, ``exists``, ``config`` (None when absent), ``quantization`` (its own file, or None), ``weights``
        (``files, bytes, tensors, problems``), ``tokenizer`` (``hash, vocabulary, added``, or None), ``problems``.
    """
    result: dict[str, t.Any] = {
        "path": directory,
        "exists": os.path.isdir(directory),
        "config": None,
        "quantization": None,
        "weights": {"files": [], "bytes": 0, "tensors": {}, "problems": []},
        "tokenizer": None,
        "problems": [],
    }
    if not result["exists"]:
        return result
    for key, source in (
        ("config", lambda: _json_file(directory, "config.json")),
        ("quantization", lambda: _json_file(directory, "hf_quant_config.json")),
        ("tokenizer", lambda: _tokenizer(directory)),
    ):
        try:
            result[key] = source()
        except CheckpointError as exc:
            result["problems"].append(str(exc))
    if result["config"] is not None and not isinstance(result["config"], dict):
        result["problems"].append("config.json is no mapping")
        result["config"] = None
    result["weights"] = _weights(directory)
    return result
