# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.inferlab.dflash.plugins.module_utils._instance import summary

TRIED = {
    "name": "main",
    "port": 8000,
    "engine_backend": "transformers",
    "algorithm": "ddtree",
    "budget": 16,
    "gpus": [],
    "tp_size": 1,
}
SERVING = {"state": "serving", "profile": "as wished", "code": None, "reason": "serves as wished"}
DEGRADED = {
    "state": "degraded",
    "profile": "chain",
    "code": "gpu_oom",
    "reason": "serves with profile chain; as wished it failed with gpu_oom",
}
FAILED = {
    "state": "failed",
    "profile": "as wished",
    "code": "port_in_use",
    "reason": "no lower profile can cure port_in_use",
}
READY = summary.attempt({"ready": True, "profile": "as wished", "elapsed": 3.0})
DEAD = summary.attempt(
    {
        "ready": False,
        "profile": "as wished",
        "diagnosis": {"code": "port_in_use", "cause": "http"},
        "message": "port 8000 is taken",
        "elapsed": 1.0,
    }
)
GENERATION = {
    "tokens_per_second": 123.4,
    "acceptance_length": 2.5,
    "acceptance_histogram": [1, 2],
    "completion": {"prompt": "1, 2,", "text": " 3"},
}


def entry(step, attempts, generation):
    return summary.instance_report(TRIED, step, attempts, generation, "192.0.2.1")


def test_serving_host():
    result = summary.summarise("h", {"dflash_results": [entry(SERVING, [READY], GENERATION)], "address": "192.0.2.1"})
    assert result["ok"] and result["result"] == {"state": "serving", "profile": "as wished", "code": None}
    assert result["lines"] == [
        "h: main serves at http://192.0.2.1:8000 (ddtree)",
        "  123.4 tokens a second, acceptance length 2.50",
        "  '1, 2,' -> ' 3'",
    ]


@pytest.mark.parametrize(("accept", "ok"), [(False, False), (True, True)])
def test_degraded_serves_but_fails_the_play_unless_accepted(accept, ok):
    result = summary.summarise("h", {"dflash_results": [entry(DEGRADED, [DEAD, READY], GENERATION)]}, accept)
    assert (result["ok"], result["state"], result["code"]) == (ok, "degraded", "gpu_oom")
    assert "DEGRADED" in result["lines"][0]


def test_failed_instance_outranks_the_others_and_names_code_and_reason():
    results = [entry(SERVING, [READY], GENERATION), entry(FAILED, [DEAD], {}), entry(DEGRADED, [READY], GENERATION)]
    result = summary.summarise("h", {"dflash_results": results}, True)
    assert (result["ok"], result["state"], result["code"]) == (False, "failed", "port_in_use")
    assert "h: main does not serve [port_in_use]: port 8000 is taken" in result["lines"]
    assert [attempt["ready"] for attempt in result["attempts"]] == [True, False, True]


def test_a_run_that_was_stopped_is_failed_with_task_and_message():
    stopped = {"task": "Compare", "message": "wrong machine", "code": None, "diagnosis": None}
    result = summary.summarise("h", {"dflash_stopped_by": stopped})
    assert not result["ok"] and result["state"] == "failed"
    assert result["lines"] == ["h: stopped at 'Compare': wrong machine"]


def test_check_mode_and_nothing_to_do():
    checked = summary.summarise("h", {"dflash_results": [entry(SERVING, [READY], {})], "checked": True})
    assert checked["lines"] == ["h: main would serve at http://192.0.2.1:8000 (ddtree)"]
    assert summary.summarise("h", {})["lines"] == ["h: no instance is wished for; nothing to do"]


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ({"msg": "plain"}, "plain"),
        (
            {
                "msg": "Task failed: Error while resolving: The filter plugin 'inferlab.dflash.x' failed: budget = 'many': no number."
            },
            "budget = 'many': no number.",
        ),
        (
            {
                "results": [{"failed": True, "msg": "first"}, {"msg": "fine"}, {"failed": True, "msg": "second"}],
                "msg": "all",
            },
            "first; second",
        ),
        ({"results": [], "msg": "empty loop"}, "empty loop"),
        ({"censored": "hidden"}, "the task failed; its message is hidden because it may hold a secret"),
        ({"stderr": "from stderr"}, "from stderr"),
        ({}, "the task failed without a message"),
    ],
)
def test_messages_of_failed_tasks(result, text):
    assert summary.failure_text(result) == text
