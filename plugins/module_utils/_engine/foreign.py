# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Engines that something else installed: virtual environments and source checkouts with SGLang. Reading only."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_NEVER = frozenset({"proc", "sys", "dev", "run", "node_modules", "__pycache__", ".git", "lost+found"})


def find(start: Path, depth: int, skip: Path) -> list[dict[str, Any]]:
    """``{path, kind, version, python}`` of each engine at most ``depth`` levels below ``start``, not below ``skip``."""
    found = []
    for directory in _directories(start, depth, skip):
        entry = _venv(directory) or _checkout(directory)
        if entry:
            found.append(entry)
    return found


def _directories(start: Path, depth: int, skip: Path) -> Iterator[Path]:
    try:
        device = start.stat().st_dev
    except OSError:
        return
    pending = [(start, 0)]
    while pending:
        directory, level = pending.pop()
        if directory == skip:
            continue
        yield directory
        if level >= depth or (directory / "pyvenv.cfg").is_file():
            continue
        try:
            with os.scandir(directory) as entries:
                below = [Path(e.path) for e in entries if e.name not in _NEVER and e.is_dir(follow_symlinks=False)]
        except OSError:
            continue
        pending += [(path, level + 1) for path in sorted(below, reverse=True) if _same_device(path, device)]


def _same_device(path: Path, device: int) -> bool:
    try:
        return path.lstat().st_dev == device
    except OSError:
        return False


def _venv(directory: Path) -> dict[str, Any] | None:
    if not (directory / "pyvenv.cfg").is_file():
        return None
    for metadata in sorted(directory.glob("lib/python3*/site-packages/sglang-*.dist-info/METADATA")):
        match = re.search(r"^Version: (\S+)", _read(metadata), re.MULTILINE)
        python = metadata.parts[-4].replace("python", "")
        return {"path": str(directory), "kind": "venv", "version": match and match.group(1), "python": python}
    return None


def _checkout(directory: Path) -> dict[str, Any] | None:
    if not (directory / "python" / "sglang" / "launch_server.py").is_file():
        return None
    match = re.search(r"""^__version__ = ["']([^"']+)""", _read(directory / "python/sglang/version.py"), re.MULTILINE)
    return {"path": str(directory), "kind": "checkout", "version": match and match.group(1), "python": None}


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
