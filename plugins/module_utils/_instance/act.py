# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The acting side of an instance: every step can be repeated, and a kill between two steps loses nothing. Private to this collection."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
import typing as t
import uuid

from . import store

Runner = t.Callable[[t.Sequence[str]], tuple[int, str, str]]


class ActError(Exception):
    """A step that failed; ``step`` names it."""

    def __init__(self, step: str, message: str) -> None:
        super().__init__(message)
        self.step = step


def write_file(path: str, text: str, mode: int) -> None:
    """Write ``text`` atomically: a reader sees the old file or the new one, never half of one."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".dflash-")
    try:
        os.fchmod(descriptor, mode)
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.rename(temporary, path)
    except BaseException:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise


def make_directories(paths: store.Paths) -> None:
    """Whatever the umask: the services read below these."""
    for path in store.wrong_directories(paths):
        os.makedirs(path, exist_ok=True)
        os.chmod(path, 0o755)
        if paths.root == "/":
            os.chown(path, 0, 0)


def write_generation(paths: store.Paths, identifier: str, wanted: t.Mapping[str, t.Any]) -> None:
    """Keep a generation under its id; the record comes last, and a folder without one is no generation."""
    folder = paths.generation(identifier)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    write_file(os.path.join(folder, "unit"), wanted["unit"], 0o644)
    write_file(os.path.join(folder, "environment"), wanted["environment"], 0o600)
    record = {"release": wanted["release"], "record": dict(wanted["record"])}
    write_file(os.path.join(folder, "record.json"), json.dumps(record, indent=2, sort_keys=True) + "\n", 0o600)


def verify_unit(paths: store.Paths, wanted: t.Mapping[str, t.Any], run: Runner) -> None:
    """``systemd-analyze verify`` on the unit as it will run: the release's own path stands for the link, which has not moved yet.

    :raises ActError: what systemd says of the unit.
    """
    folder = tempfile.mkdtemp(prefix="dflash-verify-")
    try:
        candidate = os.path.join(folder, paths.unit_name)
        with open(candidate, "w", encoding="utf-8") as stream:
            stream.write(wanted["unit"].replace(paths.link + "/", wanted["release"] + "/"))
        status, out, err = run(["systemd-analyze", "verify", "--man=no", candidate])
        # Other units' warnings appear here too and are not this unit's fault.
        ours = [line for line in (out + err).splitlines() if paths.unit_name in line or candidate in line]
        if status != 0 and ours:
            raise ActError("verify_unit", "; ".join(line.replace(candidate, paths.unit_name) for line in ours))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def move_link(paths: store.Paths, release: str) -> None:
    """Point the instance's link at ``release`` in one rename."""
    os.makedirs(paths.state, exist_ok=True)
    temporary = os.path.join(paths.state, f".release-{uuid.uuid4().hex}")
    os.symlink(release, temporary)
    os.rename(temporary, paths.link)


def install_api_key(paths: store.Paths, key: str | None) -> None:
    if key is not None:
        write_file(paths.api_key, key, 0o600)
    elif os.path.exists(paths.api_key):
        os.unlink(paths.api_key)


def record_active(paths: store.Paths, identifier: str, key: str | None) -> None:
    salt = uuid.uuid4().hex
    record = {"generation": identifier, "api_key_salt": salt, "api_key_digest": store.key_digest(key, salt)}
    write_file(paths.active, json.dumps(record, sort_keys=True) + "\n", 0o600)


def append_history(path: str, entry: t.Mapping[str, t.Any]) -> None:
    """Add one line; O_APPEND keeps lines of two writers whole."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    line = json.dumps({"time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), **entry}, sort_keys=True) + "\n"
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o640)
    try:
        os.write(descriptor, line.encode("utf-8"))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def systemctl(run: Runner, step: str, *arguments: str) -> None:
    status, out, err = run(["systemctl", *arguments])
    if status != 0:
        raise ActError(step, (err or out).strip() or f"systemctl {' '.join(arguments)} ended with {status}")


def start(
    paths: store.Paths, actions: t.Iterable[str], wanted: t.Mapping[str, t.Any], key: str | None, run: Runner
) -> None:
    """Take ``actions`` of :func:`generation.plan_start` in their order."""
    steps: dict[str, t.Callable[[], None]] = {
        "make_directories": lambda: make_directories(paths),
        "write_generation": lambda: write_generation(paths, wanted["id"], wanted),
        "verify_unit": lambda: verify_unit(paths, wanted, run),
        "install_environment": lambda: write_file(paths.environment, wanted["environment"], 0o600),
        "install_api_key": lambda: install_api_key(paths, key),
        "move_link": lambda: move_link(paths, wanted["release"]),
        "install_unit": lambda: write_file(paths.unit, wanted["unit"], 0o644),
        "daemon_reload": lambda: systemctl(run, "daemon_reload", "daemon-reload"),
        "enable": lambda: systemctl(run, "enable", "enable", "--quiet", paths.unit_name),
        "restart": lambda: _restart(paths, run),
        "record_active": lambda: record_active(paths, wanted["id"], key),
    }
    for action in actions:
        steps[action]()


def _restart(paths: store.Paths, run: Runner) -> None:
    # A unit that ran into its start limit would refuse the very start that is to cure it.
    run(["systemctl", "reset-failed", paths.unit_name])
    # --no-block: whether it serves is server_ready's question, with reasons; a start job can only say that it failed.
    systemctl(run, "restart", "restart", "--no-block", paths.unit_name)


def stop(paths: store.Paths, actions: t.Iterable[str], run: Runner) -> None:
    """Take ``actions`` of :func:`generation.plan_stop` or :func:`generation.plan_absent` in their order."""
    steps: dict[str, t.Callable[[], None]] = {
        "stop": lambda: systemctl(run, "stop", "stop", paths.unit_name),
        "disable": lambda: systemctl(run, "disable", "disable", "--quiet", paths.unit_name),
        "remove_unit": lambda: os.unlink(paths.unit),
        "daemon_reload": lambda: systemctl(run, "daemon_reload", "daemon-reload"),
        "remove_files": lambda: _remove_files(paths),
    }
    for action in actions:
        steps[action]()


def _remove_files(paths: store.Paths) -> None:
    for folder in (paths.config, paths.state):
        shutil.rmtree(folder, ignore_errors=True)


def prune(paths: store.Paths, identifiers: t.Iterable[str]) -> None:
    for identifier in identifiers:
        shutil.rmtree(paths.generation(identifier), ignore_errors=True)
