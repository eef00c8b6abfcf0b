# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which releases may go: a pure choice, so that no one ever deletes what an instance still needs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def removable(releases: Iterable[Mapping[str, Any]], needed: Iterable[str], keep: int) -> list[str]:
    """Ids to remove: all but the ``keep`` newest and those in ``needed`` (linked, recorded or running), oldest first.

    ``releases``: ``{id, created}``. A needed release counts as one of the kept ones when it is among the newest.
    """
    newest_first = sorted(releases, key=lambda release: (release["created"], release["id"]), reverse=True)
    protected = set(needed) | {release["id"] for release in newest_first[: max(keep, 0)]}
    return [release["id"] for release in reversed(newest_first) if release["id"] not in protected]
