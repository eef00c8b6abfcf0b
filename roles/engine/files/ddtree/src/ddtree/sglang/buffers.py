# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""Per-round tensors of the verify step, allocated once per batch size and shape."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class RoundTensors:
    """Outputs of the verify preparation and of the walk, for ``b`` requests, ``rows`` verify rows and block size L."""

    positions: torch.Tensor  # int64 [b, rows]
    cache_loc: torch.Tensor  # int64 [b, rows]
    accept_index: torch.Tensor  # int32 [b, L], flat rows, -1 padded
    out_token: torch.Tensor  # int64 [b, L]
    src_loc: torch.Tensor  # int64 [b, L]
    tgt_loc: torch.Tensor  # int64 [b, L]
    hidden_index: torch.Tensor  # int64 [b, L]
    accept_lens: torch.Tensor  # int32 [b]
    bonus: torch.Tensor  # int64 [b]
    new_seq_lens: torch.Tensor  # int64 [b]

    @classmethod
    def create(cls, bs: int, rows: int, block_size: int, device: torch.device | str) -> RoundTensors:
        def wide(columns: int) -> torch.Tensor:
            return torch.zeros((bs, columns), dtype=torch.int64, device=device)

        return cls(
            positions=wide(rows),
            cache_loc=wide(rows),
            accept_index=torch.zeros((bs, block_size), dtype=torch.int32, device=device),
            out_token=wide(block_size),
            src_loc=wide(block_size),
            tgt_loc=wide(block_size),
            hidden_index=wide(block_size),
            accept_lens=torch.zeros((bs,), dtype=torch.int32, device=device),
            bonus=torch.zeros((bs,), dtype=torch.int64, device=device),
            new_seq_lens=torch.zeros((bs,), dtype=torch.int64, device=device),
        )


class RoundBuffers:
    """Alternates between two sets: with overlap scheduling the results of one round are copied out during the next."""

    def __init__(self, block_size: int, device: torch.device | str) -> None:
        self.block_size = block_size
        self.device = device
        self._turn = 0
        self._sets: dict[tuple[int, int, int], RoundTensors] = {}

    def take(self, bs: int, rows: int) -> RoundTensors:
        self._turn ^= 1
        key = (self._turn, bs, rows)
        tensors = self._sets.get(key)
        if tensors is None:
            tensors = self._sets[key] = RoundTensors.create(bs, rows, self.block_size, self.device)
        return tensors
