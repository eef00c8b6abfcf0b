# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Making one release: everything happens in ``<id>.partial``, and one rename makes it real.

Killed at any point, the next run throws the partial directory away and starts over; a finished release is replaced only
by a finished one. pip runs from its own wheel, with the network switched off and every hash required.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.inferlab.dflash.plugins.module_utils._engine import (
    host,
    identity,
    manifest,
    mend,
    patching,
    wheels,
)
from ansible_collections.inferlab.dflash.plugins.module_utils._engine.errors import EngineError
from ansible_collections.inferlab.dflash.plugins.module_utils._engine.lock import Lock, Pin

SCHEMA = 1
_INSTALL = ["install", "-q", "--require-hashes", "--no-deps", "--only-binary=:all:", "--no-compile"]
_INSTALL += ["--no-cache-dir", "--ignore-installed"]
# By environment, since an old pip does not know all of them and an unknown option would end it.
_PIP_MANNERS = {
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_NO_INPUT": "1",
    "PIP_NO_WARN_SCRIPT_LOCATION": "1",
    "PIP_ROOT_USER_ACTION": "ignore",
}
# Imports the engine, and turns the byte code that this leaves into the kind that Python takes without a look at the source:
# a release is read-only, its times of modification mean nothing, and the manifest covers source and byte code alike. What
# is not compiled here never is, since the instances' user cannot write. "all" is for engines of which much loads only with
# a GPU; for a small one it would take longer than everything else.
_IMPORT_AND_SEAL = """
import compileall, gc, importlib, importlib.util, pathlib, sys
gc.disable()
site, extent, *names = sys.argv[1:]
for name in names:
    importlib.import_module(name)
if extent == "all":
    compileall.compile_dir(site, quiet=2, workers=0)
for path in pathlib.Path(site).rglob("__pycache__/*.pyc"):
    source = pathlib.Path(importlib.util.source_from_cache(str(path)))
    code = path.read_bytes()
    path.write_bytes(code[:4] + b"\\1\\0\\0\\0" + importlib.util.source_hash(source.read_bytes()) + code[16:])
"""
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


@dataclass(frozen=True)
class Spec:
    """What a release is made of: ``wheels`` are directories on the host, ``index`` lets pip use its index beside them,
    ``imports`` are modules that must import before the release counts as made; ``compile`` is "imports" or "all".
    """

    releases: Path
    id: str
    lock: Lock
    python: str
    wheels: list[Path]
    index: bool
    plugin_name: str
    plugin_version: str
    plugin_sha256: str
    patches: list[dict[str, Any]]
    imports: list[str]
    compile: str

    @property
    def path(self) -> Path:
        return self.releases / self.id

    @property
    def wanted(self) -> list[tuple[str, tuple[str, ...]]]:
        """(name, acceptable hashes) of every wheel that goes in, the plugin last."""
        return [*((p.name, p.hashes) for p in self.lock.pins), (self.plugin_name, (self.plugin_sha256,))]

    @property
    def digests(self) -> frozenset[str]:
        """Every hash that a wheel of the release may have."""
        return frozenset(digest for _name, hashes in self.wanted for digest in hashes)

    def present_wheels(self) -> Iterator[Path]:
        """The wheels of the release that are on the host; all are read when the first one is asked for."""
        digests = self.digests
        yield from (path for digest, path in wheels.by_hash(self.wheels).items() if digest in digests)

    @property
    def pins(self) -> list[Pin]:
        """What is installed: the lock without pip, which only does the work. A release is never installed into again."""
        return [pin for pin in self.lock.pins if pin.name != "pip"]

    @property
    def requirements(self) -> str:
        """The text handed to pip, the plugin last."""
        plugin = Pin(self.plugin_name, self.plugin_version, (self.plugin_sha256,), (self.plugin_version,))
        lines = (
            [f"{pin.name}=={pin.version}", *(f"--hash=sha256:{h}" for h in pin.hashes)] for pin in [*self.pins, plugin]
        )
        return "".join(" ".join(line) + "\n" for line in lines)


def inspect(path: Path, verify: str = "full") -> dict[str, Any]:
    """State of a release on disk: ``{state, drift, manifest}``; state is absent, incomplete, drifted or complete.

    ``verify``: "full" reads every file, "quick" only those whose size, inode or time of change is another one than
    when the release was made, "none" reads the manifest alone, and a release that has one is ``unverified``.
    """
    if not path.is_dir():
        return {"state": "absent", "drift": [], "manifest": None}
    recorded = _recorded(path)
    if recorded is None:
        return {"state": "incomplete", "drift": [{"path": manifest.NAME, "problem": "missing"}], "manifest": None}
    if verify == "none":
        return {"state": "unverified", "drift": [], "manifest": recorded}
    known = recorded["files"]
    found = manifest.collect(path, known, recorded.get("stamps")) if verify == "quick" else manifest.collect(path)
    drift = manifest.compare(known, found)
    return {"state": "drifted" if drift else "complete", "drift": drift, "manifest": recorded}


