# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""One thread for torch: the test models are so small that threads only wait for each other."""

from __future__ import annotations

import torch

torch.set_num_threads(1)
