# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""Filters, the inverse of the cumulative distribution, and seeds."""

from __future__ import annotations

import pytest
import torch
from ddtree.sampling import SamplingParams, UniformStream, choose, inverse_cdf, probabilities

LOGITS = torch.log(torch.tensor([[0.1, 0.4, 0.2, 0.3]], dtype=torch.float64))


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        (SamplingParams(temperature=1.0), [0.1, 0.4, 0.2, 0.3]),
        (SamplingParams(temperature=0.5), [0.01 / 0.3, 0.16 / 0.3, 0.04 / 0.3, 0.09 / 0.3]),
        (SamplingParams(temperature=1.0, top_k=2), [0, 4 / 7, 0, 3 / 7]),
        (SamplingParams(temperature=1.0, top_k=99), [0.1, 0.4, 0.2, 0.3]),
        (SamplingParams(temperature=1.0, top_p=0.69), [0, 4 / 7, 0, 3 / 7]),
        (SamplingParams(temperature=1.0, top_p=0.71), [0, 4 / 9, 2 / 9, 3 / 9]),
        (SamplingParams(temperature=1.0, top_p=1e-9), [0, 1, 0, 0]),
        (SamplingParams(temperature=1.0, top_k=3, top_p=0.5), [0, 4 / 7, 0, 3 / 7]),
    ],
)
def test_probabilities(params: SamplingParams, expected: list[float]) -> None:
    torch.testing.assert_close(probabilities(LOGITS, params)[0], torch.tensor(expected, dtype=torch.float64))


def test_inverse_cdf_hits_every_interval_and_no_empty_one() -> None:
    probs = torch.tensor([[0.0, 0.25, 0.0, 0.5, 0.25, 0.0]], dtype=torch.float64).expand(6, -1)
    uniforms = torch.tensor([0.0, 0.2499999, 0.25, 0.7499999, 0.75, 1 - 2**-53], dtype=torch.float64)
    assert inverse_cdf(probs, uniforms).tolist() == [1, 1, 3, 3, 4, 4]


def test_greedy_ignores_the_seed() -> None:
    assert choose(LOGITS, SamplingParams(), UniformStream(None), torch.tensor([0])).tolist() == [1]


def test_numbers_belong_to_places() -> None:
    """The number of a place does not depend on which places were asked for before."""
    forward, backward = UniformStream(7), UniformStream(7)
    late = backward.at(torch.tensor([300]))
    early = torch.cat([forward.at(torch.tensor([index])) for index in range(301)])
    assert early[300] == late[0]
    assert torch.equal(backward.at(torch.arange(301)), early)
    assert not torch.equal(UniformStream(8).at(torch.arange(301)), early)
    assert not torch.equal(UniformStream(None).at(torch.arange(9)), UniformStream(None).at(torch.arange(9)))
    assert early.unique().numel() == 301
