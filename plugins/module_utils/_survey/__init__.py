# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is on a host, and what a fleet of such answers means. Private to this collection; may change without notice.

Collecting (`collect` and the files it imports) runs on the target, reads only, and is bounded in time and entries.
Judging (`fleet`, `findings`, `changes`, `export`, `table`) runs on the control node, on plain dicts.
"""
