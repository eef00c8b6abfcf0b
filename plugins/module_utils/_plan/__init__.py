# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Planning: from wishes and facts to GPUs, ports and environment. Pure functions on plain dicts, no I/O."""
