# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Driver versions: read them out of tool output, compare them, never shorten them."""

from __future__ import annotations

import re

VERSION = r"\d{3,4}\.\d+(?:\.\d+)?"
_PACKAGE_VERSION = re.compile(rf"^(?:\d+:)?({VERSION})(?=$|[-+~_])")


def as_key(version: str) -> tuple[int, ...]:
    """Numeric sort key of a full version."""
    return tuple(int(part) for part in version.split("."))


def of_package(version: str) -> str | None:
    """Driver version inside a package version: without epoch and distribution suffix; None when it is none."""
    found = _PACKAGE_VERSION.match(version)
    return found.group(1) if found and as_key(found.group(1))[0] >= 300 else None


def agree(one: str | None, other: str | None) -> bool:
    """Whether two versions can be the same although one tool prints fewer components."""
    if one is None or other is None:
        return True
    left, right = one.split("."), other.split(".")
    shared = min(len(left), len(right))
    return left[:shared] == right[:shared]
