# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""ansible-runner as a controller uses it: answers of a form, artifacts, the facts cache, two jobs on one host, a cancelled job.

Expects a deployed host (conftest.py). These jobs take minutes and run with what is long; test_deploy.py has some of its deployments
go through ansible-runner too.
"""

from __future__ import annotations

import json
import os
import signal
import time

import pytest
from conftest import HOST, JOB, Job

pytestmark = pytest.mark.skipif("LAB_LONG" not in os.environ, reason="runs with what is long")

LOCK = "/run/dflash/plan.lock"


def lock_record(lab) -> dict:
    text = lab.host("cat", LOCK, check=False)
    return json.loads(text) if text.startswith("{") else {}


def wait_for_lock(lab, job: Job) -> None:
    end = time.monotonic() + 60
    while not lock_record(lab):
        assert job.process.poll() is None and time.monotonic() < end, job.output
        time.sleep(0.1)


def test_a_lock_that_was_left_behind_is_explained_and_the_form_s_answer_breaks_it(lab, start):
    left = {"controller": "pod-7/", "namespace": "pid:[1]", "user": "runner", "pid": 12, "started": "7", "job": "40"}
    lab.host("sh", "-c", f"mkdir -p /run/dflash && echo '{json.dumps(left)}' > {LOCK}")
    refused = start("deploy_dflash.yml").wait()
    assert refused.ended == (2, "failed")
    assert "runner on pod-7 (pid 12, job 40)" in refused.output and "dflash_break_lock" in refused.output
    verdict = refused.handed_on["dflash_verdicts"][HOST][0]
    assert verdict["code"] is None and "another run is at work" in verdict["message"]
    assert refused.handed_on["dflash_before"] == {HOST: {}}, "nothing was touched, so there is nothing to roll back"

    # The failure branch of a workflow, which gets what the job before handed on.
    serving = lab.pid()
    back = start("playbooks/rollback.yml", **refused.handed_on, dflash_break_lock="true").wait()
    assert back.ended == (0, "successful"), back.output
    assert "took over the lock" in back.output and "nothing to undo" in back.output
    assert lock_record(lab) == {} and lab.pid() == serving and lab.serves()


def test_two_jobs_on_one_host_exclude_each_other_and_a_cancelled_one_is_repaired_by_the_next(lab, start):
    cancelled = start("deploy_dflash.yml", dflash_budget=12)
    wait_for_lock(lab, cancelled)
    assert lock_record(lab)["job"] == JOB
    second = start("playbooks/stop.yml").wait()
    assert second.ended == (2, "failed")
    assert f"job {JOB}" in second.output and lab.serves()

    cancelled.process.send_signal(signal.SIGTERM)
    assert cancelled.wait().ended == (254, "canceled")
    assert lock_record(lab)["job"] == JOB

    # Words and text, as a form gives them, and what an earlier job of the workflow handed on.
    answers = {"dflash_budget": "16", "dflash_accept_degraded": "false", "dflash_break_lock": "false"}
    repaired = start("deploy_dflash.yml", **answers, dflash_result={HOST: {"state": "failed"}}).wait()
    assert repaired.ended == (0, "successful"), repaired.output
    assert "took over the lock of a run that ended" in repaired.output
    assert lab.serves() and lock_record(lab) == {}
    assert repaired.handed_on["dflash_result"][HOST]["state"] == "serving"
    assert repaired.handed_on["dflash_verdicts"] == {HOST: []}

    # The facts cache holds plain JSON that stays small enough for a controller's database.
    [cached] = (repaired.artifacts / "fact_cache").glob(f"*{HOST}")  # ansible-core puts the version of its format first
    facts = json.loads(cached.read_text())
    facts = json.loads(facts["__payload__"]) if "__payload__" in facts else facts
    assert facts["gpu"]["driver"]["state"] == "no_gpu"
    assert cached.stat().st_size < 65536


def test_events_and_artifacts_name_the_fault(lab, start):
    unit = "[Service]\nType=exec\nExecStart=/opt/no/such/engine\n"
    lab.host("sh", "-c", f"printf '{unit}' > /run/systemd/system/broken.service && systemctl daemon-reload")
    lab.host("systemctl", "start", "broken.service", check=False)
    try:
        job = start("playbooks/diagnose.yml", dflash_diagnose_units=["broken.service"]).wait()
    finally:
        lab.host("sh", "-c", "rm /run/systemd/system/broken.service; systemctl daemon-reload; systemctl reset-failed")
    assert job.ended == (0, "successful"), job.output
    verdict = job.handed_on["dflash_verdicts"][HOST][0]
    assert (verdict["about"], verdict["code"]) == ("broken.service", "exec_missing")
    assert any("/opt/no/such/engine" in line for line in verdict["evidence"]) and verdict["remedy"]
    assert job.handed_on["dflash_result"] == {HOST: {"state": "failed", "code": "exec_missing"}}
    results = [event["res"] for event in job.events("runner_item_on_ok")]
    assert [result["diagnosis"]["code"] for result in results if "diagnosis" in result] == ["exec_missing"]
