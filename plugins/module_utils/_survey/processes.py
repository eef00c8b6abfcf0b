# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Processes of interest: what runs, as whom, in which unit or guest, from which environment."""

from __future__ import annotations

import os
import re
import typing as t

from ansible_collections.inferlab.dflash.plugins.module_utils._gpu.processes import cgroup as cgroup_path
from ansible_collections.inferlab.dflash.plugins.module_utils._gpu.processes import guest as guest_of
from ansible_collections.inferlab.dflash.plugins.module_utils._gpu.processes import unit as unit_of

from .commands import describe, kind_of
from .source import Source, number

_MOST = 200


def users(text: str | None) -> dict[int, str]:
    """Return uid to name from /etc/passwd."""
    rows = (line.split(":") for line in (text or "").splitlines())
    return {int(row[2]): row[0] for row in rows if len(row) > 2 and row[2].isdigit()}


def pids(source: Source) -> list[int]:
    """Return all process ids, ascending."""
    return sorted(int(name) for name in source.names("/proc") if name.isdigit())


def argv_of(source: Source, pid: int) -> list[str]:
    """Return a process's arguments; none for a kernel thread or one that is gone."""
    text = source.read(f"/proc/{pid}/cmdline", 16384) or ""
    return text.rstrip("\0").split("\0") if text.strip("\0 ") else []


def collect_processes(
    source: Source, compiled: t.Sequence[tuple[str, t.Pattern[str]]], own_pid: int
) -> list[dict[str, t.Any]]:
    """Return the processes that the patterns match, at most 200, without this survey's own."""
    names = users(source.read("/etc/passwd", 1 << 20))
    own = own_cgroup(source)
    found: list[dict[str, t.Any]] = []
    for pid in pids(source):
        if source.late():
            source.warn("processes", "not all processes were looked at in time")
            break
        argv = argv_of(source, pid)
        if not argv or pid == own_pid:
            continue
        kind = kind_of(" ".join(argv), compiled)
        if kind is None:
            continue
        if len(found) >= _MOST:
            source.warn("processes", f"more than {_MOST} processes match; the others are left out")
            break
        process = describe_process(source, pid, argv, kind, names, own)
        if process is not None:
            found.append(process)
    return found


def own_cgroup(source: Source) -> str:
    """Return the control group of this system itself: where PID 1 is. In a container that is the container's."""
    path = cgroup_path(source.read("/proc/1/cgroup", 8192)) or ""
    return re.sub(r"/init\.scope$", "", path).rstrip("/")


def describe_process(
    source: Source, pid: int, argv: list[str], kind: str, names: t.Mapping[int, str], own: str = ""
) -> dict[str, t.Any] | None:
    """Return what is to say about one process, or None when it ended meanwhile.

    Args:
        own: this system's own control group, so that only what lies below it can be a guest.
    """
    status = source.read(f"/proc/{pid}/status", 8192)
    if status is None:
        return None
    fields = dict(re.findall(r"(?m)^(\w+):[ \t]*(.*)$", status))
    uid = number((fields.get("Uid") or "").split("\t")[0])
    cgroup = cgroup_path(source.read(f"/proc/{pid}/cgroup", 8192))
    guest = guest_of(cgroup[len(own) :] if cgroup and cgroup.startswith(own) else cgroup)
    executable = source.link(f"/proc/{pid}/exe")
    home = f"/proc/{pid}/root" if guest and source.live else ""
    command, options = describe(argv)
    rss = re.match(r"(\d+) kB", fields.get("VmRSS", ""))
    return {
        "pid": pid,
        "parent": number(fields.get("PPid")),
        "kind": kind,
        # A guest's user names are not the host's.
        "user": names.get(uid) if uid is not None and not guest else None,
        "uid": uid,
        "command": command,
        "options": options,
        "unit": unit_of(cgroup),
        "cgroup": cgroup,
        "guest": guest,
        "executable": executable,
        "executable_missing": None if executable is None else not source.exists(executable.replace(" (deleted)", "")),
        "environment": environment_of(source, argv[0], home),
        "directory": source.link(f"/proc/{pid}/cwd"),
        "rss_mib": int(rss.group(1)) // 1024 if rss else None,
        "ports": [],
    }


