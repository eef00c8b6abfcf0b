# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bring a host's NVIDIA user space and kernel module to one version. Private to this collection; may change without notice."""
