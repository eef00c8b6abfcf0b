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


class SafetensorsError(ValueError):
    """A file that is not a complete safetensors file; the text says why."""


def read_header(path: str) -> dict[str, t.Any]:
    """Tensor name to ``{dtype, shape, data_offsets}`` of a complete file; ``__metadata__`` is left out.

    :raises SafetensorsError: truncated, oversized or damaged file.
    :raises OSError: unreadable file.
    """
    size = os.path.getsize(path)
    name = os.path.basename(path)
    with open(path, "rb") as stream:
        prefix = stream.read(8)
        if len(prefix) < 8:
            raise SafetensorsError(f"{name} is truncated: {size} bytes, too short for a header")
        (length,) = struct.unpack("<Q", prefix)
        if length > MAX_HEADER_BYTES:
            raise SafetensorsError(f"{name} is not a safetensors file: its header would be {length} bytes long")
        text = stream.read(length)
    if len(text) < length:
        raise SafetensorsError(f"{name} is truncated inside its header: {size} bytes of at least {8 + length}")
    try:
        header = json.loads(text)
        tensors = {key: value for key, value in header.items() if key != "__metadata__"}
        end = max((int(value["data_offsets"][1]) for value in tensors.values()), default=0)
    except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
        raise SafetensorsError(f"{name} has a damaged header: {error}") from error
    expected = 8 + length + end
    if size != expected:
        what = "truncated" if size < expected else "longer than its header says"
        raise SafetensorsError(f"{name} is {what}: {size} bytes, its header describes {expected}")
    return tensors
