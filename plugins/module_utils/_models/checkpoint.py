# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a model directory holds: configuration, tokenizer and the headers of its weights. No weights are read, no torch.

The safetensors format is documented at https://github.com/huggingface/safetensors: eight bytes with the length of a JSON
header, the header (name to dtype, shape and byte range), then the data.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import typing as t

#: The format's own limit for a header.
_HEADER_LIMIT = 100_000_000
_LFS_MARK = b"version https://git-lfs"
_WEIGHT_BYTES = {"BOOL": 1, "U8": 1, "I8": 1, "F8_E5M2": 1, "F8_E4M3": 1, "I16": 2, "U16": 2, "F16": 2, "BF16": 2}
_WEIGHT_BYTES.update({"I32": 4, "U32": 4, "F32": 4, "F64": 8, "I64": 8, "U64": 8})


class CheckpointError(Exception):
    """A file of the checkpoint that cannot be what its name says; the text names the file and the reason."""


def read_header(path: str) -> dict[str, dict[str, t.Any]]:
    """Tensor name to ``dtype`` and ``shape`` of one safetensors file, which is checked to be whole.

    Raises CheckpointError when the file is truncated, has bytes too many, or is something else (a Git LFS pointer).
    """
    name = os.path.basename(path)
    size = os.path.getsize(path)
    with open(path, "rb") as stream:
        head = stream.read(8)
        if size < 1024 and (head + stream.read(64)).startswith(_LFS_MARK):
            raise CheckpointError(f"{name} is a Git LFS pointer, not the weights")
        if len(head) < 8:
            raise CheckpointError(f"{name} is truncated: {size} bytes, not even a header")
        (length,) = struct.unpack("<Q", head)
        if length > _HEADER_LIMIT:
            raise CheckpointError(f"{name} is no safetensors file: its header would have {length} bytes")
        if 8 + length > size:
            raise CheckpointError(f"{name} is truncated inside its header: {size} of at least {8 + length} bytes")
        stream.seek(8)
        try:
            header = json.loads(stream.read(length))
        except ValueError as exc:
            raise CheckpointError(f"{name} is no safetensors file: its header is no JSON ({exc})") from exc
    if not isinstance(header, dict):
        raise CheckpointError(f"{name} is no safetensors file: its header is no mapping")
    header.pop("__metadata__", None)
    try:
        return _checked(name, header, size - 8 - length)
    except (KeyError, TypeError, ValueError, AttributeError) as exc:
        raise CheckpointError(f"{name} has a malformed header ({type(exc).__name__}: {exc})") from exc


def _checked(name: str, header: dict[str, t.Any], data: int) -> dict[str, dict[str, t.Any]]:
    end = 0
    tensors: dict[str, dict[str, t.Any]] = {}
    for tensor, entry in header.items():
        dtype, shape, (begin, stop) = str(entry["dtype"]), [int(n) for n in entry["shape"]], entry["data_offsets"]
        count = 1
        for length in shape:
            count *= length
        if dtype in _WEIGHT_BYTES and stop - begin != count * _WEIGHT_BYTES[dtype]:
            raise CheckpointError(f"{name}: tensor {tensor} has {stop - begin} bytes, its shape needs another number")
        end = max(end, int(stop))
        tensors[tensor] = {"dtype": dtype, "shape": shape}
    if end > data:
        raise CheckpointError(f"{name} is truncated: {data} of {end} bytes of weights are there")
    if end < data:
        raise CheckpointError(f"{name} has {data - end} bytes beyond its weights")
    return tensors


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
            tensors.update(read_header(os.path.join(directory, name)))
        except CheckpointError as exc:
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
