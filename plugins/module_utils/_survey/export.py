# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A survey as an inventory: groups by GPU model, number of GPUs, driver state and verdict."""

from __future__ import annotations

import re
import typing as t


def group_name(*words: t.Any) -> str:
    """Return a valid group name: gpu, "NVIDIA RTX A6000" becomes gpu_nvidia_rtx_a6000."""
    return re.sub(r"[^a-z0-9]+", "_", "_".join(str(word) for word in words).lower()).strip("_")


def inventory(hosts: t.Mapping[str, t.Mapping[str, t.Any]]) -> dict[str, t.Any]:
    """Return a YAML inventory that adds groups to the one that was surveyed.

    It sets no variable of a surveyed host. Proxmox containers that have GPUs and were not surveyed are added as hosts, reached
    through their host by the connection plugin community.proxmox.proxmox_pct_remote.
    """
    groups: dict[str, set[str]] = {}
    for name, host in hosts.items():
        names = [group_name("verdict", host["state"])]
        if host["driver"]:
            names.append(group_name("driver", host["driver"].get("state")))
        if host["gpus"]:
            names.append(group_name("gpus", len(host["gpus"])))
        names += [group_name("gpu", gpu["name"]) for gpu in host["gpus"] if gpu["name"]]
        virtualization = ((host["survey"] or {}).get("host") or {}).get("virtualization")
        if virtualization and virtualization != "none":
            names.append(group_name("in", virtualization))
        for group in names:
            groups.setdefault(group, set()).add(name)
    children = {group: {"hosts": {name: {} for name in sorted(groups[group])}} for group in sorted(groups)}
    found = {
        guest["name"] or f"{name}-{guest['id']}": guest_entry(host, guest)
        for name, host in hosts.items()
        for guest in host.get("unseen_guests") or []
        if guest["kind"] == "lxc"
    }
    if found:
        children["dflash"] = {"children": {"proxmox_guests": {"hosts": found}}}
    return {"all": {"children": children}}


def guest_entry(host: t.Mapping[str, t.Any], guest: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the variables by which a container is reached through its Proxmox host."""
    return {
        "ansible_connection": "community.proxmox.proxmox_pct_remote",
        "ansible_host": host["address"],
        "proxmox_vmid": int(guest["id"]),
    }
