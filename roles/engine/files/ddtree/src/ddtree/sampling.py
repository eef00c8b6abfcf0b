# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""What the target states at each row: its argmax, or one sample of its distribution.

Sampling inverts the cumulative distribution at a uniform number that belongs to the place of the token in the output, not
to a row of the tree: rows of equal depth share it. A walk reads one row per depth, so each emitted token still comes
from one fresh uniform number and the target's conditional, and the output is a function of the seed alone: the same
text for `none`, `dflash` and `ddtree` (up to rounding of the logits). That is a stronger property than having the
same distribution, and much easier to test.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class SamplingParams:
    """How to choose tokens and when to stop.

    `temperature` 0 is greedy. `top_k` 0 and `top_p` 1 keep everything. `stop_token_ids` end the output; the stop token is its
    last token. A `seed` of None takes a random one.
    """

    max_new_tokens: int = 128
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int | None = None
    stop_token_ids: frozenset[int] = frozenset()


class UniformStream:
    """Uniform numbers in [0, 1), addressed by the index of the output token they choose."""

    def __init__(self, seed: int | None) -> None:
        self._generator = torch.Generator()
        if seed is None:
            self._generator.seed()
        else:
            self._generator.manual_seed(seed)
        self._numbers = torch.empty(0, dtype=torch.float64)

    def at(self, indices: torch.Tensor) -> torch.Tensor:
        """Numbers of these output indices (int64, any shape, on the CPU), float64."""
        missing = int(indices.max()) + 1 - len(self._numbers)
        if missing > 0:
            more = torch.rand(max(missing, 64), dtype=torch.float64, generator=self._generator)
            self._numbers = torch.cat([self._numbers, more])
        return self._numbers[indices]


def probabilities(logits: torch.Tensor, params: SamplingParams) -> torch.Tensor:
    """The distribution that is sampled: softmax at the temperature, cut to `top_k`, then to `top_p`, and normalised.

    `logits` `[n, V]`; returns float64 `[n, V]`. `top_p` keeps the smallest set of most probable tokens whose sum reaches it.
    """
    probs = (logits.double() / params.temperature).softmax(dim=-1)
    if 0 < params.top_k < probs.shape[-1]:
        top, ids = probs.topk(params.top_k, dim=-1)
        probs = torch.zeros_like(probs).scatter_(-1, ids, top)
        probs /= probs.sum(dim=-1, keepdim=True)
    if params.top_p < 1.0:
        ordered, ids = probs.sort(dim=-1, descending=True, stable=True)
        before = ordered.cumsum(dim=-1) - ordered
        probs = torch.zeros_like(probs).scatter_(-1, ids, ordered.where(before < params.top_p, 0.0))
        probs /= probs.sum(dim=-1, keepdim=True)
    return probs


def inverse_cdf(probs: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
    """The token at which the cumulative distribution first exceeds each uniform number: `[n, V]`, `[n]` -> int64 `[n]`.

    The sum is float64, so that a vocabulary of some 10^5 tokens loses nothing; a token of probability zero adds no step to
    the cumulative distribution and is never chosen.
    """
    cumulative = probs.cumsum(dim=-1)
    return torch.searchsorted(cumulative, (uniforms * cumulative[:, -1])[:, None], right=True)[:, 0]


def choose(
    logits: torch.Tensor, params: SamplingParams, uniforms: UniformStream, indices: torch.Tensor
) -> torch.Tensor:
    """State one token per row: `logits` `[n, V]`, `indices` int64 `[n]` on the CPU: index in the output of the token that each row
    would add. Returns int64 `[n]` on the device of the logits."""
    if params.temperature == 0.0:
        return logits.argmax(dim=-1)
    numbers = uniforms.at(indices).to(logits.device)
    return inverse_cdf(probabilities(logits, params), numbers)
