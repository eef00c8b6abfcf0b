# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The processes and units of a host: looking, signalling, waiting. Private to this collection."""

from __future__ import annotations

import os
import signal
import time
import typing as t

from ansible_collections.inferlab.dflash.plugins.module_utils._gpu import facts
from ansible_collections.inferlab.dflash.plugins.module_utils._gpu.host import Host
from ansible_collections.inferlab.dflash.plugins.module_utils._gpu.processes import cgroup, guest, unit

_SHOWN = "ActiveState,LoadState,MainPID,ControlGroup,Restart,TriggeredBy,SubState"


def processes(host: Host) -> dict[int, dict[str, t.Any]]:
    """Pid to ``argv, ppid, state, started, unit, cgroup, guest`` of every process; ``started`` tells a reused pid apart.

    ``guest`` is None for this system's own processes, also where this system is a container itself.
    """
    found = {}
    here = guest(cgroup(host.read("/proc/self/cgroup")))
    for name in host.listdir("/proc"):
        if not name.isdigit():
            continue
        stat = host.read(f"/proc/{name}/stat")
        if not stat or ")" not in stat:
            continue
        # The name in parentheses can hold spaces; the fields after it cannot.
        fields = stat.rpartition(")")[2].split()
        group = cgroup(host.read(f"/proc/{name}/cgroup"))
        arguments = (host.read(f"/proc/{name}/cmdline") or "").rstrip("\0")
        found[int(name)] = {
            "argv": arguments.split("\0") if arguments else [],
            "ppid": int(fields[1]),
            "state": fields[0],
            "started": fields[19],
            "unit": unit(group),
            "cgroup": group,
            "guest": None if guest(group) == here else guest(group),
        }
    return found


def alive(host: Host, pid: int, started: str) -> bool:
    """Whether this very process still runs; a zombie does not."""
    stat = host.read(f"/proc/{pid}/stat")
    if not stat or ")" not in stat:
        return False
    fields = stat.rpartition(")")[2].split()
    return fields[19] == started and fields[0] not in ("Z", "X")


def ancestors(all_processes: t.Mapping[int, t.Mapping[str, t.Any]]) -> set[int]:
    """This process and those above it, which a listed command line must never mean."""
    result, pid = set(), os.getpid()
    while pid and pid not in result:
        result.add(pid)
        pid = (all_processes.get(pid) or {}).get("ppid") or 0
    return result


def send(host: Host, pid: int, started: str, number: int) -> None:
    """Signal this very process, if it is still there."""
    if alive(host, pid, started):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return


def wait_gone(host: Host, wanted: t.Mapping[int, str], seconds: float) -> dict[int, str]:
    """Wait until none of these (pid to start time) is left; the ones that are."""
    deadline = time.monotonic() + seconds
    while True:
        left = {pid: started for pid, started in wanted.items() if alive(host, pid, started)}
        if not left or time.monotonic() >= deadline:
            return left
        time.sleep(0.1)


def end(host: Host, wanted: t.Mapping[int, str], grace: float, may_kill: bool) -> tuple[dict[int, str], bool]:
    """SIGTERM, wait, and SIGKILL where that is permitted: what is left, and whether SIGKILL was needed."""
    for pid, started in wanted.items():
        send(host, pid, started, signal.SIGTERM)
    left = wait_gone(host, wanted, grace)
    if not left or not may_kill:
        return left, False
    for pid, started in left.items():
        send(host, pid, started, signal.SIGKILL)
    return wait_gone(host, left, 10), True


def show(host: Host, name: str) -> dict[str, str]:
    """Properties of a unit; LoadState not-found for one that does not exist."""
    result = host.run(["systemctl", "show", "--property", _SHOWN, name])
    return dict(line.split("=", 1) for line in result.out.splitlines() if "=" in line)


def gpus(host: Host) -> list[dict[str, t.Any]]:
    """The devices of gpu_facts with memory and processes."""
    return list(facts.gather(host, {"driver", "devices", "processes"}).get("devices") or [])
