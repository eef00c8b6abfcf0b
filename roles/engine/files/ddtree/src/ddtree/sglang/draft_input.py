# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""Draft-side state that the scheduler carries between rounds."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from sglang.srt.managers.schedule_batch import ScheduleBatch
from sglang.srt.speculative.dflash_info_v2 import DFlashDraftInputV2


@dataclass
class DDTreeDraftInput(DFlashDraftInputV2):
    """As DFLASH's, and it keeps penalties up to date.

    DFLASH's decode preparation never feeds emitted tokens to the penalizers (EAGLE's does), so frequency, presence
    and repetition penalties would stay at their prefill values.
    """

    def prepare_for_decode(self, batch: ScheduleBatch) -> None:
        if batch.sampling_info.penalizer_orchestrator.is_required:
            batch.cumulate_penalty_output_tokens()
        super().prepare_for_decode(batch)

    @classmethod
    def create(cls, *, bonus_tokens: torch.Tensor, new_seq_lens: torch.Tensor) -> DDTreeDraftInput:
        """State after a round. Only bonus tokens and lengths carry information; the rest is shape for the relay."""
        rows, device = int(new_seq_lens.numel()), bonus_tokens.device
        return cls(
            topk_p=torch.empty((rows, 0), device=device, dtype=torch.float32),
            topk_index=torch.empty((rows, 0), device=device, dtype=torch.int64),
            bonus_tokens=bonus_tokens.to(torch.int64),
            new_seq_lens=new_seq_lens.to(torch.int64),
            hidden_states=torch.empty((rows, 0), device=device, dtype=torch.float16),
        )
