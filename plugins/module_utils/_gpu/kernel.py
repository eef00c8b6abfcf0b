# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The nvidia kernel module: the loaded one, and the one on disk for a kernel. Private to this collection."""

from __future__ import annotations

import os
import re
import typing as t

from ansible_collections.inferlab.dflash.plugins.module_utils._gpu import parse
from ansible_collections.inferlab.dflash.plugins.module_utils._gpu.host import Host

# Where module files lie when modules.dep does not name one, in depmod's usual order of preference.
_PLACES = (
    "updates/dkms/nvidia.ko*",
    "updates/nvidia.ko*",
    "extra/nvidia.ko*",
    "extra/*/nvidia.ko*",
    "weak-updates/nvidia.ko*",
    "weak-updates/*/nvidia.ko*",
    "kernel/nvidia-*/nvidia.ko*",
    "kernel/drivers/video/nvidia.ko*",
    "kernel/drivers/char/drm/nvidia.ko*",
)


def loaded(host: Host) -> dict[str, str | None]:
    """The loaded module: {version, flavour, source}. /proc says both, /sys the version alone."""
    line = parse.proc_version(host.read("/proc/driver/nvidia/version"))
    if line["version"]:
        return {"version": line["version"], "flavour": line["flavour"], "source": "/proc/driver/nvidia/version"}
    version = parse.plain_version(host.read("/sys/module/nvidia/version"))
    return {"version": version, "flavour": None, "source": "/sys/module/nvidia/version" if version else None}


def running_kernel(host: Host) -> str | None:
    return (host.read("/proc/sys/kernel/osrelease") or "").strip() or None


def _natural(text: str) -> list[t.Any]:
    return [(0, int(part)) if part.isdigit() else (1, part) for part in re.findall(r"\d+|[^\d]+", text)]


def _grub_environment(host: Host) -> dict[str, str]:
    for path in ("/boot/grub/grubenv", "/boot/grub2/grubenv", "/boot/efi/EFI/redhat/grubenv"):
        text = host.read(path)
        if text:
            return dict(line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))
    return {}


def next_boot_kernel(host: Host) -> tuple[str | None, str]:
    """(kernel, why): the kernel that the next boot takes, as far as files tell.

    A pinned kernel (Proxmox), then a saved GRUB entry or boot-loader entry that names one, then the newest in /boot, which is
    GRUB's own default. Without kernels in /boot it is the running one: a guest whose kernel comes from outside.
    """
    installed = [name[len("vmlinuz-") :] for name in host.listdir("/boot") if name.startswith("vmlinuz-")]
    installed = [name for name in installed if "rescue" not in name]
    for path in ("/etc/kernel/next-boot-pin", "/etc/kernel/proxmox-boot-pin"):
        pinned = (host.read(path) or "").strip()
        if pinned in installed:
            return pinned, f"pinned in {path}"
    environment = _grub_environment(host)
    defaults = host.read("/etc/default/grub") or ""
    match = re.search(r"^\s*GRUB_DEFAULT=[\"']?([^\"'\n#]*)", defaults, re.MULTILINE)
    entries = [("next_entry of GRUB", environment.get("next_entry", ""))]
    chosen = match.group(1).strip() if match else ""
    if chosen == "saved" or (not match and environment.get("saved_entry")):
        entries.append(("saved_entry of GRUB", environment.get("saved_entry", "")))
    elif chosen:
        entries.append(("GRUB_DEFAULT", chosen))
    for why, entry in entries:
        # The longest match: 6.8.0-90-generic is part of 6.8.0-90-generic-lpae.
        named = sorted((kernel for kernel in installed if entry and kernel in entry), key=len)
        if named:
            return named[-1], why
    if installed:
        return max(installed, key=_natural), "newest kernel in /boot"
    return running_kernel(host), "no kernel in /boot: the running one"


