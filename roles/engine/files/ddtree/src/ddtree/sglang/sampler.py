# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""Draft sampler: drafter hidden states to draft trees, on the device, inside the draft CUDA graph."""

from __future__ import annotations

import torch

from ddtree.sglang import kernels
from ddtree.sglang.buffers import Draft
from ddtree.sglang.config import DDTreeConfig


class DDTreeDraftSampler:
    """Borrowed target LM head -> exact top-k log-probabilities per position -> best-first tree, in static buffers.

    Runs as a tail hook of the draft graph (captured for each batch size) and as it is when the draft step runs
    eagerly. With tensor parallelism each rank reduces its vocabulary shard; all ranks merge the same gathered candidates
    and so build the same tree.
    """

    def __init__(
        self,
        *,
        weight: torch.Tensor,
        num_org: int,
        org_vocab_start: int,
        config: DDTreeConfig,
        max_bs: int,
        tp_group: object | None,
    ) -> None:
        self.weight = weight[:num_org]
        self.org_vocab_start = org_vocab_start
        self.config = config
        self.tp_group = tp_group
        self.tp_size = int(tp_group.world_size) if tp_group is not None else 1
        self.max_bs = max_bs
        self.positions = config.block_size - 1
        device, k = weight.device, config.topk
        n, splits = max_bs * self.positions, kernels.topk_splits(num_org)
        self.splits = splits

        def empty(*shape: int, dtype: torch.dtype) -> torch.Tensor:
            return torch.zeros(shape, dtype=dtype, device=device)

        f32, i32, i64 = torch.float32, torch.int32, torch.int64
        self.part_value, self.part_index = empty(n * splits * k, dtype=f32), empty(n * splits * k, dtype=i32)
        self.part_max, self.part_sum = empty(n * splits, dtype=f32), empty(n * splits, dtype=f32)
        self.logprob, self.ids = (
            empty(max_bs, self.positions, k, dtype=f32),
            empty(max_bs, self.positions, k, dtype=i32),
        )
        self.lse = empty(n, dtype=f32)
        if self.tp_size > 1:
            self.local_value, self.local_ids = empty(n * k, dtype=f32), empty(n * k, dtype=i32)
            self.local_lse = empty(n, dtype=f32)
            self.all_value, self.all_ids = (
                empty(self.tp_size * n * k, dtype=f32),
                empty(self.tp_size * n * k, dtype=i32),
            )
            self.all_lse = empty(self.tp_size * n, dtype=f32)
            self.ones = torch.ones(self.tp_size * n, dtype=f32, device=device)
        rows = config.rows
        self.token = empty(max_bs, rows, dtype=i64)
        self.parent, self.depth = empty(max_bs, rows, dtype=i32), empty(max_bs, rows, dtype=i32)
        self.next_token, self.next_sibling = empty(max_bs, rows, dtype=i64), empty(max_bs, rows, dtype=i64)
        # The chain of best tokens, for rounds that verify it instead of the tree.
        self.chain = empty(max_bs, config.block_size, dtype=i64)
        line = torch.arange(config.block_size, dtype=i32, device=device).repeat(max_bs, 1)

        def places(width: int) -> tuple[torch.Tensor, torch.Tensor]:
            return empty(max_bs, width, dtype=i64), empty(max_bs, width, dtype=i64)

        self.chain_draft = Draft(self.chain, line - 1, line, None, None, *places(config.block_size))
        self.tree_draft = Draft(self.token, self.parent, self.depth, self.next_token, self.next_sibling, *places(rows))

    def __call__(self, hidden_states: torch.Tensor, input_ids: torch.Tensor) -> None:
        """``hidden_states`` [b * L, H] of the draft block, ``input_ids`` [b * L] whose column 0 is the bonus token."""
        block_size = self.config.block_size
        bs = hidden_states.shape[0] // block_size
        hidden = hidden_states.view(bs, block_size, -1)[:, 1:].reshape(bs * self.positions, -1)
        logits = torch.matmul(hidden.to(self.weight.dtype), self.weight.T)
        self._top_candidates(logits)
        bonus = input_ids.view(bs, block_size)[:, 0]
        self.chain[:bs, 0].copy_(bonus)
        self.chain[:bs, 1:].copy_(self.ids[:bs, :, 0])
        if not self.config.is_chain:
            self.build(bonus)

    def build(self, bonus: torch.Tensor) -> None:
        """Tree of the candidates in ``logprob`` and ``ids``."""
        bs = bonus.shape[0]
        kernels.build_tree(
            self.logprob[:bs],
            self.ids[:bs],
            bonus,
            force_spine=self.config.force_spine,
            token=self.token[:bs],
            parent=self.parent[:bs],
            depth=self.depth[:bs],
            next_token=self.next_token[:bs],
            next_sibling=self.next_sibling[:bs],
        )

    def _top_candidates(self, logits: torch.Tensor) -> None:
        n, k, alone = logits.shape[0], self.config.topk, self.tp_size == 1
        kernels.topk_partial(
            logits,
            index_start=self.org_vocab_start,
            k=k,
            value=self.part_value,
            index=self.part_index,
            part_max=self.part_max,
            part_sum=self.part_sum,
        )
        kernels.topk_merge(
            self.part_value,
            self.part_index,
            self.part_max,
            self.part_sum,
            rows=n,
            splits=self.splits,
            k=k,
            split_major=False,
            normalise=alone,
            logprob=self.logprob if alone else self.local_value,
            ids=self.ids if alone else self.local_ids,
            lse=self.lse if alone else self.local_lse,
        )
        if alone:
            return
        gathered = self.tp_size * n
        self.tp_group.all_gather_into_tensor(self.all_value[: gathered * k], self.local_value[: n * k])
        self.tp_group.all_gather_into_tensor(self.all_ids[: gathered * k], self.local_ids[: n * k])
        self.tp_group.all_gather_into_tensor(self.all_lse[:gathered], self.local_lse[:n])
        kernels.topk_merge(
            self.all_value,
            self.all_ids,
            self.all_lse,
            self.ones,
            rows=n,
            splits=self.tp_size,
            k=k,
            split_major=True,
            normalise=True,
            logprob=self.logprob,
            ids=self.ids,
            lse=self.lse,
        )