def environment_of(source: Source, program: str, home: str) -> str | None:
    """Return the virtual environment that a program path lies in, looked for where the process itself sees it."""
    if not program.startswith("/"):
        return None
    base = os.path.dirname(os.path.dirname(program))
    return base if base != "/" and source.exists(f"{home}{base}/pyvenv.cfg") else None


def listeners(text: str | None) -> list[tuple[str, int, str]]:
    """Return (address, port, inode) of the listening sockets in /proc/net/tcp or tcp6."""
    found = []
    for line in (text or "").splitlines()[1:]:
        parts = line.split()
        if len(parts) > 9 and parts[3] == "0A":
            address, _sep, port = parts[1].rpartition(":")
            found.append((plain_address(address), int(port, 16), parts[9]))
    return found


def plain_address(hexadecimal: str) -> str:
    """Return an address of /proc/net/tcp for reading: any, loopback, or dotted and IPv6 notation."""
    words = [bytes.fromhex(hexadecimal[at : at + 8])[::-1] for at in range(0, len(hexadecimal), 8)]
    raw = b"".join(words)
    if len(raw) == 4:
        return ".".join(map(str, raw))
    if raw[:15] == bytes(15) and raw[15] < 2:
        return "::1" if raw[15] else "::"
    # Only hosts that listen on another IPv6 address pay for this import.
    import socket

    return socket.inet_ntop(socket.AF_INET6, raw)


def collect_ports(source: Source, processes: t.Sequence[t.MutableMapping[str, t.Any]]) -> list[dict[str, t.Any]]:
    """Return the listening TCP ports with their holders, and write each process's ports into it.

    The sockets are those of this network namespace; a holder in another one can't be seen and is null.
    """
    holders: dict[str, int] = {}
    sockets: dict[str, tuple[str, int]] = {}
    for table in ("tcp", "tcp6"):
        for address, port, inode in listeners(source.read(f"/proc/net/{table}", 8 << 20)):
            sockets[inode] = (address, port)
    known = {process["pid"]: process for process in processes}
    order = [*known, *(pid for pid in pids(source) if pid not in known)]
    missing = set(sockets)
    for pid in order:
        if not missing:
            break
        if source.late():
            source.warn("ports", "not all holders were found in time")
            break
        for inode in socket_inodes(source.path(f"/proc/{pid}/fd")):
            if inode in missing:
                missing.discard(inode)
                holders[inode] = pid
    ports = []
    for inode, (address, port) in sorted(sockets.items(), key=lambda item: (item[1][1], item[1][0])):
        pid = holders.get(inode)
        entry: dict[str, t.Any] = {"port": port, "address": address, "pid": pid, "command": None, "unit": None}
        if pid is not None:
            if pid in known:
                known[pid]["ports"] = sorted({*known[pid]["ports"], port})
            entry["command"] = describe(argv_of(source, pid))[0] or None
            entry["unit"] = unit_of(cgroup_path(source.read(f"/proc/{pid}/cgroup", 8192)))
        ports.append(entry)
    return ports


def socket_inodes(folder: str) -> t.Iterator[str]:
    """Yield the inodes of the sockets that a process holds; none when it may not be asked."""
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        try:
            target = os.readlink(f"{folder}/{name}")
        except OSError:
            continue
        if target.startswith("socket:["):
            yield target[8:-1]


def shared_memory(source: Source) -> list[dict[str, t.Any]]:
    """Return the ten largest entries of /dev/shm that are plain files; directories come with the models."""
    entries = []
    for name in source.names("/dev/shm")[:4096]:
        real = source.path(f"/dev/shm/{name}")
        try:
            state = os.lstat(real)
        except OSError:
            continue
        if state.st_mode & 0o170000 == 0o100000:
            entries.append({"name": name, "size_mib": state.st_blocks * 512 // (1024 * 1024)})
    return sorted(entries, key=lambda entry: (-entry["size_mib"], entry["name"]))[:10]
