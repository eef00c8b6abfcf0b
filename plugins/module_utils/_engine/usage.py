# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who needs a release: links and records of instances, and processes that run from it. Reading only."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path


def links(instances: Path, releases: Path, directory: Path | None = None) -> dict[str, list[str]]:
    """Release id -> instances whose directory links to it or names it in a record (the way back of a roll-back).

    ``releases`` is the path that links hold; ``directory`` is where it can be read, if that is elsewhere.
    """
    on_disk = directory or releases
    known = [path.name for path in on_disk.iterdir()] if on_disk.is_dir() else []
    needed: dict[str, list[str]] = {}
    for instance in sorted(instances.iterdir()) if instances.is_dir() else []:
        for release in _named_in(instance, {releases, on_disk}, known) if instance.is_dir() else ():
            needed.setdefault(release, []).append(instance.name)
    return needed


def running(releases: Path, ids: Iterable[str], proc: Path = Path("/proc")) -> set[str]:
    """Ids whose files a process has mapped: a link may have moved on while the old server still runs."""
    paths = {os.path.realpath(releases / identifier).encode() + b"/": identifier for identifier in ids}
    found: set[str] = set()
    for maps in proc.glob("[0-9]*/maps") if paths else ():
        try:
            content = maps.read_bytes()
        except OSError:
            continue
        found |= {identifier for path, identifier in paths.items() if path in content}
    return found


def _named_in(instance: Path, releases: set[Path], known: Iterable[str]) -> set[str]:
    named = set()
    for entry in instance.iterdir():
        if entry.is_symlink():
            target = Path(os.path.normpath(os.path.join(instance, os.readlink(entry))))
            if target.parent in releases:
                named.add(target.name)
        elif entry.suffix == ".json" and entry.is_file():
            text = entry.read_text(encoding="utf-8", errors="replace")
            named |= {name for name in known if name in text}
    return named
