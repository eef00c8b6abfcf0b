# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an instance looks like on the host: paths and reading. Private to this collection."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import typing as t


class Paths:
    """Every path of one instance below ``root``."""

    def __init__(self, name: str, root: str = "/") -> None:
        self.name = name
        self.root = root
        self.unit_name = f"dflash-{name}.service"
        self.unit = self._at("etc/systemd/system", self.unit_name)
        self.config = self._at("etc/dflash", name)
        self.environment = os.path.join(self.config, "environment")
        self.api_key = os.path.join(self.config, "api_key")
        self.state = self._at("var/lib/dflash/instances", name)
        self.link = os.path.join(self.state, "release")
        self.active = os.path.join(self.state, "active.json")
        self.generations = os.path.join(self.state, "generations")
        self.history = self._at("var/lib/dflash", "history.jsonl")
        # Parents first. Root's, and readable for the services.
        self.directories = [
            self._at("etc/dflash"),
            self.config,
            self._at("var/lib/dflash"),
            os.path.dirname(self.state),
            self.state,
        ]

    def _at(self, *parts: str) -> str:
        return os.path.join(self.root, *parts)

    def generation(self, identifier: str) -> str:
        return os.path.join(self.generations, identifier)


def read_text(path: str) -> str | None:
    """Text of a file, or None when it is not there."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as stream:
            return stream.read()
    except (FileNotFoundError, NotADirectoryError):
        return None


def read_json(path: str) -> dict[str, t.Any] | None:
    """Object in a JSON file; None when it is absent or damaged (it is then written anew)."""
    text = read_text(path)
    try:
        value = json.loads(text) if text is not None else None
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def mode_of(path: str) -> int | None:
    try:
        return stat.S_IMODE(os.lstat(path).st_mode)
    except FileNotFoundError:
        return None


def wrong_directories(paths: Paths) -> list[str]:
    """Those of the instance's directories that are not there, or are not root's, or have another mode than 0755."""
    wrong = []
    for path in paths.directories:
        try:
            found = os.stat(path)
        except OSError:
            wrong.append(path)
            continue
        # A fixture or a staged system belongs to whoever made it.
        owned = paths.root != "/" or (found.st_uid, found.st_gid) == (0, 0)
        if not owned or stat.S_IMODE(found.st_mode) != 0o755:
            wrong.append(path)
    return wrong


def key_digest(key: str | None, salt: str) -> str | None:
    """Salted digest of the API key: tells whether the running service has the present key without keeping the key a second time."""
    return hashlib.sha256((salt + key).encode("utf-8")).hexdigest() if key is not None else None


def read_history(path: str) -> list[dict[str, t.Any]]:
    """Records of history.jsonl, oldest first; a line cut by a crash is passed over."""
    entries = []
    for line in (read_text(path) or "").splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict):
            entries.append(entry)
    return entries


def complete_generations(paths: Paths) -> list[str]:
    """Ids of the generations whose record is written (the record is what is written last)."""
    try:
        names = sorted(os.listdir(paths.generations))
    except FileNotFoundError:
        return []
    return [name for name in names if os.path.isfile(os.path.join(paths.generation(name), "record.json"))]


def read_generation(paths: Paths, identifier: str) -> dict[str, t.Any] | None:
    """``unit, environment, release, record`` of a complete generation, or None."""
    folder = paths.generation(identifier)
    record = read_json(os.path.join(folder, "record.json"))
    unit = read_text(os.path.join(folder, "unit"))
    environment = read_text(os.path.join(folder, "environment"))
    if record is None or unit is None or environment is None:
        return None
    return {"unit": unit, "environment": environment, "release": record["release"], "record": record["record"]}


def systemd_state(show: t.Mapping[str, str]) -> dict[str, t.Any]:
    """systemd's view of the unit from the properties of ``systemctl show``."""
    return {
        "active_state": show.get("ActiveState") or None,
        "enabled": show.get("UnitFileState") == "enabled",
        "need_daemon_reload": show.get("NeedDaemonReload") == "yes",
        "invocation_id": show.get("InvocationID") or None,
    }


def read_current(
    paths: Paths, wanted_id: str | None, api_key: str | None, show: t.Mapping[str, str]
) -> dict[str, t.Any]:
    """Everything :func:`generation.plan_start` compares; nothing is written."""
    active = read_json(paths.active) or {}
    try:
        link: str | None = os.readlink(paths.link)
    except OSError:
        link = None
    on_disk = read_text(paths.api_key)
    return {
        "unit": read_text(paths.unit),
        "unit_mode": mode_of(paths.unit),
        "environment": read_text(paths.environment),
        "environment_mode": mode_of(paths.environment),
        "link": link,
        "directories_right": not wrong_directories(paths),
        "exists": os.path.isdir(paths.state) or os.path.isdir(paths.config),
        "generation_complete": wanted_id in complete_generations(paths),
        "active": active.get("generation"),
        "api_key_matches": on_disk == api_key and (api_key is None or mode_of(paths.api_key) == 0o600),
        "api_key_in_use": active.get("api_key_digest") == key_digest(api_key, active.get("api_key_salt", "")),
        **systemd_state(show),
    }


def attribute_ports(
    listening: t.Sequence[t.Mapping[str, t.Any]], instances: t.Sequence[t.Mapping[str, t.Any]]
) -> list[dict[str, t.Any]]:
    """Listening sockets, those without a visible holder given to the running instance whose recorded port they are.

    In a container without CAP_SYS_PTRACE even root cannot see which process of another user holds a socket.
    """
    own = {instance["port"]: instance["unit"] for instance in instances if instance["active"] and instance["port"]}
    return [
        {**entry, "unit": own[entry["port"]]} if entry.get("pid") is None and entry["port"] in own else dict(entry)
        for entry in listening
    ]
