# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Services of interest: those that the patterns match, those that hold interesting processes, and those that failed."""

from __future__ import annotations

import re
import typing as t

from .commands import kind_of, masked
from .source import Source, number

_FOLDERS = ("/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system")
_MOST = 100
_PROPERTIES = (
    "Id,Description,LoadState,ActiveState,SubState,UnitFileState,Result,NRestarts,MainPID,ExecMainStatus,"
    "FragmentPath,User,MemoryCurrent,NeedDaemonReload"
)
TIMERS = ("apt-daily-upgrade.timer", "dnf-automatic.timer", "dnf-automatic-install.timer")


def unit_files(source: Source, compiled: t.Sequence[tuple[str, t.Pattern[str]]]) -> dict[str, dict[str, t.Any]]:
    """Return the administrator's unit files whose name, description or command the patterns match, by unit."""
    found: dict[str, dict[str, t.Any]] = {}
    for folder in _FOLDERS:
        for name in source.names(folder)[:2000]:
            if not name.endswith(".service") or name in found or source.late():
                continue
            text = source.read(f"{folder}/{name}") or ""
            description = re.search(r"(?m)^Description\s*=\s*(.*)$", text)
            commands = " ".join(re.findall(r"(?m)^ExecStart\s*=\s*((?:.*\\\n)*.*)$", text)).replace("\\\n", " ")
            kind = kind_of(f"{name} {commands} {description.group(1) if description else ''}", compiled)
            if kind:
                user = re.search(r"(?m)^User\s*=\s*(\S+)", text)
                found[name] = {
                    "kind": kind,
                    "description": description.group(1).strip() if description else None,
                    "path": f"{folder}/{name}",
                    "user": user.group(1) if user else None,
                }
    return found


def listed_units(text: str | None) -> list[dict[str, str]]:
    """Return the rows of `systemctl list-units --plain --no-legend --all`."""
    rows = []
    for line in (text or "").splitlines():
        parts = line.lstrip("*● ").split(None, 4)
        if len(parts) >= 4:
            rows.append(
                {
                    "unit": parts[0],
                    "load": parts[1],
                    "active": parts[2],
                    "sub": parts[3],
                    "description": parts[4].strip() if len(parts) > 4 else "",
                }
            )
    return rows


def shown_units(text: str | None) -> list[dict[str, str]]:
    """Return the blocks of `systemctl show`."""
    blocks = []
    for block in re.split(r"\n\s*\n", (text or "").strip()):
        fields = dict(line.partition("=")[::2] for line in block.splitlines() if "=" in line)
        if fields.get("Id"):
            blocks.append(fields)
    return blocks


def collect_services(
    source: Source,
    compiled: t.Sequence[tuple[str, t.Pattern[str]]],
    processes: t.Sequence[t.Mapping[str, t.Any]],
) -> tuple[list[dict[str, t.Any]], set[str]]:
    """Return the services, and which upgrade timers are active."""
    files = unit_files(source, compiled)
    kinds: dict[str, str] = {name: info["kind"] for name, info in files.items()}
    for process in processes:
        unit = process.get("unit")
        if unit and unit.endswith(".service") and not process.get("guest"):
            kinds.setdefault(unit, process["kind"])
    told = source.run(
        "systemctl", "list-units", "--all", "--type=service,timer", "--plain", "--no-legend", "--full", "--no-pager"
    )
    rows = listed_units(told)
    timers = {row["unit"] for row in rows if row["unit"] in TIMERS and row["active"] == "active"}
    for row in rows:
        if row["unit"].endswith(".timer"):
            continue
        kind = kind_of(f"{row['unit']} {row['description']}", compiled)
        if kind:
            kinds.setdefault(row["unit"], kind)
        elif row["active"] == "failed":
            kinds.setdefault(row["unit"], "other")
    names = sorted(kinds)
    if len(names) > _MOST:
        source.warn("services", f"more than {_MOST} services match; the others are left out")
        names = names[:_MOST]
    answer = source.run("systemctl", "show", "--no-pager", f"--property={_PROPERTIES}", "--", *names) if names else None
    states = {fields["Id"]: fields for fields in shown_units(answer)}
    if source.live and (not rows or (names and not states)):
        source.warn("services", "systemctl gave no answer; states are not known")
    return [describe_service(name, kinds[name], files.get(name, {}), states.get(name, {})) for name in names], timers


def describe_service(name: str, kind: str, file: t.Mapping[str, t.Any], state: t.Mapping[str, str]) -> dict[str, t.Any]:
    """Return what is to say about one service; what systemd did not tell is None."""
    memory = number(state.get("MemoryCurrent"))
    described = state.get("Description") or file.get("description") or ""
    # The description of a transient unit is its whole command line.
    description = None if state.get("UnitFileState") == "transient" else masked(described)[:200] or None
    pid = number(state.get("MainPID"))
    return {
        "unit": name,
        "kind": kind,
        "description": description,
        "load": state.get("LoadState"),
        "active": state.get("ActiveState"),
        "sub": state.get("SubState"),
        "enabled": state.get("UnitFileState") or None,
        "result": state.get("Result"),
        "restarts": number(state.get("NRestarts")),
        "exit_status": number(state.get("ExecMainStatus")),
        "main_pid": pid or None,
        "user": state.get("User") or file.get("user"),
        "path": state.get("FragmentPath") or file.get("path"),
        "stale": state.get("NeedDaemonReload") == "yes" if state else None,
        # systemd says 2^64-1 where it does not count.
        "memory_mib": memory // (1024 * 1024) if memory is not None and memory < 1 << 60 else None,
    }
