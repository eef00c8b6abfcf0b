# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one error type of the engine code."""

from __future__ import annotations


class EngineError(Exception):
    """A release cannot be made or trusted; ``code`` is a provisioning or diagnosis code, or '' where none fits."""

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code
