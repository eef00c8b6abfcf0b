# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a report shows, and two reports against each other."""

from __future__ import annotations

import json

import pytest
from ansible_collections.inferlab.dflash.plugins.module_utils._tune import decide, summary
from ansible_collections.inferlab.dflash.tests.unit.plugins.module_utils._tune.tune_rows import rows

SPEEDS = {"none": 100.0, "dflash": 150.0, "ddtree-16": 180.0}


def entry(speeds=None, current="dflash", **options):
    data = rows(speeds or SPEEDS, **options)
    verdict = decide.decide(data, (0, 1), current, decide.Rule(latency_bound_ms=50.0))
    return summary.host_report("main", data, (0, 1), verdict, {"engine": "transformers"})


def report(generated="2026-11-30T12:00:00Z", host="lab1", **options):
    return {"kind": "benchmark", "generated": generated, "hosts": {host: entry(**options)}}


def test_cells_hold_the_figures_and_only_known_ones():
    cells = {(c["configuration"], c["concurrency"]): c for c in entry()["cells"]}
    assert len(cells) == 6
    plain, tree = cells["none", 1], cells["ddtree-16", 1]
    assert plain["accept_length"] is None and plain["histogram"] == {}
    # Without a drafter a token is a round: 10 ms at 100 tokens a second.
    assert plain["round_ms"] == pytest.approx(10.0, rel=0.1)
    assert tree["accept_length"] == pytest.approx(3.0) and tree["round_ms"] == pytest.approx(3 / 180 * 1000, rel=0.1)
    assert set(tree["accept_by_domain"]) == {"code", "math"}
    low, high = tree["interval"]
    assert low < tree["tokens_per_second"] < high
    assert cells["none", 4]["tokens_per_second"] == pytest.approx(4 * plain["tokens_per_second"], rel=0.01)
    json.dumps(cells["none", 4], allow_nan=False)


def test_tables_mark_the_chosen_and_the_current():
    got = entry()
    assert got["state"] == "winner" and [t["title"] for t in got["tables"]] == [
        "1 request at once",
        "4 requests at once",
    ]
    names = [line[0] for line in got["tables"][0]["rows"]]
    assert names == ["plain", "chain (current)", "tree 16 (chosen, tied)"]
    plain = got["tables"][0]["rows"][0]
    assert plain[1].count(" to ") == plain[2].count(" to ") == 1 and plain[2].startswith("-")
    assert len(got["tables"][0]["columns"]) == len(got["tables"][0]["rows"][0])


def test_the_gain_is_split_into_acceptance_and_round_time():
    assert entry()["splits"][0].startswith("tree 16 against chain, 1 at once: acceptance x1.00, round time x0.8")
    assert summary.split({"label": "a", "round_ms": None}, {"round_ms": 1.0}) is None
    cell = {"label": "tree 16", "concurrency": 1, "round_ms": 4.0, "accept_length": 3.0, "build_ms": 0.5}
    text = summary.split(cell, {"label": "chain", "round_ms": 2.0, "accept_length": 2.0})
    assert text == (
        "tree 16 against chain, 1 at once: acceptance x1.50, round time x2.00 (of 4.00 ms, drafting and tree 0.50 ms),"
        " so x0.75 while decoding"
    )


def test_no_winner_is_shown_with_its_reason():
    got = entry(errors={"dflash": 1})
    assert got["state"] == "no winner" and got["choice"] is None
    assert "errors: dflash" in got["facts"]["verdict"]


def test_a_configuration_that_did_not_start_is_in_no_cell():
    got = entry(start_failed={"ddtree-16": "too large"})
    assert {c["configuration"] for c in got["cells"]} == {"none", "dflash"}


def test_tiles():
    labels = {t["label"]: t["value"] for t in summary.tiles({"lab1": entry()})}
    assert labels["winner"] == 1 and labels["chosen"] == "ddtree-16" and labels["gain"].startswith("+")
    two = summary.tiles({"a": entry(), "b": entry(errors={"none": 1})})
    assert {t["label"]: t["value"] for t in two} == {"winner": 1, "no gain": 0, "no winner": 1}


def test_comparison_tells_change_from_noise():
    got = summary.compare_reports(report(), report(speeds={**SPEEDS, "ddtree-16": 260.0}, seed=2))
    lines = {(line["configuration"], line["concurrency"]): line for line in got["hosts"]["lab1"]}
    assert lines["ddtree-16", 1]["changed"] and lines["ddtree-16", 1]["ratio"] == pytest.approx(1.44, rel=0.1)
    assert not lines["none", 1]["changed"]
    text = summary.comparison_lines(got)
    assert len(text) == 2 + 6 and text[1].split()[:2] == ["host", "configuration"]


def test_comparison_names_what_only_one_has_and_refuses_what_it_cannot_compare():
    got = summary.compare_reports(report(), report(speeds={"none": 100.0, "dflash": 150.0}))
    assert ["lab1", "ddtree-16", 1] in got["missing"] and got["added"] == []
    assert summary.comparison_lines(got)[-1].startswith("only in the first report: lab1 ddtree-16")
    with pytest.raises(summary.CompareError, match="in common"):
        summary.compare_reports(report(), report(host="other"))
    with pytest.raises(summary.CompareError, match="second file is no benchmark report"):
        summary.compare_reports(report(), {"kind": "deploy", "hosts": {}})


def test_figure_data_is_complete():
    got = summary.figure_data(entry())
    assert got["choice"] == "ddtree-16" and got["current"] == "dflash" and got["latency_bound_ms"] == 50.0
    assert len(got["cells"]) == 6
