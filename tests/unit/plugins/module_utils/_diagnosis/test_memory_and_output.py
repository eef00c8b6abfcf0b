# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json

import pytest
from ansible_collections.inferlab.dflash.plugins.filter.diagnosis import diagnosis_summary, diagnosis_targets
from ansible_collections.inferlab.dflash.plugins.module_utils._diagnosis import (
    catalogue,
    diagnose,
    examine,
    history,
    provisioning,
    readiness,
    render,
)
from ansible_collections.inferlab.dflash.plugins.module_utils._diagnosis.redact import MASK, redact

UNIT = "dflash-chat.service"
VERDICT = {
    "code": "shm_too_small",
    "cause": None,
    "secondary_codes": ["nccl_unhandled_system_error"],
    "remedy": "enlarge",
}


def remedy(code="shm_too_small", **more):
    return {"instance": "chat", "event": "remedy", "code": code, "remedy": "size=8G", **more}


def test_the_same_code_after_its_remedy_is_falsified():
    result = history.reconsider(
        VERDICT, [{"instance": "chat", "event": "failed", "code": "shm_too_small"}, remedy()], UNIT
    )
    assert result["falsified"] and result["tried"] == ["size=8G"]
    assert result["remedy"].startswith(
        "Remedy applied, cause not cured (size=8G). Look next at: nccl_unhandled_system_error"
    )
    assert result["next_likely"] == ["nccl_unhandled_system_error", "ulimit_too_low"]


@pytest.mark.parametrize(
    "records",
    [
        [],
        [remedy(code="gpu_oom")],
        [remedy(instance="other")],
        [remedy(), {"instance": "chat", "event": "ready"}],
        [remedy(cause="another")],
    ],
)
def test_nothing_is_falsified_without_its_own_remedy(records):
    result = history.reconsider(VERDICT, records, UNIT)
    assert not result["falsified"] and result["remedy"] == "enlarge"


def test_causes_that_failed_too_come_last():
    result = history.reconsider(VERDICT, [remedy(code="nccl_unhandled_system_error"), remedy()], UNIT)
    assert result["next_likely"] == ["ulimit_too_low", "nccl_unhandled_system_error"]


def test_half_a_line_of_history_is_skipped():
    assert history.parse(json.dumps(remedy()) + '\n{"instance": "ch') == [remedy()]
    assert history.read("/nonexistent/history.jsonl") == []


def test_next_likely_names_known_codes_only():
    for code, following in history.NEXT_LIKELY.items():
        assert {code, *following} <= set(catalogue.CODES)
        assert code not in following


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([("ready", "ddtree")], None),
        ([("failed", "ddtree"), ("ready", "ddtree")], None),
        ([("failed", "ddtree"), ("failed", "dflash"), ("ready", "none")], ("ddtree", "none")),
        ([("failed", "ddtree"), ("ready", "ddtree"), ("ready", "none")], None),
        ([("failed", "ddtree")], None),
    ],
)
def test_degraded(events, expected):
    records = [{"instance": "chat", "event": event, "profile": profile, "code": "gpu_oom"} for event, profile in events]
    found = history.degraded(records, UNIT)
    assert (None if found is None else (found["wanted"], found["profile"])) == expected


def test_block_is_short_and_complete():
    journal = "OSError: [Errno 98] Address already in use: ('0.0.0.0', 30000)\n"
    verdict = examine.judge({"unit_journal": journal, "unit_show": "ActiveState=failed\n"}, UNIT)
    block = verdict["block"]
    assert block[0] == "dflash-chat.service: port_in_use (http)"
    assert any(line.startswith("  | OSError: [Errno 98]") for line in block)
    assert any(line.startswith("  do     ") for line in block) and any(line.startswith("  do not ") for line in block)
    assert all(len(line) <= 112 for line in block)
    assert sum(line.startswith("  | ") for line in block) <= 3
    assert verdict["summary"].startswith("port_in_use (http): OSError: [Errno 98]")


def test_block_says_what_was_tried():
    verdict = history.reconsider({**VERDICT, "evidence": ["x"]}, [remedy()], UNIT)
    assert any("size=8G - remedy applied, cause not cured" in line for line in render.block(verdict))


def waited(**more):
    state = readiness.begin(0.0)
    state.now = 100.0
    for key, value in more.items():
        setattr(state, key, value)
    return state


