# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""Tensors of the verify step: static inputs, and the results of a round."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Draft:
    """What the target verifies: node-indexed [b, rows] views of static buffers. A chain has no links."""

    token: torch.Tensor  # int64, column 0 is the bonus token
    parent: torch.Tensor  # int32
    depth: torch.Tensor  # int32
    next_token: torch.Tensor | None  # int64
    next_sibling: torch.Tensor | None  # int64
    positions: torch.Tensor  # int64, text position of each row
    cache_loc: torch.Tensor  # int64, KV slot of each row

    @property
    def rows(self) -> int:
        return int(self.token.shape[1])

    @property
    def is_chain(self) -> bool:
        return self.next_token is None

    def of(self, bs: int) -> Draft:
        """The first ``bs`` requests."""
        links = (None, None) if self.is_chain else (self.next_token[:bs], self.next_sibling[:bs])
        return Draft(
            self.token[:bs], self.parent[:bs], self.depth[:bs], *links, self.positions[:bs], self.cache_loc[:bs]
        )


@dataclass(frozen=True)
class Round:
    """What the walk over ``b`` verified trees decided; L is the drafter's block size."""

    accept_index: torch.Tensor  # int32 [b, L], flat verify rows of the accepted path, -1 padded
    hidden_index: torch.Tensor  # int64 [b, L], the same as a gather index
    src_loc: torch.Tensor  # int64 [b, L], KV slots to move, 0 padded
    tgt_loc: torch.Tensor  # int64 [b, L]
    commit_loc: torch.Tensor  # int64 [b, L], slots of the next L text positions
    commit_positions: torch.Tensor  # int64 [b, L]
    accept_lens: torch.Tensor  # int32 [b]
    result: torch.Tensor  # int64 [b * (L + 2)]: the next three, one after the other

    @classmethod
    def create(cls, bs: int, block_size: int, device: torch.device | str) -> Round:
        def wide() -> torch.Tensor:
            return torch.zeros((bs, block_size), dtype=torch.int64, device=device)

        return cls(
            accept_index=torch.zeros((bs, block_size), dtype=torch.int32, device=device),
            hidden_index=wide(),
            src_loc=wide(),
            tgt_loc=wide(),
            commit_loc=wide(),
            commit_positions=wide(),
            accept_lens=torch.zeros((bs,), dtype=torch.int32, device=device),
            result=torch.zeros((bs * (block_size + 2),), dtype=torch.int64, device=device),
        )

    @property
    def out_token(self) -> torch.Tensor:
        """Emitted tokens, accepted drafts then the bonus: int64 [b, L]."""
        bs, block_size = self.accept_index.shape
        return self.result[: bs * block_size].view(bs, block_size)

    @property
    def bonus(self) -> torch.Tensor:
        bs, block_size = self.accept_index.shape
        return self.result[bs * block_size : bs * (block_size + 1)]

    @property
    def new_seq_lens(self) -> torch.Tensor:
        bs, block_size = self.accept_index.shape
        return self.result[bs * (block_size + 1) :]


class RoundBuffers:
    """Alternates between two sets: with overlap scheduling the results of one round are copied out during the next."""

    def __init__(self, block_size: int, device: torch.device | str) -> None:
        self.block_size = block_size
        self.device = device
        self._turn = 0
        self._sets: dict[tuple[int, int], Round] = {}

    def take(self, bs: int) -> Round:
        self._turn ^= 1
        key = (self._turn, bs)
        tensors = self._sets.get(key)
        if tensors is None:
            tensors = self._sets[key] = Round.create(bs, self.block_size, self.device)
        return tensors
