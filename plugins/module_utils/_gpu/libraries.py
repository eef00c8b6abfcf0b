# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The user-space driver libraries that programs get. Private to this collection."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.inferlab.dflash.plugins.module_utils._gpu import parse
from ansible_collections.inferlab.dflash.plugins.module_utils._gpu.host import Host

NVML = "libnvidia-ml.so.1"
CUDA = "libcuda.so.1"
_DIRECTORIES = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/lib64",
    "/lib",
    "/usr/lib/wsl/lib",
    "/usr/local/nvidia/lib64",
    "/run/opengl-driver/lib",
)


def directories(host: Host) -> list[str]:
    """Where the dynamic loader looks: ld.so.conf first, then the usual places. Each real directory once.

    CUDA's compat directories hold a libcuda of another version by design; they are no part of the installed driver.
    """
    configured: list[str] = []
    pending = ["/etc/ld.so.conf"]
    while pending:
        for line in (host.read(pending.pop(0)) or "").splitlines():
            words = line.split("#", 1)[0].split()
            if len(words) > 1 and words[0] == "include":
                pattern = words[1] if words[1].startswith("/") else "/etc/" + words[1]
                pending.extend(host.glob(pattern))
            elif words and words[0].startswith("/"):
                configured.append(words[0])
    found: list[str] = []
    for directory in [*configured, *_DIRECTORIES]:
        real = host.realpath(directory)
        if real not in found and "/compat" not in real:
            found.append(real)
    return found


def find(host: Host, soname: str, places: t.Iterable[str]) -> str | None:
    """The real path behind a soname: what the loader's cache names, else the first of the directories that has it."""
    # The cache holds every name as it is; where it cannot be read, its own reader may know better.
    if host.live and soname in (host.read("/etc/ld.so.cache") or soname):
        cache = host.run(["ldconfig", "-p"]).out
        for path in re.findall(rf"^\s*{re.escape(soname)} \(.*\) => (\S+)$", cache, re.MULTILINE):
            if "/compat" not in path and host.exists(path):
                return host.realpath(path)
    for directory in places:
        candidate = f"{directory}/{soname}"
        if host.exists(candidate):
            return host.realpath(candidate)
    return None


def inventory(host: Host, places: t.Iterable[str]) -> dict[str, list[str]]:
    """Every driver library file by its full version: {version: [paths]}. Two versions here are two installed drivers."""
    found: dict[str, list[str]] = {}
    for directory in places:
        for name in host.listdir(directory):
            if "nvidia" not in name and "cuda" not in name and "nvcuvid" not in name:
                continue
            version = parse.library_version(name)
            if version and parse.is_driver_version(version):
                found.setdefault(version, []).append(f"{directory}/{name}")
    return found


# File systems of their own that any machine may have: what lies below them is not mounted for its own sake.
_ORDINARY = frozenset({"/", "/usr", "/usr/lib", "/usr/lib64", "/usr/local", "/lib", "/lib64", "/opt", "/run", "/var"})


def mounted(host: Host, path: str) -> bool | None:
    """Whether the file, or a folder of it that is no ordinary file system, is a mount: a container's runtime put it there."""
    listed = host.read("/proc/self/mountinfo")
    if listed is None:
        return None
    points = {line.split()[4] for line in listed.splitlines() if len(line.split()) > 4}
    while path not in _ORDINARY and path:
        if path in points:
            return True
        path = path.rsplit("/", 1)[0]
    return False
