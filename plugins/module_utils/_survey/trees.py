# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One bounded walk that finds virtual environments, source checkouts and model directories."""

from __future__ import annotations

import os
import typing as t

from .source import REMOTE, Source
from .system import mounts

#: Where such things lie; a path is skipped where it does not exist. A star stands for one directory level.
PATHS = (
    "/opt",
    "/srv",
    "/data",
    "/mnt",
    "/models",
    "/workspace",
    "/scratch",
    "/usr/local",
    "/var/lib/dflash",
    "/root",
    "/home",
    "/root/.cache/huggingface/hub",
    "/home/*/.cache/huggingface/hub",
    "/dev/shm",
)
_NEVER = frozenset(
    [
        "node_modules",
        "__pycache__",
        "site-packages",
        "dist-packages",
        "lost+found",
        "proc",
        "sys",
        "blobs",
        "refs",
        ".locks",
        "share",
        "include",
        "man",
        "locale",
        "doc",
        "docs",
        "test",
        "tests",
    ]
)
#: Hidden directories that are worth entering.
_HIDDEN = frozenset((".venv", ".virtualenvs", ".local"))
_WEIGHTS = (".safetensors", ".gguf", ".bin", ".pt", ".pth")


class Found:
    """Paths of the surveyed system."""

    def __init__(self) -> None:
        self.environments: list[str] = []
        self.checkouts: list[str] = []
        self.models: list[str] = []


def expand(source: Source, paths: t.Iterable[str]) -> list[str]:
    """Return the existing directories that the paths name, with * for one level."""
    found: list[str] = []
    for path in paths:
        head, star, tail = path.partition("/*/")
        candidates = [f"{head}/{name}/{tail}" for name in source.names(head)] if star else [path]
        found += [candidate for candidate in candidates if os.path.isdir(source.path(candidate))]
    return list(dict.fromkeys(found))


def remote_mounts(source: Source) -> list[str]:
    """Return the mount points that must not be entered, because their server may be gone."""
    table = mounts(source.read("/proc/mounts", 4 << 20) or "")
    return [entry["mount"] for entry in table if entry["type"] in REMOTE]


def walk(source: Source, paths: t.Iterable[str], depth: int = 4, entries: int = 30000) -> Found:
    """Walk the paths breadth first, never into remote file systems or symbolic links, and stop at the bounds.

    Args:
        depth: levels below each path.
        entries: directory entries to look at in all.
    """
    found = Found()
    remote = remote_mounts(source)
    roots = [path for path in expand(source, paths) if not any(is_below(path, mount) for mount in remote)]
    queue = [(path, 0) for path in roots]
    seen = set(roots)
    looked = 0
    while queue:
        path, level = queue.pop(0)
        if looked >= entries or source.late():
            source.warn("trees", f"the search stopped after {looked} entries, before {path}")
            break
        try:
            listing = sorted(os.scandir(source.path(path)), key=lambda entry: entry.name)
        except OSError:
            continue
        looked += len(listing)
        names = {entry.name for entry in listing}
        if names & {"pyvenv.cfg", "conda-meta"}:
            found.environments.append(path)
            continue
        if ".git" in names:
            found.checkouts.append(path)
        if "config.json" in names and any(name.endswith(_WEIGHTS) for name in names):
            found.models.append(path)
            continue
        if level >= depth:
            continue
        for entry in listing:
            child = f"{path.rstrip('/')}/{entry.name}"
            if entry.name in _NEVER or (entry.name.startswith(".") and entry.name not in _HIDDEN) or child in seen:
                continue
            try:
                directory = entry.is_dir(follow_symlinks=False)
            except OSError:
                continue
            if directory and child not in remote:
                seen.add(child)
                queue.append((child, level + 1))
    return found


def is_below(path: str, parent: str) -> bool:
    """Whether `path` is `parent` or lies below it."""
    return path == parent or path.startswith(parent.rstrip("/") + "/")