def remove_added(path: Path, recorded: dict[str, Any], drift: list[dict[str, str]]) -> bool:
    """Mend a release to which files were only added, byte code by a Python that ran as root for one; False if not so."""
    if not recorded or any(entry["path"] in recorded["files"] for entry in drift):
        return False
    for entry in sorted(drift, key=lambda entry: entry["path"], reverse=True):
        added = path / entry["path"]
        if added.is_dir() and not added.is_symlink():
            added.rmdir()
        else:
            added.unlink()
    return True


@contextlib.contextmanager
def exclusive(releases: Path) -> Iterator[None]:
    """Hold the releases directory: one build or removal at a time; the kernel drops the lock with the process."""
    releases.mkdir(parents=True, exist_ok=True)
    with open(releases / ".lock", "w", encoding="utf-8") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def build(spec: Spec) -> dict[str, Any]:
    """Make the release and put it in place; returns its manifest. Raises EngineError, with the old state untouched."""
    partial = spec.releases / f"{spec.id}.partial"
    remove_leftovers(spec.releases)
    if not spec.index:
        _check_wheels(spec)
    partial.mkdir(mode=0o755, parents=True)
    try:
        recorded = _fill(spec, partial)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    _put_in_place(partial, spec.path)
    return recorded


def mend_drifted(spec: Spec, recorded: dict[str, Any] | None, drift: list[dict[str, str]]) -> bool:
    """Put a drifted release right without installing it anew; False, with nothing changed, where that is not possible."""
    if not recorded or not drift:
        return False
    partial = spec.releases / f"{spec.id}.partial"
    remove_leftovers(spec.releases)
    partial.mkdir(mode=0o755)
    try:
        whole = mend.mend(spec.path, partial, recorded["files"], drift, spec.present_wheels(), spec.patches)
        if whole:
            _seal(partial, recorded)
    except (OSError, ValueError, EngineError):
        # A file system without hard links, or a release that changes meanwhile.
        whole = False
    if not whole:
        shutil.rmtree(partial, ignore_errors=True)
        return False
    _put_in_place(partial, spec.path)
    # Removing the drifted release took the other link of each file away, which is a change of the file's inode.
    _seal(spec.path, recorded)
    return True


def remove_leftovers(releases: Path) -> list[str]:
    """Remove what a killed build or replacement left behind; the caller holds the directory."""
    leftovers = [p for suffix in (".partial", ".replaced") for p in sorted(releases.glob(f"*{suffix}"))]
    for path in leftovers:
        shutil.rmtree(path)
    return [path.name for path in leftovers]


def finished(releases: Path) -> list[dict[str, Any]]:
    """``{id, created, backend, lock}`` of the releases on disk, without verifying them."""
    found = []
    for path in sorted(releases.iterdir()) if releases.is_dir() else []:
        if not identity.is_release_id(path.name) or not path.is_dir() or path.is_symlink():
            continue
        recorded = _recorded(path) or {}
        found.append(
            {
                "id": path.name,
                "created": recorded.get("created", 0),
                "backend": recorded.get("backend"),
                "lock": recorded.get("lock"),
            }
        )
    return found


