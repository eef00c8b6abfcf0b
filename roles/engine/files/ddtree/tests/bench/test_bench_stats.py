# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""Estimates: known values, and intervals that cover the truth as often as they promise."""

from __future__ import annotations

import random

import numpy as np
import pytest
from ddtree.bench import stats


def test_summary_scales_and_names_as_sglang_does():
    result = stats.summary([0.001, 0.002, 0.003, 0.004], "ttft_ms")
    assert result["mean_ttft_ms"] == pytest.approx(2.5)
    assert result["median_ttft_ms"] == pytest.approx(2.5)
    assert result["p99_ttft_ms"] == pytest.approx(3.97)
    assert set(result) == {f"{k}_ttft_ms" for k in ("mean", "median", "std", "p90", "p95", "p99")}
    assert set(stats.summary([], "itl_ms").values()) == {0.0}


def test_weighted_percentile_matches_the_repeated_values():
    values, weights = np.array([1.0, 2.0, 5.0, 9.0]), np.array([[3, 0, 2, 1], [0, 1, 0, 0]])
    for q in (0.1, 0.5, 0.9, 0.99):
        expected = [np.percentile(np.repeat(values, w), q * 100, method="inverted_cdf") for w in weights]
        assert stats.weighted_percentiles(values, weights, q).tolist() == expected


def test_intervals_cover_the_true_mean_and_median_about_as_often_as_promised():
    rng = random.Random(5)
    covered = {"mean_x": 0, "median_x": 0}
    truth = {"mean_x": 1.0, "median_x": np.log(2)}
    rounds = 60
    for seed in range(rounds):
        groups = [[rng.expovariate(1.0)] for dummy in range(60)]
        ci = stats.intervals(groups, "x", seed, scale=1.0)
        for name in covered:
            covered[name] += ci[name][0] <= truth[name] <= ci[name][1]
    # 95 % nominal; 60 tries and skewed data: at least 85 %, and not all of them by being absurdly wide.
    assert all(count >= 0.85 * rounds for count in covered.values()), covered


def test_intervals_draw_requests_not_tokens():
    # Ten requests of a hundred equal tokens each: the uncertainty is that of ten values, not of a thousand.
    groups = [[float(i)] * 100 for i in range(10)]
    low, high = stats.intervals(groups, "x", 1, scale=1.0)["mean_x"]
    assert high - low > 2.5
    assert stats.intervals([[1.0]], "x", 1) == {}


def test_rate_interval_brackets_the_rate():
    low, high = stats.rate_interval([64] * 20, [0.9, 1.1] * 10, 2.0, 1)
    assert low < 128 < high
    assert stats.rate_interval([64], [1.0], 1.0, 1) is None
