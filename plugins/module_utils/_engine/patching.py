# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Patches to installed files, applied to the byte: a file with an unexpected hash is refused, never guessed at."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.inferlab.dflash.plugins.module_utils._engine.errors import EngineError

_HUNK = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@")


def select(patches: Iterable[Mapping[str, Any]], versions: Mapping[str, str]) -> list[dict[str, Any]]:
    """The patches that are for exactly these package versions (normalised name -> version of the lock)."""
    return [dict(patch) for patch in patches if versions.get(patch["package"]) in patch["versions"]]


def apply_diff(text: str, diff: str, name: str) -> str:
    """Apply a unified diff for one file, strictly: no fuzz, no offset. Raises EngineError naming the hunk otherwise."""
    source = text.splitlines(keepends=True)
    result: list[str] = []
    position = 0
    for number, (start, body) in enumerate(_hunks(diff), 1):
        if start < position:
            raise EngineError(f"patch {name}: hunk {number} overlaps the one before it")
        result += source[position:start]
        position = start
        for line in body:
            if line[:1] in (" ", "-"):
                if position >= len(source) or source[position] != line[1:]:
                    raise EngineError(f"patch {name}: hunk {number} does not match line {position + 1}")
                position += 1
            if line[:1] in (" ", "+"):
                result.append(line[1:])
    return "".join(result + source[position:])


def _hunks(diff: str) -> list[tuple[int, list[str]]]:
    """(0-based first source line, body lines) of each hunk; a ``\\ No newline`` mark takes the newline off its line."""
    hunks: list[tuple[int, list[str]]] = []
    for line in diff.splitlines(keepends=True):
        header = _HUNK.match(line)
        if header:
            # A hunk that removes nothing (",0") names the line before the insertion.
            first = int(header.group(1))
            hunks.append((first if header.group(2) == "0" else first - 1, []))
        elif line.startswith("\\") and hunks:
            hunks[-1][1][-1] = hunks[-1][1][-1].rstrip("\n")
        elif hunks and line[:1] in (" ", "-", "+"):
            hunks[-1][1].append(line)
        elif hunks and line == "\n":
            hunks[-1][1].append(" \n")
    return hunks


def apply(content: bytes, patch: Mapping[str, Any]) -> bytes:
    """The patched file. Raises EngineError when the file, or what the patch makes of it, has an unexpected hash."""
    before = hashlib.sha256(content).hexdigest()
    if before != patch["before"]:
        raise EngineError(
            f"patch {patch['name']}: {patch['file']} has the unknown hash {before}, expected {patch['before']}; "
            "the patch was made for another build of this file"
        )
    patched = apply_diff(content.decode(), patch["diff"], patch["name"]).encode()
    after = hashlib.sha256(patched).hexdigest()
    if after != patch["after"]:
        raise EngineError(f"patch {patch['name']}: gives {after} for {patch['file']}, expected {patch['after']}")
    return patched


def apply_all(site: Path, patches: Iterable[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Patch files below ``site`` (a site-packages directory); returns ``{name, file, before, after}`` of each.

    Raises EngineError, with nothing written for that patch, when a file is missing or its hash is unknown.
    """
    applied = []
    for patch in patches:
        path = site / patch["file"]
        if not path.is_file():
            raise EngineError(f"patch {patch['name']}: {patch['file']} is not in the release")
        path.write_bytes(apply(path.read_bytes(), patch))
        applied.append({key: patch[key] for key in ("name", "file", "before", "after")})
    return applied
