# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private: from collected evidence of a service to the cause of its failure.

Nothing here is a stable interface for other collections. Collecting (evidence, probe), deciding (readiness, rules,
classify) and showing (render) are kept in separate files; whatever decides is a pure function on plain data.
"""

from __future__ import annotations

from .classify import diagnose

__all__ = ["diagnose"]
