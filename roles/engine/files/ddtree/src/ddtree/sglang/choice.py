# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""The target's choice after every verify row: argmax, or one draw of the request's sampling law.

Drawing one token per row and walking the tree along the draws has the law of plain decoding, whatever the tree is (see
``ddtree.verify``): no draft probabilities, no rejection test, and every sampling option of plain decoding works. With
a seed the draw at a position is the same function of (seed, position, logits) as in plain decoding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from sglang.srt.managers.schedule_batch import ScheduleBatch
    from sglang.srt.sampling.sampling_batch_info import SamplingBatchInfo


def is_plain_greedy(batch: ScheduleBatch) -> bool:
    """Whether the target's raw argmax decides the round: no sampling, grammar, penalty, bias or custom processor."""
    info = batch.sampling_info
    if batch.has_grammar:
        return False
    if info is None:
        return True
    return (
        info.is_all_greedy
        and not info.has_custom_logit_processor
        and info.acc_additive_penalties is None
        and info.acc_scaling_penalties is None
        and info.logit_bias is None
        and getattr(info, "grammar_mask", None) is None
    )


def adjust_logits(logits: torch.Tensor, sampling_info: SamplingBatchInfo, rows: int) -> None:
    """Penalties, bias and custom processors of each request, on all of its rows, in place.

    ``logits`` [b * rows, V]. Penalties count the text before this round only ("relaxed", as in EAGLE's verify).
    """
    if sampling_info.has_custom_logit_processor:
        from sglang.srt.layers.sampler import apply_custom_logit_processor

        apply_custom_logit_processor(logits, sampling_info, num_tokens_in_batch=rows)
    view = logits.view(-1, rows, logits.shape[-1])
    if sampling_info.acc_additive_penalties is not None:
        view.add_(sampling_info.acc_additive_penalties[:, None].to(logits.dtype))
    if sampling_info.acc_scaling_penalties is not None:
        scale = sampling_info.acc_scaling_penalties[:, None].to(logits.dtype)
        view.copy_(torch.where(view < 0, view * scale, view / scale))
    if sampling_info.logit_bias is not None:
        view.add_(sampling_info.logit_bias[:, None].to(logits.dtype))


def choose(logits: torch.Tensor, sampling_info: SamplingBatchInfo | None, positions: torch.Tensor) -> torch.Tensor:
    """Chosen token after each row, int64 [b, rows]. ``positions`` int64 [b, rows]: text position of the row."""
    bs, rows = positions.shape
    greedy = torch.argmax(logits, dim=-1)
    if sampling_info is None or sampling_info.is_all_greedy:
        return greedy.view(bs, rows)

    from sglang.srt.layers.sampler import sampling_from_probs_torch, top_k_top_p_min_p_sampling_from_probs_torch

    def per_row(values: torch.Tensor) -> torch.Tensor:
        return torch.repeat_interleave(values, rows, dim=0, output_size=bs * rows)

    probs = torch.softmax(logits / per_row(sampling_info.temperatures), dim=-1)
    seed = None if sampling_info.sampling_seed is None else per_row(sampling_info.sampling_seed)
    flat_positions = positions.reshape(-1)
    if sampling_info.need_top_k_sampling or sampling_info.need_top_p_sampling or sampling_info.need_min_p_sampling:
        sampled = top_k_top_p_min_p_sampling_from_probs_torch(
            probs,
            per_row(sampling_info.top_ks),
            per_row(sampling_info.top_ps),
            per_row(sampling_info.min_ps),
            sampling_info.need_min_p_sampling,
            seed,
            flat_positions,
        )
    else:
        sampled = sampling_from_probs_torch(probs, sampling_seed=seed, positions=flat_positions)
    # Greedy requests of a mixed batch carry top_k = 1; argmax settles their ties as an all-greedy batch would.
    chosen = torch.where(per_row(sampling_info.top_ks) == 1, greedy, sampled.to(torch.int64))
    return chosen.view(bs, rows)


def agree_across_ranks(chosen: torch.Tensor, sampling_info: SamplingBatchInfo | None) -> torch.Tensor:
    """Rank 0's draws on every tensor-parallel rank: softmax and sorting may differ in the last bit between GPUs."""
    if sampling_info is None or sampling_info.is_all_greedy:
        return chosen
    from sglang.srt.distributed import get_tp_group

    group = get_tp_group()
    if group.world_size > 1:
        chosen = chosen.contiguous()
        group.broadcast(chosen, src=0)
    return chosen
