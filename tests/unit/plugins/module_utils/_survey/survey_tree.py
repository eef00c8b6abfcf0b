# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small system below a directory, for the tests of the survey."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

from ansible_collections.inferlab.dflash.plugins.module_utils._survey.source import Source


def plant(root: Path, files: dict[str, t.Any]) -> Source:
    """Write files below the root and return a source that reads there; a value of ("->", target) makes a link."""
    for name, content in files.items():
        path = root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, tuple):
            path.symlink_to(content[1])
        elif isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return Source(str(root))


def process(
    pid: int,
    argv: list[str],
    cgroup: str = "/user.slice",
    exe: str | None = None,
    uid: int = 0,
    sockets: t.Sequence[int] = (),
) -> dict[str, t.Any]:
    """Files of one process in /proc."""
    base = f"/proc/{pid}"
    files: dict[str, t.Any] = {
        f"{base}/cmdline": "\0".join(argv) + "\0",
        f"{base}/status": f"Name:\tx\nPPid:\t1\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\nVmRSS:\t  2048 kB\n",
        f"{base}/cgroup": f"0::{cgroup}\n",
    }
    if exe:
        files[f"{base}/exe"] = ("->", exe)
    for number, inode in enumerate(sockets):
        files[f"{base}/fd/{number}"] = ("->", f"socket:[{inode}]")
    return files
