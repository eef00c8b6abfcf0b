# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reload the nvidia kernel modules. Private to this collection.

Only with an explicit opt-in and when nothing holds them. What was unloaded is loaded again when a step fails.
"""

from __future__ import annotations

import typing as t

from ansible_collections.inferlab.dflash.plugins.module_utils._gpu.host import Host

# Dependents first. nvidia_drm before nvidia_modeset: workstation cards load both.
ORDER = ("nvidia_drm", "nvidia_modeset", "nvidia_peermem", "nvidia_uvm", "nvidia")


class Failed(Exception):
    """A step failed; the message says what was done about it."""


def loaded(host: Host) -> dict[str, dict[str, t.Any]]:
    """The nvidia modules that are loaded: {name: {users: int, holders: [module]}}, users without the holders."""
    found = {}
    for name in ORDER:
        base = f"/sys/module/{name}"
        if host.exists(base):
            holders = host.listdir(f"{base}/holders")
            count = (host.read(f"{base}/refcnt") or "0").strip()
            found[name] = {"users": max(0, int(count) - len(holders)) if count.isdigit() else 0, "holders": holders}
    return found


def steps(modules: t.Mapping[str, t.Mapping[str, t.Any]]) -> dict[str, t.Any]:
    """{unload, load, obstacles}: the order of both, and why it cannot be done. Pure."""
    unload = [name for name in ORDER if name in modules]
    obstacles = [f"{name} is in use ({modules[name]['users']} open)" for name in unload if modules[name]["users"]]
    foreign = sorted({holder for name in unload for holder in modules[name]["holders"]} - set(ORDER))
    obstacles += [f"module {name} depends on nvidia modules and is not one of the driver's" for name in foreign]
    return {"unload": unload, "load": list(reversed(unload)) or ["nvidia"], "obstacles": obstacles}


def _run(host: Host, *argv: str) -> None:
    told = host.run(argv, timeout=120)
    if told.rc != 0:
        raise Failed(f"{' '.join(argv)}: {told.reason or (told.err + told.out).strip()}")


def _old_file(host: Host, version: str | None) -> str | None:
    """The built module of the version that was loaded, where dkms still keeps it."""
    kernel = (host.read("/proc/sys/kernel/osrelease") or "").strip()
    found = host.glob(f"/var/lib/dkms/nvidia/{version}/{kernel}/*/module/nvidia.ko*")
    return found[0] if version and found else None


def carry_out(host: Host, plan: t.Mapping[str, t.Any], old_version: str | None) -> None:
    """Unload and load. Raises Failed after putting back what was loaded, as far as its file still exists."""
    gone: list[str] = []
    try:
        for name in plan["unload"]:
            _run(host, "rmmod", name)
            gone.append(name)
        for name in plan["load"]:
            _run(host, "modprobe", name)
    except Failed as error:
        raise Failed(f"{error}. {_undo(host, gone, old_version)}") from error


def _undo(host: Host, gone: t.Sequence[str], old_version: str | None) -> str:
    if not gone:
        return "Nothing had been unloaded."
    done = []
    try:
        if "nvidia" in gone and not host.exists("/sys/module/nvidia"):
            path = _old_file(host, old_version)
            if path:
                _run(host, "insmod", path)
                done.append(path)
            else:
                _run(host, "modprobe", "nvidia")
                done.append("nvidia")
        for name in reversed(gone):
            if name != "nvidia" and not host.exists(f"/sys/module/{name}"):
                _run(host, "modprobe", name)
                done.append(name)
    except Failed as error:
        return f"Undoing it failed too ({error}): loaded again {', '.join(done) or 'nothing'}. A reboot loads the module on disk."
    return f"Undone: loaded again {', '.join(done) or 'nothing was missing'}."
