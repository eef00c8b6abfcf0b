# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reports on disk: read the previous one, find what differs, write atomically."""

from __future__ import annotations

import os
import tempfile
import typing as t


def read(path: str) -> str | None:
    """Return a text file, or None where there is none.

    Raises:
        OSError: it is there and cannot be read.
    """
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except FileNotFoundError:
        return None


def differences(folder: str, files: t.Mapping[str, str]) -> dict[str, tuple[str | None, str]]:
    """Return {name: (text there, text wanted)} of the files in `folder` that are missing or differ."""
    found = {}
    for name, wanted in files.items():
        there = read(os.path.join(folder, name))
        if there != wanted:
            found[name] = (there, wanted)
    return found


def write(folder: str, files: t.Mapping[str, str]) -> None:
    """Write files, each whole or not at all: a reader never sees half of one, whenever this is interrupted."""
    os.makedirs(folder, mode=0o755, exist_ok=True)
    for name, text in files.items():
        handle, temporary = tempfile.mkstemp(prefix=f".{name}.", dir=folder)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())
            os.chmod(temporary, 0o644)
            os.replace(temporary, os.path.join(folder, name))
        except BaseException:
            os.unlink(temporary)
            raise
