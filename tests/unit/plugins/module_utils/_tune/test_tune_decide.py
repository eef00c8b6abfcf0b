# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The decision rule: gains, ties, noise, latency bounds, and faults that forbid a winner."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.inferlab.dflash.plugins.module_utils._tune import decide as rule_module
from ansible_collections.inferlab.dflash.plugins.module_utils._tune.decide import Rule, RuleError, confirm, decide
from ansible_collections.inferlab.dflash.tests.unit.plugins.module_utils._tune.tune_rows import rows

FLAT = {"none": 100.0, "dflash": 150.0, "ddtree-16": 180.0, "ddtree-32": 180.0, "ddtree-64": 150.0}


def verdict(speeds=None, current="dflash", rule=None, target=None, blocks=(0, 1), **options):
    return decide(rows(speeds or FLAT, **options), blocks, current, rule or Rule(), target)


@pytest.mark.parametrize("seed", range(6))
def test_the_smaller_of_two_equal_budgets_wins_over_the_chain(seed):
    got = verdict(seed=seed)
    assert got["status"] == "winner"
    assert got["choice"] == {"configuration": "ddtree-16", "algorithm": "ddtree", "budget": 16}
    assert 1.0 < got["gain"]["low"] < got["gain"]["ratio"] < got["gain"]["high"]
    assert got["gain"]["low"] < 1.2 * 1.05 and got["gain"]["high"] > 1.2 * 0.95
    assert [v["concurrency"] for v in got["by_concurrency"]] == [1, 4]


def test_a_clearly_faster_larger_budget_is_taken():
    got = verdict({**FLAT, "ddtree-32": 230.0})
    assert got["choice"]["configuration"] == "ddtree-32"


def test_same_rows_same_verdict():
    assert verdict(seed=3) == verdict(seed=3)


def test_equal_configurations_hardly_ever_give_a_winner():
    speeds = dict.fromkeys(FLAT, 100.0)
    results = [verdict(speeds, visit_sd=0.04, seed=seed, concurrencies=(1,))["status"] for seed in range(12)]
    # At 95 % confidence one in twenty sweeps at most may claim a gain that is not there; 12 tries, upper limit of 3 sigma.
    assert set(results) <= {"no_gain", "winner"} and results.count("winner") <= 2


def test_a_gain_inside_the_noise_is_no_gain_and_says_so():
    got = verdict({"none": 100.0, "dflash": 100.0, "ddtree-16": 108.0}, visit_sd=0.08, seed=4)
    assert got["status"] == "no_gain"
    assert "within the noise" in got["reasons"][0] or "is the fastest already" in got["reasons"][0]


def test_a_gain_below_min_gain_is_no_gain_even_when_it_is_certain():
    speeds = {"none": 100.0, "dflash": 100.0, "ddtree-16": 104.0}
    quiet = {"visit_sd": 0.0005, "request_sd": 0.0005, "prompt_sd": 0.0}
    assert verdict(speeds, rule=Rule(min_gain=0.02), **quiet)["status"] == "winner"
    assert verdict(speeds, rule=Rule(min_gain=0.05), **quiet)["status"] == "no_gain"


def test_plain_decoding_can_win():
    got = verdict({"none": 200.0, "dflash": 150.0, "ddtree-16": 160.0})
    assert got["choice"] == {"configuration": "none", "algorithm": "none", "budget": None}


def test_current_stays_when_it_is_the_fastest():
    got = verdict(current="ddtree-16")
    assert got["status"] == "no_gain" and got["reasons"] == ["ddtree-16 is the fastest already"]


def test_latency_bound_excludes_the_fastest():
    # Tokens of one user come every 1/speed seconds: 5.6 ms at 180, 6.7 ms at 150.
    speeds = {"none": 100.0, "dflash": 150.0, "ddtree-16": 220.0}
    assert verdict(speeds)["choice"]["configuration"] == "ddtree-16"
    got = verdict({**speeds, "none": 400.0}, rule=Rule(latency_metric="p50_tpot", latency_bound_ms=6.0))
    excluded = [c for c in got["by_concurrency"][0]["candidates"] if not c["admissible"]]
    assert [c["configuration"] for c in excluded] == ["dflash"]
    assert "above the bound of 6 ms" in excluded[0]["why_not"]


def test_inadmissible_current_is_replaced_even_without_a_gain():
    got = verdict(
        {"none": 200.0, "dflash": 150.0, "ddtree-16": 200.0},
        rule=Rule(latency_metric="p50_tpot", latency_bound_ms=5.9),
        prompt_sd=0.0,
    )
    assert got["status"] == "winner" and got["choice"]["configuration"] == "none"


