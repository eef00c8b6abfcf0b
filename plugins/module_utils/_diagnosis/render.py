# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A verdict as a short block that a person reads."""

from __future__ import annotations

import textwrap
from typing import Any

_WIDTH = 110
_LINES = 3


def block(verdict: dict[str, Any], title: str = "") -> list[str]:
    """Code, one sentence, up to three lines of evidence, remedy, what not to do; as lines of bounded width."""
    cause = f" ({verdict['cause']})" if verdict.get("cause") else ""
    head = f"{title}: {verdict['code']}{cause}" if title else f"{verdict['code']}{cause}"
    lines = [head]
    lines += _paragraph("", str(verdict.get("meaning", "")))
    lines += [
        f"  | {textwrap.shorten(line, _WIDTH - 4, placeholder=' ...')}" for line in verdict.get("evidence", [])[:_LINES]
    ]
    if verdict.get("falsified"):
        lines += _paragraph("tried  ", "; ".join(verdict["tried"]) + " - remedy applied, cause not cured")
    lines += _paragraph("do     ", str(verdict.get("remedy", "")))
    if verdict.get("must_not"):
        lines += _paragraph("do not ", "; ".join(verdict["must_not"]))
    if verdict.get("secondary_codes"):
        lines += _paragraph("also   ", ", ".join(verdict["secondary_codes"]))
    return lines


def _paragraph(label: str, text: str) -> list[str]:
    if not text:
        return []
    return textwrap.wrap(f"{label}{text}", _WIDTH, initial_indent="  ", subsequent_indent="  " + " " * len(label))
