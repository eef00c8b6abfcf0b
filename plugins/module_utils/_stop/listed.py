# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The operator's list, checked, and what on a host it means. Pure functions."""

from __future__ import annotations

import re
import typing as t

_UNIT = re.compile(r"^[A-Za-z0-9:_.@\\-]+\.(?:service|scope|slice)$")
#: Without these nobody gets back onto the host; ours have a play of their own.
_SPARED = re.compile(
    r"^(?:ssh|sshd|dbus|dbus-broker|networking|NetworkManager|nvidia-persistenced|systemd-.*)(?:@.*)?\.service$"
)
_OWN = re.compile(r"^dflash-.*\.service$")


def check(entry: t.Any) -> dict[str, t.Any]:
    """One entry as ``{unit}`` or ``{command}`` with ``resume``; raises ValueError with value, reason and way out."""
    if isinstance(entry, str):
        entry = {"unit": entry} if _UNIT.match(entry.strip()) else {"command": entry}
    unknown = sorted(set(entry) - {"unit", "command", "resume"})
    if unknown:
        raise ValueError(f"stop_first: {unknown[0]!r} is unknown. An entry has unit or command, and resume")
    unit, command = (str(entry.get(key) or "").strip() for key in ("unit", "command"))
    if bool(unit) == bool(command):
        raise ValueError(f"stop_first: {entry!r} must name either a unit or a command line")
    resume = bool(entry.get("resume"))
    if unit:
        _check_unit(unit)
        return {"unit": unit, "command": None, "resume": resume}
    words = command.split()
    if len(words) < 2 or "*" in " ".join(words[:2]) or "*" in command[:-1]:
        raise ValueError(
            f"stop_first: command {command!r} could hit other processes. Write the whole command line, or its first words "
            "(two at least) and a * at the end; ps -eo args shows it"
        )
    if resume:
        raise ValueError(
            f"stop_first: command {command!r} cannot be resumed, since nobody knows its terminal and environment. "
            "Make it a unit, or leave resume away"
        )
    return {"unit": None, "command": command, "resume": False}


def _check_unit(unit: str) -> None:
    if not _UNIT.match(unit):
        raise ValueError(
            f"stop_first: {unit!r} is no unit name. Write it in full, such as training.service; no patterns"
        )
    if _OWN.match(unit):
        raise ValueError(
            f"stop_first: {unit} is one of this collection's own. Stop it with the play inferlab.dflash.stop"
        )
    if _SPARED.match(unit):
        raise ValueError(f"stop_first: {unit} is not stopped; a host depends on it")


def matches(command: str, argv: t.Sequence[str]) -> bool:
    """Whether a command line is the listed one; a * at its end stands for any further arguments."""
    line, wanted = " ".join(" ".join(argv).split()), " ".join(command.split())
    if not wanted.endswith("*"):
        return line == wanted
    start = wanted[:-1]
    return line.startswith(start) or line == start.rstrip()


def chosen(
    command: str,
    processes: t.Mapping[int, t.Mapping[str, t.Any]],
    spare: t.Container[int] = (),
) -> tuple[list[int], list[str]]:
    """Pids that a listed command line means, and refusals for those that it means and that are not stopped from here.

    :arg processes: pid to ``argv``, ``guest`` (None for the host itself).
    :arg spare: pids of this very run.
    """
    found, refused = [], []
    for pid, process in sorted(processes.items()):
        if pid == 1 or pid in spare or not process["argv"] or not matches(command, process["argv"]):
            continue
        guest = process.get("guest")
        if guest:
            refused.append(f"pid {pid} runs in the {guest['kind']} guest {guest['id']}; list it on that host")
        else:
            found.append(pid)
    return found, refused


def restarter(pid: int, processes: t.Mapping[int, t.Mapping[str, t.Any]]) -> str:
    """Who started a process that came back, as a person wants to read it."""
    process = processes.get(pid) or {}
    parent = process.get("ppid")
    above = processes.get(parent) if parent else None
    unit = process.get("unit")
    if above is None or parent == 1:
        return f"systemd, unit {unit}" if unit else "a process that has ended"
    by = " ".join(above.get("argv") or [])[:80] or "a kernel thread"
    return f"pid {parent} {by}" + (f" (unit {above['unit']})" if above.get("unit") else "")


def unit_restarter(shown: t.Mapping[str, str]) -> str:
    """Why a unit can have come back, from ``systemctl show``."""
    triggers = shown.get("TriggeredBy") or ""
    if triggers:
        return f"{triggers} (it triggers the unit)"
    if shown.get("Restart", "no") != "no":
        return f"systemd (Restart={shown['Restart']})"
    return "somebody who started the unit anew"


def held(devices: t.Iterable[t.Mapping[str, t.Any]], pids: t.Container[int]) -> dict[str, int]:
    """UUID to MiB that these processes hold on each GPU."""
    result: dict[str, int] = {}
    for device in devices:
        for process in device.get("processes") or []:
            if process.get("pid") in pids:
                uuid = str(device.get("uuid"))
                result[uuid] = result.get(uuid, 0) + (process.get("memory_mib") or 0)
    return result


def still_held(
    before: t.Iterable[t.Mapping[str, t.Any]],
    now: t.Iterable[t.Mapping[str, t.Any]],
    was_held: t.Mapping[str, int],
    slack_mib: int = 512,
) -> list[str]:
    """GPUs whose used memory has not gone down by what the stopped processes held; unreadable memory is not judged."""
    used_before = {str(device.get("uuid")): device.get("memory_used_mib") for device in before}
    result = []
    for device in now:
        uuid = str(device.get("uuid"))
        was, used = used_before.get(uuid), device.get("memory_used_mib")
        if was_held.get(uuid) and was is not None and used is not None and used > was - was_held[uuid] + slack_mib:
            result.append(f"GPU {device.get('index')} ({uuid}): {used} MiB in use, {was} before")
    return result
