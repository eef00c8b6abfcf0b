# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which kind of container this is, if any. Private to this collection."""

from __future__ import annotations

from ansible_collections.inferlab.dflash.plugins.module_utils._gpu.host import Host

NONE = "none"
WSL = "wsl"


def kind(host: Host) -> str:
    """none, lxc, docker, podman, wsl, or what the manager calls itself (systemd-nspawn, ...).

    In the order of systemd-detect-virt: WSL by the kernel's name, then what PID 1 was told, then the managers' marker files,
    then the control groups.
    """
    kernel = (host.read("/proc/sys/kernel/osrelease") or host.read("/proc/version") or "").lower()
    if "microsoft" in kernel or "wsl" in kernel:
        return WSL
    told = (host.read("/run/systemd/container") or "").strip()
    if not told:
        environment = (host.read("/proc/1/environ") or "").split("\0")
        told = next((entry.split("=", 1)[1] for entry in environment if entry.startswith("container=")), "").strip()
    if told:
        return {"lxc-libvirt": "lxc", "oci": "docker"}.get(told, told)
    if host.exists("/run/.containerenv"):
        return "podman"
    if host.exists("/.dockerenv"):
        return "docker"
    groups = host.read("/proc/1/cgroup") or ""
    for word, name in (("/lxc", "lxc"), ("docker", "docker"), ("libpod", "podman"), ("kubepods", "docker")):
        if word in groups:
            return name
    return NONE


def has_own_kernel(container: str | None) -> bool:
    """Whether the kernel and its modules belong to this system (None: not known, taken as yes)."""
    return container in (None, NONE)
