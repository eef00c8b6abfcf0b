# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Headers of safetensors files, read without any library so that targets need none. Private to this collection.

Source of the format: the safetensors repository, README "Format": 8 bytes little-endian header length, JSON header, then data.
"""

from __future__ import annotations

import json
import os
import struct
import typing as t

# The format's own limit (safetensors/src/tensor.rs, MAX_HEADER_SIZE).
MAX_HEADER_BYTES = 100_000_000
_LFS_MARK = b"version https://git-lfs"
_BYTES = {
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3"), 1),
    **dict.fromkeys(("I16", "U16", "F16", "BF16"), 2),
    **dict.fromkeys(("I32", "U32", "F32"), 4),
    **dict.fromkeys(("I64", "U64", "F64"), 8),
}


class SafetensorsError(ValueError):
    """A file that is not a complete safetensors file; the text names the file and says why."""


def read_header(path: str) -> dict[str, t.Any]:
    """Tensor name to ``{dtype, shape, data_offsets}`` of a complete file; ``__metadata__`` is left out.

    :raises SafetensorsError: truncated, oversized or damaged file, or something else under that name (a Git LFS pointer).
    :raises OSError: unreadable file.
    """
    size = os.path.getsize(path)
    name = os.path.basename(path)
    with open(path, "rb") as stream:
        prefix = stream.read(8)
        if size < 1024 and (prefix + stream.read(64)).startswith(_LFS_MARK):
            raise SafetensorsError(f"{name} is a Git LFS pointer, not the weights")
        if len(prefix) < 8:
            raise SafetensorsError(f"{name} is truncated: {size} bytes, too short for a header")
        (length,) = struct.unpack("<Q", prefix)
        if length > MAX_HEADER_BYTES:
            raise SafetensorsError(f"{name} is not a safetensors file: its header would be {length} bytes long")
        stream.seek(8)
        text = stream.read(length)
    if len(text) < length:
        raise SafetensorsError(f"{name} is truncated inside its header: {size} bytes of at least {8 + length}")
    try:
        header = json.loads(text)
        tensors = {key: value for key, value in header.items() if key != "__metadata__"}
        for tensor, entry in tensors.items():
            _check(name, tensor, entry)
        end = max((int(value["data_offsets"][1]) for value in tensors.values()), default=0)
    except SafetensorsError:
        raise
    except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
        raise SafetensorsError(f"{name} has a damaged header: {error}") from error
    expected = 8 + length + end
    if size != expected:
        what = "truncated" if size < expected else "longer than its header says"
        raise SafetensorsError(f"{name} is {what}: {size} bytes, its header describes {expected}")
    return tensors


def _check(name: str, tensor: str, entry: dict[str, t.Any]) -> None:
    """The bytes of a tensor are what its shape needs; unknown types are left to the engine."""
    begin, end = entry["data_offsets"]
    count = 1
    for length in entry["shape"]:
        count *= length
    if entry["dtype"] in _BYTES and end - begin != count * _BYTES[entry["dtype"]]:
        raise SafetensorsError(f"{name}: tensor {tensor} has {end - begin} bytes, its shape needs another number")
