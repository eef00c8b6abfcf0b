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
    """Return a YAML inventory that adds groups to the one that was surveyed; it sets no variable and no address."""
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
    return {"all": {"children": children}}
