# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""ansible-runner as a controller uses it: answers of a form, artifacts, the facts cache, two jobs on one host, a cancelled job.

Expects a deployed host (conftest.py), and in ANSIBLE_RUNNER the ansible-runner to use.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from conftest import HOST, ROOT

LOCK = "/run/dflash/plan.lock"
# What a controller knows a job by; a lock names it.
JOB = "41"


class Job:
    """One ansible-runner run, and what it left in its artifacts."""

    def __init__(self, folder: Path, playbook: str, answers: dict) -> None:
        (folder / "env").mkdir(parents=True)
        (folder / "env/extravars").write_text(json.dumps(answers))
        (folder / "env/envvars").write_text(json.dumps({"ANSIBLE_FORCE_COLOR": "0", "JOB_ID": JOB}))
        self.artifacts = folder / "artifacts/job"
        argv = [os.environ["ANSIBLE_RUNNER"], "run", str(folder), "--ident", "job", "--quiet", "--playbook", playbook]
        argv += ["--project-dir", str(ROOT), "--inventory", os.environ["LAB_INVENTORY"], "--limit", HOST]
        self.process = subprocess.Popen(argv, cwd=folder, start_new_session=True)

    def wait(self) -> Job:
        self.process.wait(timeout=600)
        return self

    @property
    def ended(self) -> tuple[int, str]:
        """Exit status of ansible-runner, and the status that it writes down."""
        return self.process.returncode, (self.artifacts / "status").read_text()

    @property
    def output(self) -> str:
        return (self.artifacts / "stdout").read_text()

    def events(self, kind: str) -> list[dict]:
        found = [json.loads(path.read_text()) for path in (self.artifacts / "job_events").glob("*-*.json")]
        return [event["event_data"] for event in found if event["event"] == kind]

    @property
    def handed_on(self) -> dict:
        """What a controller keeps as the job's artifacts and gives to the next job of a workflow."""
        return self.events("playbook_on_stats")[0]["artifact_data"]


@pytest.fixture
def start(tmp_path):
    jobs = []

    def begin(playbook: str, **answers) -> Job:
        jobs.append(Job(tmp_path / str(len(jobs)), playbook, answers))
        return jobs[-1]

    yield begin
    for job in jobs:
        if job.process.poll() is None:
            os.killpg(job.process.pid, signal.SIGKILL)


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
