# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""Order, resumption, limits and faults of a sweep, with real scripted servers."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest
from ddtree.bench import control, sweep
from ddtree.bench.__main__ import main

FAKE = str(Path(__file__).with_name("fake_server.py"))


def plan_for(port, prompt_file, keys=("none", "dflash", "ddtree-16"), **changes):
    configurations = []
    for key in keys:
        algorithm, dummy, budget = key.partition("-")
        argv = [sys.executable, FAKE, "--port", str(port), "--algorithm", algorithm, "--step", "0.001"]
        argv += ["--budget", budget] if budget else []
        configurations.append({"key": key, "algorithm": algorithm, "budget": int(budget or 0) or None, "argv": argv})
    plan = {
        "url": f"http://127.0.0.1:{port}",
        "model": "fake",
        "configurations": configurations,
        "concurrencies": [1, 2],
        "blocks": 2,
        "prompts": [str(prompt_file)],
        "requests": 4,
        "sampling": {"max_tokens": 8},
    }
    return plan | changes


def sweep_once(plan, folder, max_visits=None, log=None):
    server = control.ProcessServer(folder.parent / "server.log", grace=5)
    say = (log if log is not None else []).append
    return asyncio.run(sweep.run(plan, folder, server, None, say, max_visits))


def test_the_warm_up_request_of_a_server_is_nobody_elses(free_port, prompt_file, tmp_path):
    few = {"blocks": 1, "concurrencies": [1], "sampling": {"max_tokens": 4}}
    plan = plan_for(free_port, prompt_file, keys=("none",), **few)
    # Slow enough that the warm-up would fall into the first cell.
    plan["configurations"][0]["argv"] += ["--warm-up", "0.6", "--step", "0.05"]
    assert sweep_once(plan, tmp_path / "run")["stopped"] == "done"
    rows = sweep.collect(plan, tmp_path / "run")["rows"]
    assert [r["foreign_requests"] for r in rows] == [0] * len(rows)


def test_every_second_block_goes_backwards():
    plan = {"configurations": [{"key": k} for k in "abc"], "blocks": 3}
    assert [v.name for v in sweep.visits(plan)] == [
        *("block0-a", "block0-b", "block0-c", "block1-c", "block1-b", "block1-a"),
        *("block2-a", "block2-b", "block2-c"),
    ]


def test_a_visit_goes_forwards_and_backwards_through_its_cells():
    order = sweep.cells([1, 4], ["code", "math"])
    assert order[:4] == [(0, 1, "code"), (0, 1, "math"), (0, 4, "code"), (0, 4, "math")]
    assert [cell[1:] for cell in order[4:]] == [cell[1:] for cell in reversed(order[:4])]


def test_sweep_measures_every_cell_on_fresh_servers(free_port, prompt_file, tmp_path):
    plan, log = plan_for(free_port, prompt_file), []
    result = sweep_once(plan, tmp_path / "run", log=log)
    assert (result["done"], result["total"], result["stopped"]) == (6, 6, "done")
    rows = sweep.collect(plan, tmp_path / "run")["rows"]
    cells = {(r["block"], r["configuration"], r["half"], r["concurrency_wanted"], r["domain"]) for r in rows}
    assert len(rows) == len(cells) == 2 * 3 * 2 * 2 * 2
    assert all(r["completed"] == 2 and r["foreign_requests"] == 0 for r in rows)
    assert {r["server_info"]["algorithm"] for r in rows if r["configuration"] == "ddtree-16"} == {"ddtree"}
    # Paired by prompt: within a cell every configuration saw the same prompts.
    seen = {}
    for row in rows:
        cell = (row["block"], row["half"], row["concurrency_wanted"], row["domain"])
        seen.setdefault(cell, set()).add(tuple(sorted(q["prompt"] for q in row["requests"])))
    assert all(len(sets) == 1 for sets in seen.values())
    assert any("[6/6]" in line for line in log)


