# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Guests of a Proxmox host, from its configuration: which there are, and which were given GPUs."""

from __future__ import annotations

import re
import typing as t

from .source import Source

_GPU_DEVICE = r"/dev/(nvidia\d+)\b"


def collect_guests(source: Source) -> list[dict[str, t.Any]]:
    """Return the containers and virtual machines that this Proxmox host is configured for; none on any other host."""
    guests = []
    for kind, folder in (("lxc", "/etc/pve/lxc"), ("qemu", "/etc/pve/qemu-server")):
        for name in source.names(folder):
            match = re.match(r"(\d+)\.conf$", name)
            text = source.read(f"{folder}/{name}") if match else None
            if match and text is not None:
                guests.append(describe_guest(source, kind, match.group(1), text))
    return guests


def describe_guest(source: Source, kind: str, number: str, text: str) -> dict[str, t.Any]:
    """Return one guest from its configuration file; snapshots, which follow in sections, are left out."""
    current = text.split("\n[", 1)[0]
    fields = dict(re.findall(r"(?m)^(\w[\w.]*):\s*(.*?)\s*$", current))
    if kind == "lxc":
        given = sorted(set(re.findall(_GPU_DEVICE, current)))
        running = source.exists(f"/sys/fs/cgroup/lxc/{number}") or source.exists(f"/sys/fs/cgroup/systemd/lxc/{number}")
    else:
        given = sorted(value.split(",")[0] for key, value in fields.items() if re.fullmatch(r"hostpci\d+", key))
        running = source.exists(f"/run/qemu-server/{number}.pid")
    return {
        "kind": kind,
        "id": number,
        "name": fields.get("hostname") or fields.get("name"),
        "running": running,
        "gpus": given,
    }
