# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to inferlab.dflash: engine releases on a host.

lock, identity, retention, abi, manifest.compare and patching.apply_diff decide on plain data; host, wheels and build
touch the system.
"""
