# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which hosts of a play are one machine, or a host with its guest."""

from __future__ import annotations

import typing as t

from ansible_collections.inferlab.dflash.plugins.module_utils._gpu import identity


def _related(host: str, facts: t.Mapping[str, t.Mapping[str, t.Any] | None], kind: str) -> list[str]:
    known = {name: gpu["identity"] for name, gpu in facts.items() if gpu and gpu.get("identity")}
    mine = known.get(host)
    if mine is None:
        return []
    return sorted(name for name, other in known.items() if name != host and identity.relation(mine, other) == kind)


def aliases(host: str, facts: t.Mapping[str, t.Mapping[str, t.Any] | None]) -> list[str]:
    """The other names under which ``host`` is in the inventory. ``facts``: host name to ``ansible_facts.gpu``."""
    return _related(host, facts, identity.ALIAS)


def sharing(host: str, facts: t.Mapping[str, t.Mapping[str, t.Any] | None]) -> list[str]:
    """Hosts or guests that see some of the same GPUs as ``host`` and are other systems."""
    return _related(host, facts, identity.HOST_AND_GUEST)
