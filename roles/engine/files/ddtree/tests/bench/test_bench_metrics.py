# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""Counters in text, acceptance and traffic out."""

from __future__ import annotations

import pytest
from ddtree.bench import metrics

DDTREE = """
# HELP ddtree_accept_length tokens a verify round
# TYPE ddtree_accept_length histogram
ddtree_accept_length_bucket{{le="1.0",model_name="a \\"b\\""}} {one}
ddtree_accept_length_bucket{{le="2.0",model_name="a \\"b\\""}} {two}
ddtree_accept_length_bucket{{le="+Inf",model_name="a \\"b\\""}} {two}
ddtree_accept_length_sum{{model_name="a"}} {sum}
ddtree_accept_length_count{{model_name="a"}} {two}
ddtree_requests_total {requests}
ddtree_requests_running {running}
"""


def ddtree(one=0, two=0, requests=0, running=0):
    values = {"one": one, "two": two, "sum": one + 2 * (two - one), "requests": requests, "running": running}
    return metrics.parse(DDTREE.format(**values))


def test_acceptance_is_the_difference_of_the_histograms():
    got = metrics.acceptance(ddtree(one=100, two=200), ddtree(one=130, two=270))
    assert got == metrics.Acceptance(pytest.approx(110 / 70), 70, {1: 30, 2: 40}, "histogram")


def test_counters_without_a_histogram():
    before = metrics.parse("ddtree_verify_rounds_total 10\nddtree_accepted_tokens_total 20")
    after = metrics.parse("ddtree_verify_rounds_total 20\nddtree_accepted_tokens_total 52")
    assert metrics.acceptance(before, after) == metrics.Acceptance(3.2, 10, {}, "counters")


def test_sglang_counters_leave_out_the_prefill_tokens_and_sum_over_labels():
    text = (
        'sglang:spec_verify_calls_total{{model_name="m"}} {}\n'
        'sglang:generation_tokens_total{{is_streaming="true"}} {}\n'
        'sglang:generation_tokens_total{{is_streaming="false"}} 7\n'
        'sglang:num_requests_total{{model_name="m"}} {}\n'
    )
    got = metrics.acceptance(metrics.parse(text.format(10, 100, 2)), metrics.parse(text.format(60, 304, 6)))
    assert (got.length, got.rounds, got.source) == (4.0, 50, "sglang_counters")


def test_gauge_is_the_last_resort_and_nothing_is_none():
    assert (
        metrics.acceptance(metrics.parse(""), metrics.parse("sglang:spec_accept_length 2.5")).source == "sglang_gauge"
    )
    assert metrics.acceptance(metrics.parse(""), metrics.parse("up 1")).source == "none"
    assert metrics.acceptance(None, metrics.parse("up 1")).length is None


def test_lines_that_are_not_samples_are_passed_over():
    got = metrics.parse("# x\nname\nbad{ 3\nx 1e3 1712\ny nope\nz NaN\n")
    assert got.values["x"] == 1000.0 and "y" not in got.values


def test_tree_facts_are_means_of_the_interval():
    before = metrics.parse(
        "ddtree_tree_build_seconds_sum 1.0\nddtree_tree_build_seconds_count 10\nddtree_tree_nodes 16"
    )
    after = metrics.parse("ddtree_tree_build_seconds_sum 1.4\nddtree_tree_build_seconds_count 30\nddtree_tree_nodes 16")
    assert metrics.tree_facts(before, after) == {"tree_nodes": 16.0, "build_ms": pytest.approx(20.0)}
    assert metrics.tree_facts(None, after) == metrics.tree_facts(before, before.__class__({})) == {}


def test_foreign_requests():
    assert metrics.foreign_requests(ddtree(requests=5), ddtree(requests=9), ours=4) == 0
    assert metrics.foreign_requests(ddtree(requests=5), ddtree(requests=12), ours=4) == 3
    assert metrics.foreign_requests(metrics.parse("up 1"), metrics.parse("up 1"), 4) is None


def test_busy_names_what_it_saw():
    assert metrics.busy(ddtree(requests=5), ddtree(requests=5)) is None
    assert metrics.busy(ddtree(), ddtree(running=2)) == "2 requests running, 0 waiting"
    assert metrics.busy(ddtree(requests=5), ddtree(requests=8)) == "3 requests arrived while it was watched"
    assert "cannot be ruled out" in metrics.busy(metrics.parse("up 1"), metrics.parse("up 1"))


@pytest.mark.parametrize(
    ("info", "expected"),
    [
        ({}, False),
        ({"simulated_acceptance": True}, True),
        ({"simulated_acceptance": False, "internal_states": [{"simulate_acc_len": -1.0}]}, False),
        ({"internal_states": [{"simulate_acc_len": 3.5}]}, True),
        ({"env": {"SGLANG_SIMULATE_ACC_LEN": "4"}}, True),
        ({"env": {"SGLANG_SIMULATE_ACC_LEN": "none"}}, False),
    ],
)
def test_simulated_acceptance_that_the_server_admits(info, expected):
    assert metrics.simulated(info) is expected
