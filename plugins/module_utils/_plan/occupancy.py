# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which GPUs are free, and who holds the others.

A GPU is free when its used memory, less that of the instances this deployment replaces, is below the idle limit and no
foreign process is on it. Memory that no visible process explains is foreign: a guest cannot see the processes of other
namespaces, so "no process listed" proves nothing.
"""

from __future__ import annotations

import re
import typing as t

IDLE_MIB = 1024

#: cgroup paths of Proxmox and LXC guests, podman, docker and systemd machines.
_GUEST_CGROUP = re.compile(r"(?:^|/)(?:lxc[./]|lxc\.payload|libpod|docker[-/]|machine\.slice|kubepods)")


def unit_name(instance: str) -> str:
    """The systemd unit of an instance."""
    return f"dflash-{instance}.service"


def unit_of(process: t.Mapping[str, t.Any]) -> str | None:
    """The unit of a process, also when it is seen from the host and the unit runs in a guest.

    The host reports the unit of the guest itself; the guest's own unit is the last ``*.service`` of the cgroup path.
    """
    cgroup = process.get("cgroup") or ""
    services = [part for part in str(cgroup).split("/") if part.endswith(".service")]
    if services:
        return services[-1]
    unit = process.get("unit")
    return str(unit) if unit else None


def describe_process(process: t.Mapping[str, t.Any]) -> str:
    """One holder as a person wants to read it: pid, command, user, unit, memory."""
    details = []
    if process.get("user"):
        details.append(f"user {process['user']}")
    if unit_of(process):
        details.append(f"unit {unit_of(process)}")
    if process.get("seen_from"):
        details.append(f"seen from {process['seen_from']}")
    memory = process.get("memory_mib")
    details.append(f"{memory} MiB" if memory is not None else "memory unknown")
    command = str(process.get("command") or "unknown command")
    if len(command) > 60:
        command = command[:57] + "..."
    return f"pid {process.get('pid')} {command} ({', '.join(details)})"


def describe_gpu(device: t.Mapping[str, t.Any]) -> str:
    """A GPU as index, name and UUID."""
    return f"GPU {device.get('index')} ({device.get('name') or 'unknown model'}, {device.get('uuid')})"


def _is_desktop(process: t.Mapping[str, t.Any], idle_mib: int) -> bool:
    """A display server holds some memory of a workstation's GPU all the time, and shares it well."""
    memory = process.get("memory_mib")
    return process.get("type") == "G" and memory is not None and memory < idle_mib


def _of_guest(process: t.Mapping[str, t.Any]) -> bool:
    """True for a process that the reporting host sees inside one of its guests or containers."""
    return bool(process.get("guest")) or bool(_GUEST_CGROUP.search(str(process.get("cgroup") or "")))


class Own(t.NamedTuple):
    """What this deployment replaces on one host."""

    #: Units of the instances wished for.
    units: frozenset[str]
    #: GPU UUID to the units of running instances whose record names that GPU.
    recorded: t.Mapping[str, t.Collection[str]]
    #: Whether the host is itself a container, so that its cgroup paths say nothing about guests.
    in_container: bool = False
    #: Units and command lines (a * at the end stands for more arguments) that are stopped before anything is started.
    leaving: tuple[str, ...] = ()

    def leaves(self, process: t.Mapping[str, t.Any]) -> bool:
        """Whether the process is listed to be stopped first. Facts hold a command's first words only, never all of it."""
        command = str(process.get("command") or "")
        return any(
            entry == unit_of(process) or (bool(command) and (entry + " ").startswith(command.rstrip() + " "))
            for entry in self.leaving
        )

    def owns(self, process: t.Mapping[str, t.Any], uuid: str) -> bool:
        """Whether the process belongs to an instance that this deployment replaces."""
        unit = unit_of(process)
        if unit not in self.units:
            return False
        # Seen by another system, or inside a guest of this one: the unit name alone could be another guest's instance.
        if process.get("seen_from"):
            return unit in self.recorded.get(uuid, ())
        return self.in_container or not _of_guest(process)


NOTHING_OWN = Own(frozenset(), {})


def assess(
    device: t.Mapping[str, t.Any],
    own: Own = NOTHING_OWN,
    idle_mib: int = IDLE_MIB,
    dead: t.Mapping[str, str] | None = None,
    tentative: bool = False,
) -> dict[str, t.Any]:
    """Judge one device of ``gpu_facts``.

    :arg dead: UUID to reason of GPUs on which no CUDA context could be opened.
    :arg tentative: memory that cannot be read is no reason; it will be read again before anything is started.
    :returns: ``uuid, free, dead, reasons`` (why not free, one line each), ``foreign_mib`` (MiB, or None when
        unreadable).
    """
    uuid = str(device.get("uuid"))
    failure = (dead or {}).get(uuid)
    if failure is not None:
        return {"uuid": uuid, "free": False, "dead": True, "reasons": [f"set aside: {failure}"], "foreign_mib": None}

    processes = list(device.get("processes") or [])
    mine = [process for process in processes if own.owns(process, uuid) or own.leaves(process)]
    foreign = [p for p in processes if p not in mine and not _is_desktop(p, idle_mib)]
    reasons = [describe_process(process) for process in foreign]

    used = device.get("memory_used_mib")
    foreign_mib: int | None = None
    if used is None and not tentative:
        reasons.append("its used memory could not be read")
    elif used is not None:
        foreign_mib = max(0, used - sum(p.get("memory_mib") or 0 for p in mine))
        unexplained = foreign_mib - sum(p.get("memory_mib") or 0 for p in foreign)
        # A process whose own memory is unknown may explain all of it. In a guest no process at all may be visible: then
        # the record of a running instance of ours explains the memory of its GPU.
        explained = any(p.get("memory_mib") is None for p in mine + foreign) or (
            not mine and bool(own.recorded.get(uuid) or own.leaving)
        )
        if unexplained >= idle_mib and not explained:
            reasons.append(f"{unexplained} MiB in use that no visible process explains (another namespace or guest)")
    if device.get("mig_mode"):
        reasons.append("MIG is on; MIG slices are not planned")
    return {"uuid": uuid, "free": not reasons, "dead": False, "reasons": reasons, "foreign_mib": foreign_mib}


def merge_views(
    device: t.Mapping[str, t.Any],
    others: t.Mapping[str, t.Mapping[str, t.Any]],
) -> dict[str, t.Any]:
    """One GPU as seen by a host and its guests together.

    A process that only another system sees explains memory here. A pid differs between namespaces, so the same process
    is recognised by its unit and memory; processes of the local view win, since their user and unit are named locally.

    :arg others: host name to that host's device of the same UUID.
    """
    local = list(device.get("processes") or [])
    added: list[dict[str, t.Any]] = []
    for host in sorted(others):
        known = [_mark(process) for process in local + added]
        for process in others[host].get("processes") or []:
            if _mark(process) in known:
                known.remove(_mark(process))
            else:
                added.append({**process, "seen_from": host})
    used = [view.get("memory_used_mib") for view in (device, *others.values())]
    readings = [value for value in used if value is not None]
    return {**device, "processes": local + added, "memory_used_mib": max(readings) if readings else None}


def _mark(process: t.Mapping[str, t.Any]) -> tuple[t.Any, t.Any]:
    return unit_of(process), process.get("memory_mib")
