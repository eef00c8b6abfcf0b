# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prove that a host's files are untouched.

usage: untouched.py snapshot NAME FILE     note every file of container NAME: type, mode, owner, size, times, inode
       untouched.py compare BEFORE LOGIN AFTER
BEFORE to LOGIN is what a login alone changes on the host; compare fails and lists what changed from LOGIN to AFTER beside that.
Numbers in names count as equal, since each session has its own.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

# -xdev stays out of /proc and /sys; the file systems of a running system that hold files are named.
# Ansible unpacks each module into a directory of its own here and removes it: the time of /tmp moves, no file may stay.
TEMPORARY = "/tmp"
FIND = ["find", "/", "/run", "/tmp", "/dev/shm", "/var/tmp", "-xdev", "-printf", r"%p\t%y %m %U %G %s %i %T@ %C@\n"]


def snapshot(name: str, file: str) -> None:
    listing = subprocess.run(["podman", "exec", name, *FIND], capture_output=True, text=True, check=False).stdout
    Path(file).write_text(listing, encoding="utf-8")


def read(file: str) -> dict[str, str]:
    rows = (line.split("\t", 1) for line in Path(file).read_text(encoding="utf-8").splitlines())
    return dict(rows)


def changed(before: dict[str, str], after: dict[str, str]) -> set[str]:
    return {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}


def compare(before: str, login: str, after: str) -> int:
    states = [read(file) for file in (before, login, after)]
    if min(len(state) for state in states) < 1000:
        print("a snapshot holds too few files to prove anything")
        return 2
    by_login = {re.sub(r"\d+", "N", path) for path in changed(states[0], states[1])}
    touched = sorted(
        path for path in changed(states[1], states[2]) if re.sub(r"\d+", "N", path) not in by_login | {TEMPORARY}
    )
    for path in touched:
        print(f"{path}: {states[1].get(path)} -> {states[2].get(path)}")
    print(f"{len(states[2])} files, {len(touched)} touched")
    return 1 if touched else 0


if __name__ == "__main__":
    if sys.argv[1] == "snapshot":
        snapshot(*sys.argv[2:])
    else:
        sys.exit(compare(*sys.argv[2:]))
