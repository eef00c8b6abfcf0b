# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measuring plugin of the benchmark: a second entry point that watches DDTREE's worker where the environment asks it to."""

from __future__ import annotations


def register() -> None:
    """Nothing to watch unless a section sets DDTREE_PROBE."""
