# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import itertools

import pytest
from ansible_collections.inferlab.dflash.plugins.module_utils._instance import generation

WANTED = {"id": "aaa", "unit": "u", "environment": "e", "release": "/r/1", "record": {}, "enabled": True}
SETTLED = {
    "unit": "u",
    "unit_mode": 0o644,
    "environment": "e",
    "environment_mode": 0o600,
    "link": "/r/1",
    "directories_right": True,
    "exists": True,
    "generation_complete": True,
    "active": "aaa",
    "api_key_matches": True,
    "api_key_in_use": True,
    "active_state": "active",
    "enabled": True,
    "need_daemon_reload": False,
}
BLANK = {
    **SETTLED,
    "unit": None,
    "unit_mode": None,
    "environment": None,
    "environment_mode": None,
    "link": None,
    "directories_right": False,
    "exists": False,
    "generation_complete": False,
    "active": None,
    "active_state": "inactive",
    "enabled": False,
}


def test_settled_host_needs_nothing():
    assert generation.plan_start(SETTLED, WANTED) == []


def test_blank_host_takes_every_step_in_order():
    assert generation.plan_start(BLANK, WANTED) == [
        action for action in generation.ORDER if action != "install_api_key"
    ]


@pytest.mark.parametrize(
    ("drift", "actions"),
    [
        ({"unit": "edited"}, ["install_unit", "daemon_reload", "restart", "record_active"]),
        ({"unit": None, "unit_mode": None}, ["install_unit", "daemon_reload", "restart", "record_active"]),
        ({"unit_mode": 0o666}, ["install_unit"]),
        ({"environment_mode": 0o644}, ["install_environment", "restart", "record_active"]),
        ({"environment": "edited"}, ["install_environment", "restart", "record_active"]),
        ({"directories_right": False}, ["make_directories"]),
        ({"link": "/r/0"}, ["move_link", "restart", "record_active"]),
        ({"link": None}, ["move_link", "restart", "record_active"]),
        ({"need_daemon_reload": True}, ["daemon_reload", "restart", "record_active"]),
        ({"enabled": False}, ["enable"]),
        ({"active_state": "failed"}, ["restart", "record_active"]),
        ({"active_state": "inactive"}, ["restart", "record_active"]),
        ({"active_state": "activating"}, []),
        ({"active": "bbb"}, ["restart", "record_active"]),
        ({"active": None}, ["restart", "record_active"]),
        ({"api_key_matches": False}, ["install_api_key"]),
        ({"api_key_in_use": False}, ["restart", "record_active"]),
    ],
)
def test_each_drift_is_mended_by_exactly_its_steps(drift, actions):
    assert generation.plan_start({**SETTLED, **drift}, WANTED) == actions


def test_killed_after_any_step_the_next_run_completes():
    """Simulates the steps on a model of the host and cuts them after each one: the next plan always ends in the settled state."""
    effects = {
        "verify_unit": {},
        "make_directories": {"directories_right": True},
        "write_generation": {"generation_complete": True},
        "install_environment": {"environment": "e", "environment_mode": 0o600},
        "install_api_key": {"api_key_matches": True},
        "move_link": {"link": "/r/1"},
        "install_unit": {"unit": "u", "unit_mode": 0o644, "need_daemon_reload": True},
        "daemon_reload": {"need_daemon_reload": False},
        "enable": {"enabled": True},
        "restart": {"active_state": "active"},
        "record_active": {"active": "aaa", "exists": True, "api_key_in_use": True},
    }
    old = {
        **SETTLED,
        "unit": "old",
        "environment": "old",
        "link": "/r/0",
        "active": "old",
        "generation_complete": False,
    }
    for begin, cut in itertools.product((BLANK, old), range(len(generation.ORDER) + 1)):
        state = dict(begin)
        for action in generation.plan_start(state, WANTED)[:cut]:
            state.update(effects[action])
        for action in generation.plan_start(state, WANTED):
            state.update(effects[action])
        assert generation.plan_start(state, WANTED) == [], (begin["unit"], cut)
        assert {key: state[key] for key in ("unit", "environment", "link", "active")} == {
            "unit": "u",
            "environment": "e",
            "link": "/r/1",
            "active": "aaa",
        }


