# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans of sweeps, and the tuned file."""

from __future__ import annotations

import pytest
import yaml
from ansible_collections.inferlab.dflash.plugins.module_utils._tune import plan, tuned

INSTANCE = {
    "name": "main",
    "engine_backend": "transformers",
    "algorithm": "ddtree",
    "budget": 24,
    "port": 8000,
    "gpus": [],
    "args": ["--dtype", "float32"],
}
OPTIONS = {
    "port": 38000,
    "concurrencies": [4, 1, 4],
    "blocks": 2,
    "requests": 8,
    "max_tokens": 64,
    "prompts": "/var/lib/dflash/benchmark/main/prompts",
    "time_limit": 600,
}


def configurations(algorithms=("none", "dflash", "ddtree"), budgets=(32, 16, 16), current=None):
    return plan.configurations(algorithms, budgets, INSTANCE if current is None else current)


def build(instance=None, chosen=None, drafter="/m/drafter", **changes):
    return plan.build(
        INSTANCE if instance is None else instance,
        "/m/target",
        drafter,
        chosen or configurations(),
        **{**OPTIONS, **changes},
    )


def test_the_current_configuration_is_always_measured_and_order_is_from_the_simplest():
    assert [c["key"] for c in configurations()] == ["none", "dflash", "ddtree-16", "ddtree-24", "ddtree-32"]
    assert [c["key"] for c in configurations(("none",), ())] == ["none", "ddtree-24"]
    current = {"algorithm": "dflash"}
    assert [c["key"] for c in configurations(("dflash", "none"), (), current)] == ["none", "dflash"]


@pytest.mark.parametrize(
    ("algorithms", "budgets", "reason"),
    [
        (("eagle",), (16,), "'eagle' is not known; use none, dflash, ddtree"),
        (("ddtree",), (), "no budget is named"),
        (("ddtree",), (0,), "0 is no number of tree nodes"),
        (("ddtree",), ("many",), "'many' is no number of tree nodes"),
    ],
)
def test_senseless_wishes_are_refused(algorithms, budgets, reason):
    with pytest.raises(plan.PlanError, match=reason):
        configurations(algorithms, budgets)


def test_plan_has_one_command_a_configuration_on_the_loopback_address():
    made = build()
    assert made["concurrencies"] == [1, 4] and made["url"] == "http://127.0.0.1:38000" and made["model"] == "main"
    commands = {c["key"]: c["argv"] for c in made["configurations"]}
    assert "--drafter" not in commands["none"]
    tree = commands["ddtree-32"]
    assert tree[tree.index("--budget") + 1] == "32"
    for command in commands.values():
        assert command[0] == "/var/lib/dflash/instances/main/release/venv/bin/python"
        assert command[command.index("--host") + 1] == "127.0.0.1"
        assert command[command.index("--port") + 1] == "38000"
        assert command[-2:] == ["--dtype", "float32"]
    assert made["server"]["unit"] == "dflash-bench-main"


def test_sglang_gets_its_own_words():
    made = build({**INSTANCE, "engine_backend": "sglang", "args": None})
    tree = next(c["argv"] for c in made["configurations"] if c["key"] == "ddtree-16")
    assert tree[tree.index("--speculative-ddtree-budget") + 1] == "16"


def test_a_run_that_is_given_more_time_is_the_same_run_and_another_seed_is_not():
    assert build()["id"] == build(time_limit=900)["id"] != build(seed=2)["id"]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"port": 8000}, "8000 is the instance's own"),
        ({"requests": 1}, "two halves"),
        ({"blocks": 0}, "blocks: 0"),
        ({"concurrencies": []}, "name at least one"),
        ({"concurrencies": ["x"]}, "concurrencies: 'x'"),
        ({"drafter": None}, "needs a drafter"),
    ],
)
def test_plans_that_cannot_be_run_are_refused(changes, reason):
    with pytest.raises(plan.PlanError, match=reason):
        build(**changes)


def test_visit_names_tell_configuration_and_block():
    names = plan.visit_names(build(chosen=configurations(("none",), ())))
    assert names == ["1/4 none, block 1", "2/4 ddtree-24, block 1", "3/4 ddtree-24, block 2", "4/4 none, block 2"]


VERDICT = {
    "concurrency": 1,
    "reasons": ["ddtree-16 gives +20 % against dflash"],
    "choice": {"configuration": "ddtree-16", "algorithm": "ddtree", "budget": 16},
    "by_concurrency": [
        {"concurrency": 1, "status": "winner", "choice": {"configuration": "ddtree-16"}},
        {"concurrency": 4, "status": "no_gain", "choice": None},
    ],
}


def test_tuned_file_keeps_other_instances_and_says_what_it_rests_on():
    former = {"dflash_tuned": {"other": {"algorithm": "none"}, "main": {"algorithm": "ddtree", "budget": 64}}}
    values = tuned.merged(former, "main", VERDICT["choice"])
    assert values == {"main": {"algorithm": "ddtree", "budget": 16}, "other": {"algorithm": "none"}}
    text = tuned.render(values, tuned.notes("main", VERDICT, "2026-11-30"))
    assert yaml.safe_load(text) == {"dflash_tuned": values}
    assert "# main, 2026-11-30, for 1 request(s) at once: ddtree-16 gives +20 % against dflash." in text
    assert "#   4 at once: no change (no_gain)" in text


def test_plain_decoding_has_no_budget_and_names_are_quoted():
    values = tuned.merged(None, "on", {"algorithm": "none", "budget": None})
    assert yaml.safe_load(tuned.render(values, [])) == {"dflash_tuned": {"on": {"algorithm": "none"}}}
    assert tuned.merged({"dflash_tuned": "nonsense"}, "a", {"algorithm": "none"}) == {"a": {"algorithm": "none"}}
