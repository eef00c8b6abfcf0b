# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The control node's share of an engine release: the plugin's wheel and the wheels of a lock. Private."""
