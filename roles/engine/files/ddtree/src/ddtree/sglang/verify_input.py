# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""Input of the target's verify step over draft trees."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from sglang.srt.speculative.dflash_info import DFlashVerifyInput


@dataclass
class DDTreeVerifyInput(DFlashVerifyInput):
    """DFLASH's verify input plus the tree links that hybrid (recurrent) layers and grammars read.

    ``custom_mask`` is either the attention backend's own verify-mask buffer (any view of it: only the tails in it
    matter and they are written in place) or, outside CUDA graphs, a buffer of the same layout.
    """

    retrieve_next_token: torch.Tensor | None = None
    retrieve_next_sibling: torch.Tensor | None = None
