# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filters of the benchmark: refusals as filter errors, and what only the filters do."""

from __future__ import annotations

import json

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.inferlab.dflash.plugins.filter import benchmark
from ansible_collections.inferlab.dflash.tests.unit.plugins.module_utils._tune.tune_rows import rows

PLANNED = [
    {"name": "main", "engine_backend": "transformers", "algorithm": "ddtree", "budget": 16, "port": 8000, "gpus": []}
]
DEPLOYED = [{"name": "main", "generation": "abc", "record": {"algorithm": "dflash", "budget": None, "port": 8001}}]
RESULT = {"rows": rows({"none": 100.0, "dflash": 150.0, "ddtree-16": 190.0}), "complete_blocks": [0, 1]}


def place(item, exists=False, isdir=False, writeable=True):
    return {"item": item, "stat": {"exists": exists, "isdir": isdir, "writeable": writeable}}


def places(**changes):
    names = {"file": "h/dflash_tuned.yml", "folder": "h", "yml": "h.yml", "yaml": "h.yaml", "json": "h.json"}
    return [place(item, **changes.get(name, {})) for name, item in names.items()]


def test_the_instance_is_benchmarked_as_it_is_served():
    got = benchmark.benchmark_instance(PLANNED, DEPLOYED)
    assert (got["algorithm"], got["budget"], got["port"]) == ("dflash", 16, 8001)


@pytest.mark.parametrize(
    ("planned", "deployed", "name", "reason"),
    [
        (PLANNED, DEPLOYED, "other", "no instance 'other' in the inventory; there are: main"),
        (PLANNED, [], "main", "not deployed on this host; deploy it first"),
        (PLANNED, [{"name": "main", "generation": None, "record": {}}], "", "deploy it first"),
        ([], [], "", "there are: none"),
    ],
)
def test_an_instance_that_is_not_there_is_refused(planned, deployed, name, reason):
    with pytest.raises(AnsibleFilterError, match=reason):
        benchmark.benchmark_instance(planned, deployed, name)


def test_plan_verdict_confirmation_and_outcome_fit_together():
    options = {
        "port": 38000,
        "concurrencies": [1, 4],
        "blocks": 2,
        "requests": 8,
        "max_tokens": 64,
        "prompts": "/p",
        "time_limit": 9,
    }
    made = benchmark.benchmark_plan({**PLANNED[0], "algorithm": "dflash"}, "/m", "/d", budgets=[16], **options)
    assert made["current"] == "dflash" and len(made["visits"]) == 6
    verdict = benchmark.benchmark_verdict(
        RESULT, made["current"], rule={"latency_bound_ms": None}, target_concurrency=0
    )
    assert verdict["status"] == "winner"
    confirmed = benchmark.benchmark_confirmation(RESULT, verdict)
    written = {**benchmark.tuned_values("", "main", verdict, "2026-11-30"), "written": False, "file": "f"}
    got = benchmark.benchmark_outcome(verdict, "main", written, confirmed)
    assert got["confirmed"] is True and got["tuned_written"] is False and "dflash_tuned:" in got["tuned_text"]
    assert got["by_concurrency"]["1"]["budget"] == 16
    head = benchmark.benchmark_head({"lab1": benchmark.benchmark_report(RESULT, verdict, "main")})
    assert head["tables"] == [] and head["tiles"]


def test_head_compares_with_a_previous_report_that_fits():
    verdict = benchmark.benchmark_verdict(RESULT, "dflash")
    hosts = {"lab1": benchmark.benchmark_report(RESULT, verdict, "main")}
    previous = json.dumps({"kind": "benchmark", "generated": "before", "hosts": hosts})
    assert benchmark.benchmark_head(hosts, previous, "now")["tables"][0]["title"] == "Against the report of before"
    for unusable in ("not json", '{"kind": "survey"}', previous.replace("lab1", "lab9")):
        assert benchmark.benchmark_head(hosts, unusable, "now")["tables"] == []


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda: benchmark.benchmark_plan(PLANNED[0], "/m", "/d", algorithms=["eagle"]), "'eagle' is not known"),
        (lambda: benchmark.benchmark_verdict(RESULT, "ddtree-99"), "'ddtree-99' was not measured"),
        (lambda: benchmark.benchmark_verdict(RESULT, "none", rule={"luck": 1}), "the rule has no luck"),
        (lambda: benchmark.benchmark_comparison({}, {}), "no benchmark report"),
        (lambda: benchmark.tuned_values("a: [", "main", {"choice": {}}), "not YAML, so it is left alone"),
    ],
)
def test_refusals_are_filter_errors(call, reason):
    with pytest.raises(AnsibleFilterError, match=reason):
        call()


@pytest.mark.parametrize(
    ("changes", "root", "reason"),
    [
        ({}, "/inv", ""),
        ({"folder": {"exists": True, "isdir": True}, "yml": {"exists": True}}, "/inv", ""),
        ({}, "", "no directory"),
        ({"yml": {"exists": True}}, "/inv", "would hide it from Ansible"),
        ({"json": {"exists": True}}, "/inv", "h.json holds the host's variables"),
        ({"folder": {"exists": True}}, "/inv", "h is a file"),
        (
            {"file": {"exists": True, "writeable": False}, "folder": {"exists": True, "isdir": True}},
            "/inv",
            "not writable",
        ),
    ],
)
def test_what_keeps_the_tuned_file_from_being_written(changes, root, reason):
    got = benchmark.tuned_obstacle(places(**changes), root)
    assert reason in got and bool(got) is bool(reason)
