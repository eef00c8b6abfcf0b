# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The wheels of a lock in a directory of the control node: found there, or fetched by pip with every hash required."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ansible_collections.inferlab.dflash.plugins.module_utils._engine import manifest
from ansible_collections.inferlab.dflash.plugins.module_utils._engine.errors import EngineError
from ansible_collections.inferlab.dflash.plugins.module_utils._engine.lock import Lock, Pin, normalise

try:
    from packaging.requirements import Requirement
except ImportError:  # ansible-core brings it; only ansible-test's import check has none
    Requirement = None

# pip's lines that say that something large is on its way.
_PROGRESS = re.compile(r"^\s*(?:Downloading|Processing|Using cached)\s+(?:.*/)?(\S+\.whl)(?:.*\(([\d.]+ [kMG]B)\))?")


def provide(
    lock: Lock, names: Sequence[str], cache: Path, find_links: Sequence[str], say: Callable[[str], None]
) -> dict[str, Path]:
    """Wheel paths for the pins in ``names``, fetching into ``cache`` what is not there yet.

    ``say`` gets one line for each step. Raises EngineError when pip is missing, fails, or gives another file.
    """
    pins = [pin for pin in lock.pins if pin.name in names]
    with _exclusive(cache):
        found = _match(pins, cache)
        absent = [pin for pin in pins if pin.name not in found]
        if absent:
            say(f"fetching {len(absent)} of {len(lock.pins)} wheels of {lock.name} into {cache}")
            for pin in (pin for pin in absent if len(pin.hashes) > 1):
                _fetch_preferred(lock, pin, cache, find_links, say)
            found = _match(pins, cache)
            absent = [pin for pin in pins if pin.name not in found]
            if absent:
                _fetch(lock, absent, cache, find_links, say)
            found = _match(pins, cache)
    absent_names = [pin.name for pin in pins if pin.name not in found]
    if absent_names:
        raise EngineError(f"pip gave no wheel that lock {lock.name} allows for {', '.join(absent_names)}")
    for name, path in found.items():
        _check_complete(lock, name, path)
    return found


def unlocked_requirements(metadata: str, lock: Lock) -> list[str]:
    """Packages that a wheel's METADATA requires on the lock's platform and that the lock does not hold. Pure."""
    environment = {
        "python_version": lock.python,
        "python_full_version": f"{lock.python}.0",
        "platform_machine": lock.machine,
        "platform_system": "Linux",
        "sys_platform": "linux",
        "os_name": "posix",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
        "extra": "",
    }
    locked = {pin.name for pin in lock.pins}
    required = [Requirement(line.strip()) for line in re.findall(r"^Requires-Dist: (.+)$", metadata, re.MULTILINE)]
    names = {normalise(r.name) for r in required if r.marker is None or r.marker.evaluate(environment)}
    return sorted(names - locked)


def _check_complete(lock: Lock, name: str, path: Path) -> None:
    """Refuse a build whose requirements the lock lacks, such as an index's CUDA build under a lock for the CPU."""
    with zipfile.ZipFile(path) as archive:
        metadata = next(entry for entry in archive.namelist() if entry.endswith(".dist-info/METADATA"))
        absent = unlocked_requirements(archive.read(metadata).decode(), lock)
    pin = next(pin for pin in lock.pins if pin.name == name)
    if absent and len(pin.hashes) > 1:
        raise EngineError(
            f"{path.name} needs {', '.join(absent)}, which lock {lock.name} does not hold. Wanted is the build "
            f"{pin.builds[0]}: put its wheel into a directory and name that in engine_find_links, or resolve a lock for "
            "the other build with tools/resolve_lock.py and name that in engine_lock"
        )


def platform_tags(lock: Lock) -> list[str]:
    """Platform tags that a host with the lock's glibc accepts; pip does not widen an explicit --platform by itself."""
    minor = int(lock.glibc.split(".")[1])
    tags = [f"manylinux_2_{number}" for number in range(minor, 4, -1)] + [
        "manylinux2014",
        "manylinux2010",
        "manylinux1",
    ]
    return [f"{tag}_{lock.machine}" for tag in [*tags, "linux"]]


def _match(pins: Sequence[Pin], directory: Path) -> dict[str, Path]:
    by_hash = {manifest.sha256(path): path for path in sorted(directory.glob("*.whl"))}
    return {pin.name: by_hash[digest] for pin in pins for digest in reversed(pin.hashes) if digest in by_hash}


def _fetch_preferred(lock: Lock, pin: Pin, cache: Path, links: Sequence[str], say: Callable[[str], None]) -> None:
    """Try the builds of a pin in the lock's order: left to itself, pip takes the index's, whose link carries a hash."""
    for version, digest in zip(pin.builds, pin.hashes):
        with contextlib.suppress(EngineError):
            # "==1.2" also means "1.2+cpu"; "===" does not.
            _fetch(lock, [Pin(pin.name, f"={version}", (digest,), (version,))], cache, links, say)
            return


def _fetch(lock: Lock, pins: Sequence[Pin], cache: Path, links: Sequence[str], say: Callable[[str], None]) -> None:
    compact = lock.python.replace(".", "")
    with tempfile.TemporaryDirectory(dir=cache, prefix=".fetch-") as scratch:
        requirements = Path(scratch) / "requirements.txt"
        lines = [f"{pin.name}=={pin.version} " + " ".join(f"--hash=sha256:{h}" for h in pin.hashes) for pin in pins]
        requirements.write_text("\n".join(lines) + "\n", encoding="utf-8")
        command = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--progress-bar", "off"]
        command += ["--require-hashes", "--no-deps", "--only-binary=:all:", "--dest", scratch, "-r", str(requirements)]
        command += ["--python-version", lock.python, "--implementation", "cp"]
        command += ["--abi", f"cp{compact}", "--abi", "abi3", "--abi", "none"]
        command += [word for tag in platform_tags(lock) for word in ("--platform", tag)]
        command += [word for link in links for word in ("--find-links", link)]
        _run_pip(command, len(pins), say)
        for path in sorted(Path(scratch).glob("*.whl")):
            os.replace(path, cache / path.name)


def _run_pip(command: Sequence[str], total: int, say: Callable[[str], None]) -> None:
    tail: list[str] = []
    count = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, bufsize=1) as process:
        for line in process.stdout or ():
            tail = [*tail[-24:], line.rstrip()]
            match = _PROGRESS.match(line)
            if match:
                count += 1
                size = f" ({match.group(2)})" if match.group(2) else ""
                say(f"wheel {count}/{total}: {match.group(1)}{size}")
    if process.returncode:
        if any("No module named pip" in line for line in tail):
            raise EngineError(f"the control node's Python {sys.executable} has no pip, which fetches the wheels")
        raise EngineError("pip could not fetch the locked wheels on the control node:\n" + "\n".join(tail))


@contextlib.contextmanager
def _exclusive(cache: Path) -> Iterator[None]:
    """One fetch at a time, also among the forks of one play; what a killed fetch left is removed."""
    cache.mkdir(parents=True, exist_ok=True)
    with open(cache / ".lock", "w", encoding="utf-8") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        for leftover in cache.glob(".fetch-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        yield
