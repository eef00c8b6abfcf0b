# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which port each instance listens on."""

from __future__ import annotations

import typing as t

from .errors import PlanError
from .occupancy import unit_of

FIRST_PORT = 30000


def _holder(listener: t.Mapping[str, t.Any]) -> str:
    parts = [str(listener.get("command") or "an unknown process")]
    details = [f"pid {listener['pid']}"] if listener.get("pid") else []
    if listener.get("user"):
        details.append(f"user {listener['user']}")
    if unit_of(listener):
        details.append(f"unit {unit_of(listener)}")
    return parts[0] + (f" ({', '.join(details)})" if details else "")


def assign(
    wishes: t.Sequence[t.Mapping[str, t.Any]],
    listening: t.Iterable[t.Mapping[str, t.Any]],
    own_units: t.Container[str],
    recorded: t.Mapping[str, int],
    first: int = FIRST_PORT,
) -> dict[str, int]:
    """Instance name to port. Given ports are kept or refused; ``auto`` keeps the recorded port or takes the next.

    :arg listening: ``port``, and where known ``pid``, ``command``, ``user``, ``unit``, ``cgroup`` of each listener.
    """
    foreign: dict[int, t.Mapping[str, t.Any]] = {}
    for listener in listening:
        if unit_of(listener) not in own_units:
            foreign.setdefault(int(listener["port"]), listener)
    result: dict[str, int] = {}
    for wish in wishes:
        if wish["port"] == "auto":
            continue
        port = int(wish["port"])
        if port in foreign:
            raise PlanError(
                f"instance {wish['name']}: port {port}",
                f"it is taken by {_holder(foreign[port])}, which is left alone",
                "Choose another port, or stop the holder yourself",
            )
        result[wish["name"]] = port
    for wish in wishes:
        if wish["name"] in result:
            continue
        taken = set(foreign) | set(result.values())
        port = recorded.get(wish["name"], first)
        if port in taken:
            port = next((p for p in range(first, 65536) if p not in taken), 0)
        if not port:
            raise PlanError(f"instance {wish['name']}: port auto", f"no port from {first} up is free", "Give a port")
        result[wish["name"]] = port
    return result