@pytest.mark.parametrize(
    ("channels", "state", "outcome", "expected"),
    [
        ({"unit_journal": "torch.OutOfMemoryError: CUDA out of memory.\n"}, waited(), "dead", ("gpu_oom", None)),
        ({"unit_journal": "x\n"}, waited(), "dead", ("unknown", "dead")),
        (
            {"unit_journal": "[TP0] Init torch distributed begin.\n"},
            waited(),
            "stalled",
            ("engine_stalled", "nccl_init"),
        ),
        (
            {},
            waited(health_seconds=3.0, failed_generations=2, last_error="timeout"),
            "timeout",
            ("ready_but_not_serving", "hang"),
        ),
        ({}, waited(), "unit_missing", ("unknown", "unit_missing")),
        (
            {
                "unit_journal": "systemd[1]: Stopping x...\nsystemd[1]: Stopped x.\n",
                "unit_show": "ActiveState=inactive\n",
            },
            waited(),
            "dead",
            ("no_fault", "requested_stop"),
        ),
        (
            {},
            waited(generations=[{"ok": True, "acceptance_length": 1.0}] * 3),
            "collapsed",
            ("spec_acceptance_collapsed", None),
        ),
    ],
)
def test_how_a_wait_ends(channels, state, outcome, expected):
    verdict = examine.of_wait(channels, state, outcome, "sentence", UNIT, [])
    assert (verdict["code"], verdict["cause"]) == expected
    assert verdict["evidence"] and verdict["block"]


def test_rescue_blocks_explain_a_failed_task():
    result = {
        "msg": "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 8123 (unattended-upgr)",
        "rc": 100,
    }
    verdict = provisioning.explain(result)
    assert (verdict["code"], verdict["parsed"]["holder_pid"]) == ("apt_lock_held", 8123)
    missing = {"msg": "Could not find the requested service dflash-chat: host"}
    assert provisioning.explain(missing, check_mode=True)["code"] == "check_mode_missing_unit"
    assert provisioning.explain(missing)["code"] == "unknown"
    assert provisioning.explain("all is well")["code"] == "unknown"


@pytest.mark.parametrize(
    ("text", "gone", "kept"),
    [
        ("--api-key s3cretvalue --port 1", "s3cretvalue", "--port 1"),
        ("--api-key=s3cretvalue x", "s3cretvalue", " x"),
        ("ServerArgs(api_key='s3cretvalue', port=1)", "s3cretvalue", "port=1"),
        ('{"admin_api_key": "s3cretvalue", "a": 1}', "s3cretvalue", '"a": 1'),
        ("Authorization: Bearer s3cretvalue.x", "s3cretvalue", "Bearer"),
        ("HF_TOKEN=hf_abcdefghijklmnopqrstuv", "hf_abcdef", "HF_TOKEN"),
        ("http://user:s3cretvalue@proxy:3128/", "s3cretvalue", "proxy:3128"),
        ("GenerateReqInput(text='my private question', rid=1)", "private", "rid=1"),
        ('"prompt": "my private question", "max_tokens": 5', "private", '"max_tokens": 5'),
        ("DB_PASSWORD=s3cretvalue next", "s3cretvalue", "next"),
    ],
)
def test_redact(text, gone, kept):
    result = redact(text)
    assert gone not in result and kept in result


@pytest.mark.parametrize(
    "text", ["api_key=None", "--api-key-file /etc/x/api_key", "token usage: 0.01, #token: 900", "CUDA out of memory"]
)
def test_redact_leaves_the_rest(text):
    assert redact(text) == text


def test_redact_known_values():
    assert redact("the key is xyzzy-1", ["xyzzy-1"]) == f"the key is {MASK}"


def test_evidence_and_values_carry_no_secret():
    journal = "ValueError: --api-key s3cretvalue is not supported with --enable-x\n"
    assert "s3cretvalue" not in json.dumps(diagnose({"unit_journal": journal}))


def test_targets():
    here = {"instances": [{"name": "chat", "unit": UNIT, "port": 30000, "record": {}}]}
    own = {"unit": UNIT, "url": "http://127.0.0.1:30000", "api_key_file": "/etc/dflash/chat/api_key"}
    assert diagnosis_targets(here) == [own]
    foreign = {"unit": "sglang.service", "url": None, "api_key_file": None}
    assert diagnosis_targets(here, ["sglang", UNIT]) == [foreign, own]
    assert diagnosis_targets({}) == []


@pytest.mark.parametrize(
    ("codes", "state"),
    [
        ([], "idle"),
        (["no_fault"], "healthy"),
        (["no_fault", "gpu_oom"], "failed"),
        (["unknown", "no_fault"], "unknown"),
    ],
)
def test_summary_of_a_host(codes, state):
    results = [{"item": {"unit": UNIT}, "diagnosis": {"code": code, "block": [code]}} for code in codes]
    found = diagnosis_summary(results)
    assert found["state"] == state
    assert found["lines"] == (codes or ["no unit of ours on this host"])


def test_summary_names_a_lower_profile():
    lower = {"wanted": "ddtree", "profile": "none", "code": "gpu_oom"}
    found = diagnosis_summary([{"item": {"unit": UNIT}, "diagnosis": {"code": "no_fault"}, "degraded": lower}])
    assert found["state"] == "degraded"
    assert "serves as none instead of ddtree, because of gpu_oom" in found["lines"][-1]