def test_stop_and_absent():
    assert generation.plan_stop(SETTLED) == ["stop", "disable"]
    assert generation.plan_stop({**SETTLED, "active_state": "inactive", "enabled": False}) == []
    assert generation.plan_absent(SETTLED) == ["stop", "disable", "remove_unit", "daemon_reload", "remove_files"]
    assert generation.plan_absent({**BLANK, "active_state": None}) == []


def test_rollback_goes_to_the_newest_other_ready_generation_still_there():
    history = [
        {"instance": "main", "event": "ready", "generation": "g1"},
        {"instance": "main", "event": "ready", "generation": "g2"},
        {"instance": "other", "event": "ready", "generation": "x"},
        {"instance": "main", "event": "failed", "generation": "g3"},
        {"instance": "main", "event": "ready", "generation": "g4"},
    ]
    assert generation.previous_ready(history, "main", "g4", {"g1", "g2", "g3", "g4"}) == "g2"
    assert generation.previous_ready(history, "main", "g4", {"g1", "g3", "g4"}) == "g1"
    assert generation.previous_ready(history, "main", "g4", {"g3", "g4"}) is None
    assert generation.previous_ready([], "main", None, {"g1"}) is None


def test_superseded_keeps_the_most_recently_used():
    history = [{"instance": "main", "event": "ready", "generation": name} for name in ("g1", "g2", "g3", "g1")]
    assert generation.superseded(history, "main", ["g1", "g2", "g3", "never"], 2) == ["never", "g2"]
    assert generation.superseded(history, "main", ["g1"], 2) == []


def test_identity_changes_with_each_part():
    base = generation.generation_id("u", "e", "r", {"a": 1})
    others = [
        generation.generation_id(*args)
        for args in (
            ("v", "e", "r", {"a": 1}),
            ("u", "f", "r", {"a": 1}),
            ("u", "e", "s", {"a": 1}),
            ("u", "e", "r", {"a": 2}),
        )
    ]
    assert len({base, *others}) == 5
    assert generation.generation_id("u", "e", "r", {"a": 1}) == base


def happened(*entries):
    """History of instance main from (event, generation) pairs, with another instance's line between any two."""
    profiles = {"wish": "as wished", "old": "as wished"}
    lines = [
        {
            "instance": "main",
            "event": event,
            "generation": which,
            "code": "c",
            "time": "t",
            "profile": profiles.get(which, "low"),
        }
        for event, which in entries
    ]
    return [line for entry in lines for line in (entry, {**entry, "instance": "other", "event": "failed"})]


@pytest.mark.parametrize(
    ("entries", "known"),
    [
        ([("failed", "wish"), ("ready", "low")], True),
        ([("ready", "old"), ("failed", "wish"), ("failed", "middle"), ("ready", "low")], True),
        ([("failed", "middle"), ("ready", "low")], False),
        ([("failed", "wish"), ("ready", "old"), ("ready", "low")], False),
        ([("failed", "wish"), ("ready", "low"), ("remedy", None)], False),
        ([("failed", "wish"), ("remedy", None), ("ready", "low")], False),
        ([("failed", "wish"), ("ready", "low"), ("rolled_back", "low")], False),
        ([("failed", "wish"), ("ready", "other")], False),
        ([("failed", "wish")], False),
        ([], False),
    ],
)
def test_a_failure_is_known_while_what_replaced_it_serves_and_nothing_happened_since(entries, known):
    found = generation.known_failure(happened(*entries), "main", "wish", "low")
    assert found == ({"code": "c", "cause": None, "time": "t"} if known else None)


def test_what_a_failed_deployment_went_back_to_is_no_answer_to_it():
    history = happened(("ready", "old"), ("failed", "wish"), ("ready", "old"))
    assert generation.known_failure(history, "main", "wish", "old") is None
