# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who holds dpkg's and apt's locks, and waiting for them. A lock is never removed and its holder never disturbed.

Private to this collection.
"""

from __future__ import annotations

import fcntl
import os
import struct
import time
import typing as t

LOCKS = ("/var/lib/dpkg/lock-frontend", "/var/lib/dpkg/lock", "/var/cache/apt/archives/lock")
_FLOCK = "hhqqi"  # struct flock of 64-bit Linux: type, whence, start, length, pid


class Held(Exception):
    """A lock is still held at the end of the wait."""

    def __init__(self, path: str, pid: int, name: str, waited: float) -> None:
        super().__init__(
            f"{path} is held by process {pid} ({name}) and was not released within {waited:g} s. Wait for it and run this again; "
            "do not remove the lock file."
        )
        self.path, self.pid, self.name = path, pid, name


def _process_name(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm") as file:
            return file.read().strip()
    except OSError:
        return "not visible from here"


def holder(path: str) -> tuple[int, str] | None:
    """(pid, name) of the process that holds a POSIX lock on the file, None when it is free or does not exist."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        answer = fcntl.fcntl(descriptor, fcntl.F_GETLK, struct.pack(_FLOCK, fcntl.F_WRLCK, 0, 0, 0, 0))
    finally:
        os.close(descriptor)
    kind, _whence, _start, _length, pid = struct.unpack(_FLOCK, answer)
    return None if kind == fcntl.F_UNLCK else (pid, _process_name(pid))


def wait(timeout: float, paths: t.Sequence[str] = LOCKS, interval: float = 1.0) -> None:
    """Return when every lock is free; raise Held after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while True:
        held = next(((path, who) for path in paths for who in [holder(path)] if who), None)
        if held is None:
            return
        if time.monotonic() >= deadline:
            raise Held(held[0], held[1][0], held[1][1], timeout)
        time.sleep(min(interval, max(0.05, deadline - time.monotonic())))
