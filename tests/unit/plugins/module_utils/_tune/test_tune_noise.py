# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Intervals: they contain the true ratio about as often as promised, and grow with what they must grow with."""

from __future__ import annotations

import pytest
from ansible_collections.inferlab.dflash.plugins.module_utils._tune import noise, samples
from ansible_collections.inferlab.dflash.tests.unit.plugins.module_utils._tune.tune_rows import rows


def at_one(data, key=None):
    return [s for s in samples.samples(data) if s.concurrency == 1 and key in (None, s.config)]


SPEEDS = {"none": 100.0, "dflash": 100.0, "ddtree-16": 120.0, "ddtree-32": 120.0}


def test_visit_noise_recovers_what_was_put_in():
    got = noise.visit_noise(at_one(rows(SPEEDS, visit_sd=0.05, blocks=12)), 1)
    assert got.freedom == 3 * 11
    assert got.sd == pytest.approx(0.05, rel=0.35)


def test_block_effects_are_no_noise():
    quiet = {"visit_sd": 0.0, "request_sd": 0.001, "blocks": 4}
    assert noise.visit_noise(at_one(rows(SPEEDS, block_trend=0.2, **quiet)), 1).sd < 0.01


def test_too_little_for_an_estimate():
    assert noise.visit_noise(at_one(rows(SPEEDS, blocks=1)), 1) is None
    assert noise.visit_noise(at_one(rows({"none": 100.0}, blocks=3)), 1) is None
    assert noise.pool([None, None]) is None is noise.same_visits([None])


def test_pool_weighs_by_degrees_of_freedom():
    got = noise.pool([noise.Noise(0.1, 1), noise.Noise(0.2, 3), None])
    assert got.freedom == 4 and got.sd == pytest.approx(((0.01 + 3 * 0.04) / 4) ** 0.5)


def test_the_same_visits_at_two_concurrencies_add_no_freedom():
    assert noise.same_visits([noise.Noise(0.1, 4), noise.Noise(0.1, 4)]) == noise.Noise(pytest.approx(0.1), 4)


def test_interval_covers_the_true_ratio_about_as_often_as_promised():
    hits, tries = 0, 20
    for seed in range(tries):
        data = rows(SPEEDS, visit_sd=0.04, seed=seed, prompt_sd=0.02)
        items = at_one(data)
        got = noise.compare(at_one(data, "ddtree-16"), at_one(data, "none"), noise.visit_noise(items, 1), 0.9, seed)
        # Latency has 10 ms of first token on top of the decoding, in both.
        hits += got.low <= 1.2 <= got.high
    assert 0.75 * tries <= hits < tries


def test_more_noise_and_fewer_degrees_of_freedom_widen_the_interval():
    data = rows(SPEEDS)
    one, two = at_one(data, "ddtree-16"), at_one(data, "none")
    noises = [noise.Noise(sd, freedom) for sd, freedom in ((0.01, 10), (0.05, 10), (0.05, 1))]
    intervals = [noise.compare(one, two, its, 0.95, 1) for its in noises]
    widths = [interval.high - interval.low for interval in intervals]
    assert widths == sorted(widths)


def test_no_common_prompt_is_no_comparison():
    data = rows(SPEEDS)
    one = [s for s in at_one(data, "none") if s.domain == "code"]
    two = [s for s in at_one(data, "dflash") if s.domain == "math"]
    assert noise.compare(one, two, noise.Noise(0.01, 5), 0.95, 1) is None


def test_percentile_and_labels():
    assert samples.percentile([1.0, 2.0, 3.0, 4.0], 50) == 2.5
    assert samples.percentile([float("nan"), 7.0], 99) == 7.0
    labels = [
        samples.config_of({"configuration": "x", "algorithm": a, "budget": 8}).label
        for a in ("none", "dflash", "ddtree")
    ]
    assert labels == ["plain", "chain", "tree 8"]
