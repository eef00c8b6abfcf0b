# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one error that planning raises."""

from __future__ import annotations


class PlanError(ValueError):
    """A wish that cannot be granted: what was asked, why it is refused, and what to do instead.

    All three are required, so that no refusal leaves its reader without a way out.
    """

    def __init__(self, what: str, reason: str, way_out: str) -> None:
        super().__init__(f"{what}: {reason}. {way_out}.")
        self.what = what
        self.reason = reason
        self.way_out = way_out