def _recorded(path: Path) -> dict[str, Any] | None:
    """The manifest of a release; None when there is none that can be read."""
    try:
        recorded = json.loads((path / manifest.NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    usable = isinstance(recorded, dict) and isinstance(recorded.get("files"), dict)
    return recorded if usable else None


def _fill(spec: Spec, partial: Path) -> dict[str, Any]:
    venv = partial / "venv"
    requirements = partial / "requirements.txt"
    requirements.write_text(spec.requirements, encoding="utf-8")
    _make_venv(spec, venv)
    _install(spec, venv, requirements)
    site = next(venv.glob("lib/python3*/site-packages"))
    applied = patching.apply_all(site, spec.patches)
    _relocate(venv, partial, spec.path)
    interpreter = venv / "bin" / "python"
    command = [interpreter, "-c", _IMPORT_AND_SEAL, site, spec.compile, *spec.imports]
    _run(command, partial, "importing the engine in the new release", bytecode=True)
    recorded = {
        "schema": SCHEMA,
        "id": spec.id,
        "backend": spec.lock.backend,
        "lock": spec.lock.name,
        "created": int(time.time()),
        "python": host.python(str(interpreter))["version"],
        "packages": {pin.name: pin.version for pin in spec.pins},
        "plugin": {"name": spec.plugin_name, "version": spec.plugin_version, "sha256": spec.plugin_sha256},
        "patches": applied,
        "files": manifest.collect(partial),
    }
    return _seal(partial, recorded)


def _seal(path: Path, recorded: dict[str, Any]) -> dict[str, Any]:
    """Write the manifest, with the stamps of the files as they are, and everything to disk."""
    recorded = {**recorded, "stamps": manifest.stamps(path)}
    text = json.dumps(recorded, indent=1, sort_keys=True)
    unfinished = path / f".{manifest.NAME}.partial"
    with open(unfinished, "w", encoding="utf-8") as handle:
        handle.write(text)
    unfinished.replace(path / manifest.NAME)
    # One sync of the file system instead of one for each of some ten thousand files: after the rename, a power cut may
    # not leave a release that looks whole and is not.
    os.sync()
    return recorded


def _make_venv(spec: Spec, venv: Path) -> None:
    arguments = [spec.python, "-I", "-m", "venv"]
    if not spec.index:
        # pip comes from the wheels: Debian's Python then needs no ensurepip.
        arguments.append("--without-pip")
    try:
        _run([*arguments, venv], venv.parent, "making the virtual environment")
    except EngineError as error:
        package = f"python{spec.lock.python}-venv"
        raise EngineError(f"{error}\nInstall the package {package} and run again.", "venv_unavailable") from error


def _install(spec: Spec, venv: Path, requirements: Path) -> None:
    own = [venv / "bin" / "python", "-m", "pip"]
    links = [word for directory in spec.wheels for word in ("--find-links", directory)]
    command = [*_INSTALL, *links, "-r", requirements]
    if not spec.index:
        pip = [venv / "bin" / "python", _pip_wheel(spec) / "pip"]
        _run([*pip, *command, "--no-index"], venv.parent, "installing the locked wheels")
        return
    # What ensurepip brings is not of the lock: beside the locked setuptools there would be two.
    _run([*own, "uninstall", "-q", "-y", "setuptools"], venv.parent, "removing setuptools")
    _run([*own, *command], venv.parent, "installing the locked wheels", pip_settings=True)
    _run([*own, "uninstall", "-q", "-y", "pip"], venv.parent, "removing pip")


def _pip_wheel(spec: Spec) -> Path:
    allowed = {digest for pin in spec.lock.pins if pin.name == "pip" for digest in pin.hashes}
    for path in (path for directory in spec.wheels for path in sorted(directory.glob("pip-*.whl"))):
        if manifest.sha256(path) in allowed:
            return path
    raise EngineError(f"lock {spec.lock.name} has no pip that is among the wheels; it runs the installation")


def _relocate(venv: Path, old: Path, new: Path) -> None:
    """Make the scripts of a virtual environment name the place where it will be."""
    for path in [venv / "pyvenv.cfg", *sorted((venv / "bin").iterdir())]:
        if path.is_symlink() or not path.is_file():
            continue
        content = path.read_bytes()
        # The old path is longer than the new one only in text; a binary that holds it cannot be changed and is left.
        if str(old).encode() in content and b"\0" not in content:
            mode = path.stat().st_mode
            path.write_bytes(content.replace(str(old).encode(), str(new).encode()))
            path.chmod(mode)


def _check_wheels(spec: Spec) -> None:
    """Refuse before anything is made: a wheel that is not there, or too little room for what the wheels unpack to."""
    present = wheels.by_hash(spec.wheels)
    missing = wheels.missing(spec.wanted, present)
    if missing:
        raise EngineError(
            f"no wheel with a hash of lock {spec.lock.name} for {', '.join(missing)} in "
            f"{', '.join(map(str, spec.wheels))}: it is absent, damaged or not the one that was locked"
        )
    # Byte code adds about a third to the sources, which are about half of an engine.
    needed = int(wheels.unpacked_bytes(path for digest, path in present.items() if digest in spec.digests) * 1.2)
    free = host.free_bytes(spec.releases)
    if free < needed:
        raise EngineError(
            f"{spec.releases} has {free >> 20} MiB free, release {spec.id} needs {needed >> 20} MiB: "
            "remove old releases (engine_keep) or make room"
        )


def _put_in_place(partial: Path, target: Path) -> None:
    """Rename; over an existing (drifted) release exchange the two in one step, where the file system can."""
    if not target.exists():
        os.rename(partial, target)
        return
    replaced = target.with_name(target.name + ".replaced")
    if _exchange(partial, target):
        os.rename(partial, replaced)
    else:
        os.rename(target, replaced)
        os.rename(partial, target)
    shutil.rmtree(replaced)


def _exchange(one: Path, other: Path) -> bool:
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    return renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0


def _run(command: list[Any], cwd: Path, what: str, bytecode: bool = False, pip_settings: bool = False) -> None:
    """Run a step with a clean environment; raises EngineError with the end of its output.

    ``bytecode``: let Python write byte code. ``pip_settings``: let pip see the host's own settings, which name its
    index; otherwise nothing of them counts.
    """
    with tempfile.TemporaryDirectory() as scratch:
        environment = {
            "PATH": os.environ.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"),
            "LC_ALL": "C.UTF-8",
            "HOME": scratch,
            "TMPDIR": scratch,
            **({} if bytecode else {"PYTHONDONTWRITEBYTECODE": "1"}),
            **_PIP_MANNERS,
        }
        if pip_settings:
            environment.update({key: value for key, value in os.environ.items() if key.startswith("PIP_")})
        else:
            environment["PIP_CONFIG_FILE"] = os.devnull
        # run_command cannot take settings away from the environment, and pip needs a bare one.
        result = subprocess.run(  # pylint: disable=ansible-bad-function
            [str(part) for part in command],
            cwd=cwd,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            umask=0o022,
            check=False,
        )
    if result.returncode:
        tail = "\n".join(result.stdout.strip().splitlines()[-25:])
        raise EngineError(f"{what} failed (exit status {result.returncode}):\n{tail}")
