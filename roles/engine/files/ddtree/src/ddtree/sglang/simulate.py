# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""SGLANG_SIMULATE_ACC_LEN for trees: forces the accept length of a benchmark run. Text is garbage, timing is valid."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from sglang.srt.speculative.spec_utils import SIMULATE_ACC_LEN, SIMULATE_ACC_METHOD, _sample_simulated_acc_len

if TYPE_CHECKING:
    from ddtree.sglang.buffers import RoundTensors

FIXED_TOKEN = 100


def force_acceptance(tensors: RoundTensors, seq_lens: torch.Tensor, rows: int) -> None:
    """Accept rows 0 .. n-1 of every request, in place. The KV move copies each of them onto itself: same bytes moved."""
    bs, block_size = tensors.out_token.shape
    length = int(_sample_simulated_acc_len(SIMULATE_ACC_LEN, SIMULATE_ACC_METHOD, block_size))
    flat = torch.arange(bs * rows, device=seq_lens.device).view(bs, rows)[:, :block_size]
    tensors.accept_index.fill_(-1)
    tensors.accept_index[:, :length] = flat[:, :length].to(torch.int32)
    tensors.hidden_index.copy_(flat)
    tensors.src_loc.zero_()
    tensors.src_loc[:, :length] = tensors.cache_loc[:, :length]
    tensors.tgt_loc.copy_(tensors.src_loc)
    tensors.out_token.fill_(FIXED_TOKEN)
    tensors.bonus.fill_(FIXED_TOKEN)
    tensors.accept_lens.fill_(length)
    torch.add(seq_lens, length, out=tensors.new_seq_lens)
