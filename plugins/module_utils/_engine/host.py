# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host offers a release: Python, C library, processor. Reading only."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
from pathlib import Path
from typing import Any

_PROBE = """
import importlib.util, json, platform, sys
found = {name: importlib.util.find_spec(name) is not None for name in ("venv", "ensurepip")}
print(json.dumps({"version": platform.python_version(), "executable": sys.executable, "modules": found}))
"""


def python(name: str) -> dict[str, Any]:
    """``{name, found, path, version, venv, ensurepip}`` of an interpreter given by name or path; never raises."""
    nothing = {"name": name, "found": False, "path": None, "version": None, "venv": False, "ensurepip": False}
    path = shutil.which(name)
    if not path:
        return nothing
    try:
        # run_command has no time limit.
        result = subprocess.run(  # pylint: disable=ansible-bad-function
            [path, "-I", "-c", _PROBE], capture_output=True, text=True, timeout=60, check=True, cwd="/"
        )
        probe = json.loads(result.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return nothing
    return {**nothing, "found": True, "path": path, "version": probe["version"], **probe["modules"]}


def glibc() -> str | None:
    """Version of the C library as ``2.36``; None where it is not glibc."""
    try:
        name, version = os.confstr("CS_GNU_LIBC_VERSION").split()  # type: ignore[union-attr]
    except (AttributeError, OSError, ValueError):
        return None
    return version if name == "glibc" else None


def machine() -> str:
    """Processor architecture as the kernel names it, e.g. ``x86_64``."""
    return platform.machine()


def free_bytes(path: Path) -> int:
    """Bytes an unprivileged program could still write below ``path``, or below its nearest existing parent."""
    while not path.exists():
        path = path.parent
    stat = os.statvfs(path)
    return stat.f_bavail * stat.f_frsize


def unfit(lock: dict[str, str], interpreter: dict[str, Any], libc: str | None, arch: str) -> tuple[str, str]:
    """Why a host cannot carry a lock (its meta fields) with the way out, and the provisioning code, if any. Pure.

    Two empty strings when it can.
    """
    wanted = lock["python"]
    if not interpreter["found"]:
        return (
            f"Python {interpreter['name']} is not on this host, and lock {lock['name']} needs Python {wanted}: "
            f"install the package python{wanted} (Debian, Ubuntu), or set engine_python to an interpreter that exists",
            "",
        )
    if interpreter["version"].split(".")[:2] != wanted.split("."):
        return (
            f"{interpreter['path']} is Python {interpreter['version']}, lock {lock['name']} needs {wanted}: "
            f"set engine_python to python{wanted} (package python{wanted}), or choose the lock of that Python",
            "",
        )
    if not interpreter["venv"]:
        return f"{interpreter['path']} has no venv module: install the package python{wanted}-venv", "venv_unavailable"
    if arch != lock["machine"]:
        return f"the host is {arch}, lock {lock['name']} is for {lock['machine']}", ""
    if libc is None or _numbers(libc) < _numbers(lock["glibc"]):
        return (
            f"the host has glibc {libc or 'of no known version'}, the wheels of lock {lock['name']} need "
            f"{lock['glibc']}: use a newer release of the operating system (Debian 12, Ubuntu 22.04 or later)",
            "",
        )
    return "", ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
