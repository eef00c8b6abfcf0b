# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which inventory hosts are one machine, or a host with its guest.

boot-id alone says nothing: all containers of a machine share it.
"""

from __future__ import annotations

import typing as t


def _identity(gpu: t.Mapping[str, t.Any] | None) -> dict[str, t.Any]:
    identity = dict((gpu or {}).get("identity") or {})
    uuids = identity.get("gpu_uuids")
    if not uuids:
        uuids = [device.get("uuid") for device in (gpu or {}).get("devices") or []]
    identity["gpu_uuids"] = {str(uuid) for uuid in uuids if uuid}
    return identity


def relation(one: t.Mapping[str, t.Any] | None, two: t.Mapping[str, t.Any] | None) -> str:
    """``same`` (one machine under two names), ``host_and_guest`` (they share GPUs) or ``different``."""
    first, second = _identity(one), _identity(two)
    if first.get("machine_id") and first.get("machine_id") == second.get("machine_id"):
        return "same"
    # Two known boot-ids that differ would mean a GPU that moved between two readings; planning both jointly is still
    # the
    # careful thing, so the boot-id does not decide here either.
    return "host_and_guest" if first["gpu_uuids"] & second["gpu_uuids"] else "different"


def aliases(host: str, facts: t.Mapping[str, t.Mapping[str, t.Any] | None]) -> list[str]:
    """The other names under which ``host`` is in the inventory."""
    return sorted(n for n, gpu in facts.items() if n != host and relation(facts.get(host), gpu) == "same")


def sharing(host: str, facts: t.Mapping[str, t.Mapping[str, t.Any] | None]) -> list[str]:
    """Hosts or guests that see some of the same GPUs as ``host`` and are other systems."""
    return sorted(n for n, gpu in facts.items() if n != host and relation(facts.get(host), gpu) == "host_and_guest")
