# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host says about its NVIDIA GPUs and driver. Private to this collection; may change without notice."""