def test_interrupted_sweep_goes_on_where_it_was(free_port, prompt_file, tmp_path):
    plan, folder = plan_for(free_port, prompt_file, keys=("none", "dflash")), tmp_path / "run"
    assert sweep_once(plan, folder, max_visits=1)["stopped"] == "visits"
    first = (folder / "block0-none.jsonl").read_bytes()
    # A visit that was cut off leaves a part file at most: it counts as not done.
    (folder / "block0-dflash.jsonl.part").write_text('{"half')
    result = sweep_once(plan, folder)
    assert (result["done"], result["complete_blocks"]) == (4, [0, 1])
    assert (folder / "block0-none.jsonl").read_bytes() == first
    with pytest.raises(sweep.PlanError, match="another plan"):
        sweep_once(plan | {"requests": 5}, folder)
    assert sweep_once(plan | {"time_limit": 1}, folder)["done"] == 4


def test_time_limit_leaves_out_a_whole_block(free_port, prompt_file, tmp_path):
    plan, folder = plan_for(free_port, prompt_file, keys=("none", "dflash")), tmp_path / "run"
    sweep_once(plan, folder, max_visits=2)
    spent = json.loads((folder / "state.json").read_text())["spent"]
    log = []
    result = sweep_once(plan | {"time_limit": spent * 1.5}, folder, log=log)
    assert (result["stopped"], result["complete_blocks"], result["done"]) == ("time", [0], 2)
    assert "block 1 needs about" in log[-1]


def test_a_configuration_that_does_not_start_is_a_row_with_the_reason(free_port, prompt_file, tmp_path):
    plan = plan_for(free_port, prompt_file, keys=("none", "dflash"), blocks=1)
    plan["configurations"][1]["argv"] += ["--fault", "exit"]
    sweep_once(plan, tmp_path / "run")
    rows = sweep.collect(plan, tmp_path / "run")["rows"]
    failed = [r for r in rows if "start_failed" in r]
    assert len(failed) == 1 and "planted: the model does not fit" in failed[0]["start_failed"]


def test_a_taken_port_is_left_alone(fake, free_port, prompt_file, tmp_path):
    url = fake()
    with pytest.raises(control.PortTaken, match="left alone"):
        sweep_once(plan_for(free_port, prompt_file), tmp_path / "run")
    assert control.answers(url)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"blocks": "2"}, "'blocks'"),
        ({"configurations": []}, "distinct key"),
        ({"configurations": [{"key": "a", "argv": ["x"]}] * 2}, "distinct key"),
        ({"configurations": [{"key": "a"}]}, "argv is missing"),
        ({"concurrencies": [0]}, "at least 1"),
        ({"model": None}, "'model'"),
    ],
)
def test_bad_plans_are_refused(change, reason):
    good = {
        "configurations": [{"key": "a", "argv": ["x"]}],
        "concurrencies": [1],
        "blocks": 1,
        "prompts": ["p"],
        "requests": 1,
        "model": "m",
        "url": "http://127.0.0.1:1",
    }
    sweep.check_plan(good)
    with pytest.raises(sweep.PlanError, match=reason):
        sweep.check_plan(good | change)


def test_command_line_sweep_and_collect(free_port, prompt_file, tmp_path, capsys):
    plan = plan_for(free_port, prompt_file.name, keys=("none",), blocks=1, concurrencies=[1])
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    where = ["--plan", str(tmp_path / "plan.json"), "--folder", str(tmp_path / "run")]
    assert main(["sweep", *where]) == 0
    assert json.loads(capsys.readouterr().out)["done"] == 1
    assert main(["collect", *where]) == 0
    assert len(json.loads(capsys.readouterr().out)["rows"]) == 4
    (tmp_path / "plan.json").write_text(json.dumps(plan | {"blocks": 0}))
    assert main(["sweep", *where]) == 2


def test_transient_unit_carries_properties_and_environment(tmp_path):
    calls = tmp_path / "calls"
    stand_in = tmp_path / "systemd-run"
    stand_in.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {calls}\n')
    stand_in.chmod(0o755)
    unit = control.TransientUnit("dflash-bench-main", ["User=dflash"], str(stand_in))
    unit.start(["/x/python", "-m", "ddtree.server"], {"A": "b c"})
    assert calls.read_text().splitlines() == [
        *("--quiet", "--unit=dflash-bench-main", "--property=Type=exec", "--property=User=dflash", "--setenv=A=b c"),
        *("--", "/x/python", "-m", "ddtree.server"),
    ]