def test_nothing_admissible_is_no_winner():
    got = verdict(rule=Rule(latency_bound_ms=0.1))
    assert (got["status"], got["reasons"]) == ("no_winner", ["no configuration is admissible"])


def test_target_concurrency_selects_the_verdict():
    got = verdict(target=4)
    assert got["concurrency"] == 4
    with pytest.raises(RuleError, match="concurrency 8 was not measured"):
        verdict(target=8)


def test_a_budget_that_did_not_start_is_out_but_the_rest_is_judged():
    got = verdict(start_failed={"ddtree-64": "Traceback\nbudget 64 does not fit, the largest that does is 48"})
    assert got["status"] == "winner"
    out = next(c for c in got["by_concurrency"][0]["candidates"] if c["configuration"] == "ddtree-64")
    assert not out["admissible"] and out["why_not"].endswith("the largest that does is 48")


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        ({"slower": 0.03}, "drift"),
        ({"errors": {"dflash": 2}}, "errors"),
        ({"simulated": ["ddtree-16"]}, "simulated_acceptance"),
        ({"foreign": {"none": 3}}, "foreign_traffic"),
    ],
)
def test_planted_faults_forbid_a_winner(fault, code):
    got = verdict(**fault)
    assert got["status"] == "no_winner" and got["choice"] is None
    assert code in {f["code"] for f in got["faults"]}
    assert any(reason.startswith(f"{code}: ") for reason in got["reasons"])
    assert all(v["status"] == "no_winner" for v in got["by_concurrency"])


def test_one_block_is_not_enough():
    got = verdict(blocks=(0,))
    assert got["status"] == "no_winner" and got["faults"][0]["code"] == "incomplete"


def test_drift_over_blocks_cancels_for_the_comparison():
    # 5 % slower a block, four blocks: below what counts as drift, and not a hair of it in the ratio.
    got = verdict(blocks=(0, 1, 2, 3), block_trend=0.05)
    assert got["status"] == "winner" and got["gain"]["ratio"] == pytest.approx(1.2, rel=0.08)


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        (Rule(latency_metric="p42_tpot"), "p42_tpot"),
        (Rule(latency_metric="p95_vibes"), "p95_vibes"),
        (Rule(confidence=1.0), "confidence 1.0"),
        (Rule(min_gain=-0.1), "min_gain -0.1"),
    ],
)
def test_senseless_options_are_refused(rule, reason):
    with pytest.raises(RuleError, match=reason):
        verdict(rule=rule)


def test_unmeasured_current_is_refused():
    with pytest.raises(RuleError, match="'ddtree-99' was not measured; measured are none, dflash, ddtree-16"):
        verdict(current="ddtree-99")


def second_sweep(speeds, **options):
    first = verdict()
    return confirm(rows(speeds, **options), range(options.get("blocks", 2)), first, Rule())


def test_confirmation_needs_the_gain_again():
    got = second_sweep({"dflash": 150.0, "ddtree-16": 180.0}, seed=9)
    assert got["confirmed"] and got["gain"]["ratio"] == pytest.approx(1.2, rel=0.06)
    got = second_sweep({"dflash": 150.0, "ddtree-16": 150.0}, seed=9)
    assert not got["confirmed"] and "measured again" in got["reasons"][0]


def test_confirmation_fails_on_a_fault_and_on_the_latency_bound():
    speeds = {"dflash": 150.0, "ddtree-16": 180.0}
    assert second_sweep(speeds, errors={"ddtree-16": 1})["reasons"][0].startswith("errors: ")
    assert not second_sweep(speeds, simulated=["ddtree-16"])["confirmed"]
    bounded = confirm(rows(speeds), (0, 1), verdict(), Rule(latency_bound_ms=1.0))
    assert not bounded["confirmed"]
    assert not confirm(rows({"dflash": 150.0}), (0, 1), verdict(), Rule())["confirmed"]


def test_a_choice_without_a_claimed_gain_is_confirmed_by_being_admissible():
    first = verdict(
        {"none": 200.0, "dflash": 150.0}, rule=Rule(latency_bound_ms=5.9, latency_metric="p50_tpot"), prompt_sd=0.0
    )
    first["gain"] = None
    again = rows({"none": 150.0, "dflash": 150.0})
    assert confirm(again, (0, 1), first, Rule())["confirmed"]


def test_module_has_no_io():
    source = Path(rule_module.__file__).read_text()
    assert "open(" not in source and "import os" not in source
