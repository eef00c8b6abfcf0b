# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""SGLANG_SIMULATE_ACC_LEN for trees: forces the accept length of a benchmark run. Text is garbage, timing is valid."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from ddtree.sglang.buffers import Draft, Round

FIXED_TOKEN = 100


class ForcedAcceptance:
    """Accepts rows 0 .. n - 1 of every request, eagerly or inside a graph; n is drawn on the host before each round."""

    def __init__(self, block_size: int, device: torch.device | str) -> None:
        self.block_size = block_size
        self.length = torch.zeros((1,), dtype=torch.int32, device=device)

    def draw(self) -> None:
        """One round's length, as SGLang's own simulation draws it."""
        from sglang.srt.speculative.spec_utils import SIMULATE_ACC_LEN, SIMULATE_ACC_METHOD

        from ddtree.sglang import releases

        sample = releases.installed().simulated_length()
        self.length.fill_(int(sample(SIMULATE_ACC_LEN, SIMULATE_ACC_METHOD, self.block_size)))

    def apply(self, draft: Draft, out: Round, seq_lens: torch.Tensor, live: torch.Tensor | None) -> None:
        """Overwrite a walk's results. The KV move copies each accepted row onto itself: as many bytes as a real one.

        ``live`` (int32 [1]) is the number of requests that count, the others accept nothing; None: all.
        """
        bs, block_size = out.accept_index.shape
        requests = torch.arange(bs, device=seq_lens.device)
        steps = torch.arange(block_size, device=seq_lens.device)
        lengths = self.length.expand(bs) if live is None else torch.where(requests < live, self.length, 0)
        kept = steps < lengths[:, None]
        flat = requests[:, None] * draft.rows + steps
        out.accept_index.copy_(torch.where(kept, flat, -1))
        out.hidden_index.copy_(flat)
        out.src_loc.copy_(torch.where(kept, draft.cache_loc[:, :block_size], 0))
        out.tgt_loc.copy_(out.src_loc)
        out.out_token.fill_(FIXED_TOKEN)
        out.bonus.fill_(FIXED_TOKEN)
        out.accept_lens.copy_(lengths)
        torch.add(seq_lens, lengths, out=out.new_seq_lens)
