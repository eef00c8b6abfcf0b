# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One served instance on a host: its command line, its unit and its generations. Private to this collection."""
