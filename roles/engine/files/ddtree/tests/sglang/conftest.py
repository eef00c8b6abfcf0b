# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""Kernels run here in Triton's interpreter: the switch must be set before triton is imported."""

from __future__ import annotations

import os

os.environ.setdefault("TRITON_INTERPRET", "1")
