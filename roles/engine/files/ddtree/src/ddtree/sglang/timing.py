# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""GPU time of one tree build, for the start-up line, the metric and the benchmark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from ddtree.sglang.sampler import DDTreeDraftSampler


def time_tree_build(sampler: DDTreeDraftSampler, bs: int = 1, repeats: int = 20) -> float:
    """Median seconds of ``sampler.build`` at batch ``bs``, by CUDA events around a captured graph of ten builds.

    Candidates are peaked random marginals; the builder's work does not depend on their values.
    """
    logprob = torch.randn_like(sampler.logprob).mul_(3).log_softmax(-1).sort(-1, descending=True).values
    sampler.logprob.copy_(logprob)
    bonus = torch.zeros((bs,), dtype=torch.int64, device=logprob.device)
    sampler.build(bonus)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for dummy in range(10):
            sampler.build(bonus)
    times = []
    for dummy in range(repeats):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) / 10)
    return sorted(times)[repeats // 2] / 1e3