def _module_file(host: Host, kernel: str) -> str | None:
    base = next(
        (place for place in (f"/lib/modules/{kernel}", f"/usr/lib/modules/{kernel}") if host.exists(place)), None
    )
    if base is None:
        return None
    base = host.realpath(base)
    for line in (host.read(f"{base}/modules.dep") or "").splitlines():
        name = line.split(":", 1)[0]
        if re.search(r"(^|/)nvidia\.ko(\.\w+)?$", name) and host.exists(f"{base}/{name}"):
            return f"{base}/{name}"
    for pattern in _PLACES:
        found = host.glob(f"{base}/{pattern}")
        if found:
            return found[0]
    return None


def _provider(host: Host, path: str) -> str:
    """dkms, prebuilt (a package carries the built module) or run (the vendor's installer put it there)."""
    real = host.realpath(path)
    if (
        "/updates/dkms/" in path
        or "/var/lib/dkms/" in real
        or (host.exists("/var/lib/dkms/nvidia") and "/extra/" in path)
    ):
        return "dkms"
    return "run" if "/kernel/drivers/" in path else "prebuilt"


def on_disk(host: Host, kernel: str | None) -> dict[str, t.Any]:
    """The module on disk for a kernel: {kernel, version, flavour, path, provider, reason}; reason says why nothing is known."""
    answer: dict[str, t.Any] = {
        "kernel": kernel,
        "version": None,
        "flavour": None,
        "path": None,
        "provider": None,
        "reason": None,
    }
    path = _module_file(host, kernel) if kernel else None
    if not path:
        answer["reason"] = f"no nvidia module on disk for kernel {kernel}" if kernel else "the kernel is not known"
        return answer
    told = host.inspect(["modinfo"], path)
    info = parse.modinfo(told.out)
    answer.update(version=info["version"], flavour=info["flavour"], path=path, provider=_provider(host, path))
    if not info["version"]:
        answer["reason"] = told.reason or told.err.strip() or f"modinfo tells no version of {path}"
    return answer


_INITRAMFS = ("/boot/initrd.img-{}", "/boot/initramfs-{}.img", "/boot/initrd-{}")


def boot_unchanged(host: Host, kernel: str, module: str) -> tuple[bool | None, str | None]:
    """Whether module file and initramfs of a kernel are older than this boot, so that the next one loads what this one did.

    The second value says why nothing is known.
    """
    booted = next(
        (line.split()[1] for line in (host.read("/proc/stat") or "").splitlines() if line.startswith("btime ")), ""
    )
    if not booted.isdigit():
        return None, "/proc/stat names no time of the boot"
    images = [times for times in map(host.times, (name.format(kernel) for name in _INITRAMFS)) if times]
    file = host.times(module)
    if not images or file is None:
        return None, f"no initramfs of kernel {kernel} is below /boot under a usual name"
    return max(images)[0] < int(booted) and file[1] < int(booted), None


def dkms(host: Host) -> list[dict[str, t.Any]]:
    """What dkms knows of nvidia, from its tree: [{version, kernel, state}] with state added, built or installed."""
    found: list[dict[str, t.Any]] = []
    tree = "/var/lib/dkms/nvidia"
    for version in host.listdir(tree):
        if not parse.is_driver_version(version):
            continue
        kernels = [name for name in host.listdir(f"{tree}/{version}") if name not in ("source", "build")]
        kernels = [name for name in kernels if host.listdir(f"{tree}/{version}/{name}")]
        if not kernels:
            found.append({"version": version, "kernel": None, "state": "added"})
        for name in kernels:
            # "kernel-<release>-<arch>" links stand beside the folders that they name.
            if name.startswith("kernel-") and os.path.islink(host.path(f"{tree}/{version}/{name}")):
                continue
            disk = on_disk(host, name)
            installed = disk["provider"] == "dkms" and disk["version"] == version
            found.append({"version": version, "kernel": name, "state": "installed" if installed else "built"})
    return found
