# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Model directories: references, manifests, staging and the check of a target and its drafter. Private to this collection."""
