# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The manifest of a release: every file with mode and hash, so that anything that changed later can be named.

An entry is one short string: ``f 0644 <sha256>``, ``d 0755``, ``l <target>``. Byte code is listed like any other
file: a ``.pyc`` that appeared, or no longer is the one that was compiled, is drift, since Python may run it instead of
the source.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

NAME = "manifest.json"


def collect(
    root: Path, known: Mapping[str, str] | None = None, stamps: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Entries of everything below ``root``, paths relative to it, without the manifest itself; hashed on threads.

    With ``known`` entries and their ``stamps``, a file whose stamp is still the same is not read again.
    """
    found: dict[str, str] = {}
    files: list[tuple[str, int]] = []
    for path, info in _walk(root, ""):
        mode = stat.S_IMODE(info.st_mode)
        if path == NAME:
            continue
        if stat.S_ISLNK(info.st_mode):
            found[path] = f"l {os.readlink(root / path)}"
        elif stat.S_ISDIR(info.st_mode):
            found[path] = f"d {mode:04o}"
        elif not stat.S_ISREG(info.st_mode):
            found[path] = f"? {stat.S_IFMT(info.st_mode):o}"
        elif known and stamps and path in known and stamps.get(path) == _stamp(info):
            found[path] = known[path]
        else:
            files.append((path, mode))
    # hashlib releases the interpreter lock, so threads use the cores; more than 8 only compete for the disk.
    with ThreadPoolExecutor(max_workers=min(8, os.cpu_count() or 1)) as pool:
        digests = pool.map(lambda item: sha256(root / item[0]), files)
        found.update({path: f"f {mode:04o} {digest}" for (path, mode), digest in zip(files, digests)})
    return found


def stamps(root: Path) -> dict[str, str]:
    """A short string for each regular file, the manifest excepted, that is another one after every change to the file."""
    return {path: _stamp(info) for path, info in _walk(root, "") if stat.S_ISREG(info.st_mode) and path != NAME}


def _stamp(info: os.stat_result) -> str:
    # The time of the last change of the inode is set by the kernel alone: unlike the time of modification, no program
    # can put it back.
    return f"{info.st_size} {info.st_ctime_ns} {info.st_ino}"


def sha256(path: Path) -> str:
    """Hex digest of a file, read in pieces of 1 MiB."""
    digest = hashlib.sha256()
    with open(path, "rb") as handle:
        for block in iter(lambda: handle.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def compare(recorded: Mapping[str, str], found: Mapping[str, str]) -> list[dict[str, str]]:
    """Drift between two manifests, sorted by path: ``{path, problem}`` with problem one of missing, added, mode,
    bytecode (a .pyc that changed or appeared), changed."""
    drift = []
    for path in sorted(recorded.keys() | found.keys()):
        before, after = recorded.get(path), found.get(path)
        if before != after:
            drift.append({"path": path, "problem": _problem(path, before, after)})
    return drift


def _problem(path: str, before: str | None, after: str | None) -> str:
    if after is None:
        return "missing"
    if path.endswith(".pyc"):
        return "bytecode"
    if before is None:
        return "added"
    same_content = before.split(" ")[0] == after.split(" ")[0] and before.split(" ")[2:] == after.split(" ")[2:]
    return "mode" if same_content and before[0] != "l" else "changed"


def _walk(root: Path, prefix: str) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(root / prefix if prefix else root) as entries:
        for entry in entries:
            path = f"{prefix}/{entry.name}" if prefix else entry.name
            yield path, entry.stat(follow_symlinks=False)
            if entry.is_dir(follow_symlinks=False):
                yield from _walk(root, path)
