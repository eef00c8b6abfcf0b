# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.inferlab.dflash.plugins.filter import deploy, diagnosis, instance_outcome

WISHES = [{"name": "main", "algorithm": "ddtree", "budget": 16}, {"name": "other", "algorithm": "none", "budget": None}]


def test_tuned_values_lie_over_their_instance_only():
    tuned = deploy.overlay_tuned(WISHES, {"main": {"algorithm": "ddtree", "budget": 32}, "gone": {"budget": 8}})
    assert [wish["budget"] for wish in tuned] == [32, None]
    assert deploy.overlay_tuned(WISHES, None) == WISHES


def test_tuned_values_of_other_kinds_are_refused():
    with pytest.raises(AnsibleFilterError, match="unknown keys: port"):
        deploy.overlay_tuned(WISHES, {"main": {"port": 1}})


def test_models_of_a_plan_are_listed_once():
    plan = [{"model": "/a", "drafter": "/d"}, {"model": "/a", "drafter": None}, {"model": "/b", "drafter": ""}]
    assert deploy.plan_models(plan) == ["/a", "/d", "/b"]


def test_failures_of_provisioning_are_diagnosed():
    text = "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 4242 (unattended-upgr)"
    failure = deploy.deploy_failure({"msg": text}, {"name": "Install"})
    assert (failure["task"], failure["code"]) == ("Install", "apt_lock_held")
    assert deploy.deploy_failure({"msg": "dflash_budget 'many' is not a number"}, None)["code"] is None


def test_peers_are_the_other_hosts_that_have_facts():
    everyone = {
        "a": {"ansible_facts": {"gpu": {"devices": []}}, "dflash_wishes": WISHES},
        "b": {"ansible_facts": {"gpu": {"x": 1}}},
        "c": {},
    }
    assert deploy.peer_gpus(everyone, ["a", "b", "c", "d"], "b") == {"a": {"devices": []}}
    assert deploy.peer_plans(everyone, ["a", "b", "c"], "b") == {
        "a": {"gpu": {"devices": []}, "wishes": WISHES, "own": []}
    }


def test_outcome_of_a_start():
    started = {"generation": "g2", "previous": "g1"}
    failed = {"ready": False, "msg": "dead", "diagnosis": {"code": "gpu_oom"}, "journal_tail": ["x"]}
    outcome = instance_outcome.instance_outcome(failed, started, {"name": "main", "profile": "as wished"})
    assert (outcome["ready"], outcome["diagnosis"], outcome["message"], outcome["generation"]) == (
        False,
        {"code": "gpu_oom"},
        "dead",
        "g2",
    )
    assert (
        instance_outcome.instance_outcome({"skipped": True}, started, {"name": "main"}, check_mode=True)["ready"]
        is True
    )


def test_a_known_failure_is_an_attempt_that_was_not_made():
    known = {"code": "nccl_unhandled_system_error", "cause": None, "time": "2026-11-30T14:09:36Z"}
    started = {"generation": "aaa", "previous": "bbb", "known_failure": known}
    outcome = instance_outcome.instance_outcome(
        {"skipped": True}, started, {"name": "main", "profile": "as wished"}, check_mode=True
    )
    assert outcome["ready"] is False and "dflash_retry_failed=true" in outcome["message"]
    kept = deploy.summary.attempt(outcome)
    assert (kept["code"], kept["diagnosis"]["known"]) == ("nccl_unhandled_system_error", True)


def test_verdicts_name_every_failed_thing_and_what_stopped_a_run():
    kept = {"code": "gpu_oom", "cause": None, "meaning": "m", "evidence": ["e"], "remedy": "r", "must_not": []}
    found = {**kept, "parsed": {}}
    entry = {"instances": [{"name": "main", "message": "dead", "diagnosis": found}, {"name": "ok", "diagnosis": None}]}
    assert diagnosis.verdicts(entry) == [{"about": "main", "message": "dead", **kept}]
    units = diagnosis.diagnosis_summary([{"item": {"unit": "a.service"}, "diagnosis": found}])
    assert [(verdict["about"], verdict["code"]) for verdict in diagnosis.verdicts(units)] == [("a.service", "gpu_oom")]
    assert units["result"] == {"state": "failed", "code": "gpu_oom"}
    stopped = diagnosis.verdicts({"stopped_by": {"task": "Plan", "message": "no room", "diagnosis": None}})
    assert [(v["about"], v["code"], v["message"]) for v in stopped] == [("Plan", None, "no room")]


HERE = [{"name": "main", "generation": "g2"}, {"name": "other", "generation": "g1"}]


def test_a_rollback_takes_what_is_asked_for_or_all():
    assert deploy.rollback_targets(HERE) == ["main", "other"]
    assert deploy.rollback_targets(HERE, "other") == ["other"]
    with pytest.raises(AnsibleFilterError, match=r"no instance gone; it has: main, other"):
        deploy.rollback_targets(HERE, "gone,main")


def test_a_rollback_after_a_deployment_undoes_only_what_that_one_moved():
    assert deploy.rollback_targets(HERE, "", {"main": "g1", "other": "g1"}) == ["main"]
    assert deploy.rollback_targets(HERE, "", {"main": "g2", "other": "g1"}) == []
    assert deploy.rollback_targets(HERE, "", {}) == [], "a first deployment has nothing to go back to"
