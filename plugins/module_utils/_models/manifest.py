# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Manifests of model directories: what files there are, how large, with which SHA-256. Private to this collection."""

from __future__ import annotations

import hashlib
import json
import os
import typing as t

NAME = ".dflash-manifest.json"
CHUNK = 1 << 22


def sha256(path: str) -> str:
    """Hex SHA-256 of a file, read in 4 MiB pieces."""
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        for piece in iter(lambda: stream.read(CHUNK), b""):
            digest.update(piece)
    return digest.hexdigest()


def model_files(folder: str) -> list[str]:
    """Relative paths of a model's files, sorted; hidden files, caches and half-made downloads are no part of it."""
    found = []
    for base, folders, names in os.walk(folder, followlinks=True):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "__pycache__")
        for name in sorted(names):
            if not name.startswith(".") and not name.endswith((".incomplete", ".lock", ".part")):
                found.append(os.path.relpath(os.path.join(base, name), folder))
    return sorted(found)


def describe(folder: str, known: t.Mapping[str, t.Any] | None = None) -> dict[str, t.Any]:
    """``{files: [{path, size, mtime_ns, sha256}]}`` of a directory.

    :param known: an earlier manifest of the same directory; a file of equal size and time is not read again.
    """
    before = {entry["path"]: entry for entry in (known or {}).get("files", [])}
    files = []
    for path in model_files(folder):
        status = os.stat(os.path.join(folder, path))
        entry = {"path": path, "size": status.st_size, "mtime_ns": status.st_mtime_ns}
        old = before.get(path)
        same = old is not None and (old["size"], old.get("mtime_ns")) == (entry["size"], entry["mtime_ns"])
        entry["sha256"] = old["sha256"] if same and old else sha256(os.path.join(folder, path))
        files.append(entry)
    return {"files": files}


def read(folder: str) -> dict[str, t.Any] | None:
    """The manifest kept in a staged directory; None when absent or damaged."""
    try:
        with open(os.path.join(folder, NAME), encoding="utf-8") as stream:
            value = json.load(stream)
        return value if isinstance(value.get("files"), list) else None
    except (OSError, ValueError, AttributeError):
        return None
