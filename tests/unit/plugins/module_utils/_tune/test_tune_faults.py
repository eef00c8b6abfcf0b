# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each fault is found when planted, and not when the sweep is only noisy."""

from __future__ import annotations

import math

import pytest
from ansible_collections.inferlab.dflash.plugins.module_utils._tune import faults
from ansible_collections.inferlab.dflash.tests.unit.plugins.module_utils._tune.tune_rows import rows

SPEEDS = {"none": 100.0, "dflash": 150.0, "ddtree-16": 180.0}


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("sd", [0.01, 0.05])
def test_a_noisy_but_honest_sweep_has_no_fault(seed, sd):
    assert faults.find(rows(SPEEDS, seed=seed, visit_sd=sd, request_sd=sd), (0, 1)) == []


@pytest.mark.parametrize("slower", [0.01, 0.05])
def test_a_server_that_slows_down_is_found_with_its_figures(slower):
    found = faults.drift(rows(SPEEDS, slower=slower))
    assert {f.figures["configuration"] for f in found} == set(SPEEDS)
    assert all(f.figures["percent"] > 10 and "slower as they run" in f.message for f in found)


def test_a_slow_down_is_found_in_a_sweep_of_few_cells():
    data = [r for r in rows(SPEEDS, concurrencies=(1,), slower=0.05) if r["domain"] == "code"]
    assert {f.figures["configuration"] for f in faults.drift(data)} == set(SPEEDS)
    steady = [r for r in rows(SPEEDS, concurrencies=(1,), request_sd=0.03) if r["domain"] == "code"]
    assert faults.drift(steady) == []


def test_a_server_that_gets_faster_is_drift_too():
    found = faults.drift(rows(SPEEDS, slower=-0.008))
    assert found and all("faster" in f.message for f in found)


def test_a_machine_that_is_not_steady_from_block_to_block():
    found = faults.drift(rows(SPEEDS, block_trend=0.3))
    assert len(found) == 1 and "from the first block to the last" in found[0].message


def test_slope_of_known_lines():
    assert faults.slope([(1.0, 2.0), (2.0, 4.0), (3.0, 6.0)]) == (pytest.approx(2.0), math.inf)
    assert faults.slope([(1.0, 1.0), (2.0, 2.0)]) == (0.0, 0.0)
    value, strength = faults.slope([(1.0, 0.1), (2.0, -0.1), (3.0, 0.05)])
    assert abs(value) < 0.02 and abs(strength) < 1


def test_errors_name_configuration_kind_and_sample():
    found = faults.errors(rows(SPEEDS, errors={"dflash": 2}))
    assert len(found) == 1
    assert found[0].message == "dflash: 4 of 132 requests failed (4 http_500): http_500: planted"


def test_admitted_simulation():
    data = rows(SPEEDS)
    data[-1]["server_info"] = {"simulated_acceptance": True}
    found = faults.simulated(data)
    assert len(found) == 1 and "the server says" in found[0].message


def test_simulation_shows_in_shape_and_text():
    found = faults.simulated(rows(SPEEDS, simulated=["ddtree-16"]))
    assert [f.figures["configuration"] for f in found] == ["ddtree-16"]
    assert len(found[0].figures["signs"]) == 2
    assert "yielded 3 or 4 tokens" in found[0].message and "0% of its outputs" in found[0].message


def test_texts_are_not_compared_when_sampling():
    found = faults.simulated(rows(SPEEDS, simulated=["ddtree-16"], temperature=0.8))
    assert len(found) == 1 and len(found[0].figures["signs"]) == 1


def test_texts_are_not_compared_when_plain_decoding_is_not_steady():
    data = rows(SPEEDS)
    for number, row in enumerate(data):
        for request in row["requests"]:
            request["head"] = f"{number} " + request["head"]
    assert faults.simulated(data) == []


def test_rounds_that_accept_the_whole_block_are_a_good_drafter():
    data = rows({"none": 100.0, "dflash": 150.0})
    for row in data:
        if row["configuration"] == "dflash":
            row["accept"] |= {"histogram": {"15": 5, "16": 30}, "length": 15.86, "rounds": 35}
            row["total_output_tokens"] = 555 + row["completed"]
    assert faults.simulated(data) == []


@pytest.mark.parametrize(("scale", "expected"), [(0.5, True), (1.0, False), (1.05, False), (3.0, True)])
def test_counters_must_explain_the_tokens(scale, expected):
    data = rows(SPEEDS)
    for row in data:
        if row["configuration"] == "dflash":
            row["accept"]["length"] *= scale
    assert bool(faults.simulated(data)) is expected


def test_foreign_traffic_and_too_few_blocks():
    assert "6 requests of others" in faults.foreign(rows(SPEEDS, foreign={"none": 3}))[0].message
    assert [f.code for f in faults.find(rows(SPEEDS), (0,))] == ["incomplete"]
    assert [f.code for f in faults.find([], ())] == ["incomplete"]
