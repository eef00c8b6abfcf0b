# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""SGLANG_SIMULATE_ACC_LEN for trees: forces the accept length of a benchmark run. Text is garbage, timing is valid."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from sglang.srt.speculative.spec_utils import SIMULATE_ACC_LEN, SIMULATE_ACC_METHOD, _sample_simulated_acc_len

if TYPE_CHECKING:
    from ddtree.sglang.buffers import Draft, Round

FIXED_TOKEN = 100


def force_acceptance(draft: Draft, out: Round, seq_lens: torch.Tensor) -> None:
    """Accept rows 0 .. n-1 of every request, in place. The KV move copies each of them onto itself: same bytes moved."""
    bs, block_size = out.accept_index.shape
    rows = draft.rows
    length = int(_sample_simulated_acc_len(SIMULATE_ACC_LEN, SIMULATE_ACC_METHOD, block_size))
    flat = torch.arange(bs * rows, device=seq_lens.device).view(bs, rows)[:, :block_size]
    out.accept_index.fill_(-1)
    out.accept_index[:, :length] = flat[:, :length].to(torch.int32)
    out.hidden_index.copy_(flat)
    out.src_loc.zero_()
    out.src_loc[:, :length] = draft.cache_loc[:, :length]
    out.tgt_loc.copy_(out.src_loc)
    out.out_token.fill_(FIXED_TOKEN)
    out.bonus.fill_(FIXED_TOKEN)
    out.accept_lens.fill_(length)
    torch.add(seq_lens, length, out=out.new_seq_lens)
