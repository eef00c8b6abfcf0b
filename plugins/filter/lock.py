# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filters of the host lock: who this run is, and whether a lock's run certainly ended."""

from __future__ import annotations

import typing as t

from ansible_collections.inferlab.dflash.plugins.module_utils._instance import locking


def lock_owner(extra: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """This run, with ``extra`` added."""
    return {**locking.owner(), **extra}


class FilterModule:
    """Ansible's entry point."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"lock_owner": lock_owner, "lock_is_dead": locking.is_dead}
