# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who the processes on a GPU are. Private to this collection."""

from __future__ import annotations

import os
import pwd
import re
import typing as t

from ansible_collections.inferlab.dflash.plugins.module_utils._gpu.host import Host

_INTERPRETERS = r"^(python[\d.]*|perl|ruby|node|bash|sh|java)$"


def command(arguments: t.Sequence[str]) -> str | None:
    """The program, and the script or module of an interpreter. Nothing more: further arguments can hold secrets."""
    if not arguments or not arguments[0]:
        return None
    program = arguments[0].split()[0]
    if not re.match(_INTERPRETERS, os.path.basename(program)):
        return program
    for index, word in enumerate(arguments[1:], start=1):
        if word == "-m" and index + 1 < len(arguments):
            return f"{program} -m {arguments[index + 1]}"
        if word == "-c":
            return f"{program} -c"
        if not word.startswith("-"):
            return f"{program} {word}"
    return program


def cgroup(text: str | None) -> str | None:
    """The control group: cgroup2's, else the one that systemd keeps under cgroup 1."""
    unified = named = None
    for line in (text or "").splitlines():
        parts = line.split(":", 2)
        if len(parts) == 3 and parts[0] == "0":
            unified = parts[2]
        elif len(parts) == 3 and parts[1] == "name=systemd":
            named = parts[2]
    return unified if unified not in (None, "/") else named or unified


def guest(group: str | None) -> dict[str, str] | None:
    """The container that a control group belongs to: {kind, id}; None for a process of the host itself."""
    for kind, pattern in (
        ("lxc", r"/lxc(?:\.payload)?[/.]([^/]+)"),
        ("docker", r"/docker[-/]([0-9a-f]{12,64})"),
        ("podman", r"/libpod-(?:payload-|conmon-)?([0-9a-f]{12,64})"),
        ("containerd", r"/cri-containerd-([0-9a-f]{12,64})"),
        ("systemd-nspawn", r"/machine-([^/]+)\.scope"),
    ):
        match = re.search(pattern, group or "")
        if match:
            return {"kind": kind, "id": match.group(1)}
    return None


def unit(group: str | None) -> str | None:
    """The systemd unit that holds the process: the innermost .service or .scope of its control group."""
    for part in reversed((group or "").split("/")):
        if part.endswith((".service", ".scope")):
            return part
    return None


def _user(host: Host, uid: str) -> str:
    for line in (host.read("/etc/passwd") or "").splitlines():
        fields = line.split(":")
        if len(fields) > 2 and fields[2] == uid:
            return fields[0]
    if host.live:
        try:
            return pwd.getpwuid(int(uid)).pw_name
        except (KeyError, ValueError):
            pass
    return uid


def describe(host: Host, pid: int) -> dict[str, t.Any]:
    """{user, command, executable, executable_missing, unit, cgroup, guest}; all None for a process that cannot be seen.

    executable_missing: the file is not in this root, so that the process runs in another one (a guest's, or a deleted file).
    """
    base = f"/proc/{pid}"
    status = host.read(f"{base}/status")
    if status is None:
        keys = ("user", "command", "executable", "executable_missing", "unit", "cgroup", "guest")
        return dict.fromkeys(keys)
    uid = re.search(r"^Uid:\s+(\d+)", status, re.MULTILINE)
    name = re.search(r"^Name:\s+(.+)$", status, re.MULTILINE)
    arguments = (host.read(f"{base}/cmdline") or "").rstrip("\0").split("\0")
    group = cgroup(host.read(f"{base}/cgroup"))
    try:
        executable: str | None = os.readlink(host.path(f"{base}/exe"))
    except OSError:
        executable = None
    return {
        "user": _user(host, uid.group(1)) if uid else None,
        "command": command(arguments) or (name.group(1) if name else None),
        "executable": executable,
        "executable_missing": None if executable is None else not host.exists(executable),
        "unit": unit(group),
        "cgroup": group,
        "guest": guest(group),
    }


def holders(host: Host) -> list[dict[str, t.Any]]:
    """Every process that has a device file of the driver open: [{pid, devices, user, command, unit, ...}]."""
    found = []
    for name in host.listdir("/proc"):
        if not name.isdigit():
            continue
        devices = set()
        for descriptor in host.listdir(f"/proc/{name}/fd"):
            try:
                target = os.readlink(host.path(f"/proc/{name}/fd/{descriptor}"))
            except OSError:
                continue
            if target.startswith("/dev/nvidia"):
                devices.add(target)
        if devices:
            found.append({"pid": int(name), "devices": sorted(devices), **describe(host, int(name))})
    return found
