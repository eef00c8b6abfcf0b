# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who may plan and deploy on a host now. Pure, but for reading the control node's own processes; private to this collection."""

from __future__ import annotations

import getpass
import os
import socket
import typing as t


def _start_time(pid: int) -> str | None:
    """Start time of a process in clock ticks since boot (field 22 of /proc/PID/stat); tells a reused pid from the old one."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stream:
            return stream.read().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return None


def _parent(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stream:
            return int(stream.read().rpartition(")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return 0


def _controller() -> str:
    try:
        with open("/etc/machine-id", encoding="utf-8") as stream:
            return f"{socket.gethostname()}/{stream.read().strip()}"
    except OSError:
        return socket.gethostname()


def _namespace() -> str | None:
    """The process namespace of this run: two containers on one control node number their processes apart."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return None


def owner() -> dict[str, t.Any]:
    """This run: control node, process namespace, user, and the oldest ansible process above the caller with its start time."""
    pid = chosen = os.getpid()
    while pid > 1:
        try:
            with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as stream:
                words = stream.read().split("\0")[:3]
            # The program or the script an interpreter runs; a mere argument or folder with that word does not count.
            if any(os.path.basename(word).startswith("ansible") for word in words):
                chosen = pid
        except OSError:
            break
        pid = _parent(pid)
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return {
        "controller": _controller(),
        "namespace": _namespace(),
        "user": user,
        "pid": chosen,
        "started": _start_time(chosen),
        "job": os.environ.get("JOB_ID"),
    }


def is_dead(record: t.Mapping[str, t.Any] | None) -> bool:
    """Whether the run that a lock names certainly ended: it was on this control node, and its process is gone.

    Of a run in another container nothing is certain: its processes cannot be seen from here.
    """
    if not record or record.get("controller") != _controller() or record.get("namespace") != _namespace():
        return False
    pid = record.get("pid")
    return not isinstance(pid, int) or _start_time(pid) != record.get("started")


def describe(record: t.Mapping[str, t.Any], age_seconds: float) -> str:
    """One phrase on the run that holds a lock."""
    job = f", job {record['job']}" if record.get("job") else ""
    controller = str(record.get("controller", "an unknown control node")).partition("/")[0]
    return f"{record.get('user', 'somebody')} on {controller} (pid {record.get('pid')}{job}), for {age_seconds / 60:.0f} minutes"


def same(a: t.Mapping[str, t.Any] | None, b: t.Mapping[str, t.Any]) -> bool:
    """Whether two owners are the same run."""
    return bool(a) and all((a or {}).get(key) == b.get(key) for key in ("controller", "namespace", "pid", "started"))
