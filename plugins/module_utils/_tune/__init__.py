# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""From benchmark rows to a decision: pure functions, no I/O. Private to this collection.

``samples`` reads the rows of ``ddtree.bench``, ``faults`` says whether they can be trusted, ``noise`` how far, ``decide`` which
configuration to serve, ``summary`` what a report shows.
"""
