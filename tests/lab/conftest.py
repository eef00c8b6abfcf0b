# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the playbooks against systemd test hosts and looks at what they did.

The environment names the hosts: LAB_INVENTORY (inventory file), LAB_LIMIT (group) and LAB_HOST (the host the tests change).
Molecule's scenario deploy sets them; they are not in the default test paths.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HOST = os.environ.get("LAB_HOST", "")
# What a controller knows a job by; a lock names it.
JOB = "41"


class Run:
    """What one ansible-playbook run did: exit status, output and one entry a task result."""

    def __init__(self, status: int, output: str, results: list[dict]) -> None:
        self.status = status
        self.output = output
        self.results = results

    @property
    def changed(self) -> set[tuple[str, str]]:
        return {(entry["host"], entry["task"]) for entry in self.results if entry["changed"]}

    @property
    def failures(self) -> str:
        return "\n".join(entry["msg"] for entry in self.results if entry["failed"])

    def changed_on(self, host: str) -> set[str]:
        # The report is written on the control node for every run that has news; it is no change of the host.
        return {task for name, task in self.changed if name == host and not task.startswith("inferlab.dflash.report")}


class Lab:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.count = 0

    def command(self, playbook: str, *options: str) -> tuple[list[str], dict[str, str], Path]:
        self.count += 1
        results = self.folder / f"results-{self.count}.jsonl"
        results.touch()
        env = {
            **os.environ,
            "ANSIBLE_CALLBACK_PLUGINS": str(ROOT / "tests/lab/callback_plugins"),
            "ANSIBLE_CALLBACKS_ENABLED": "task_results",
            "ANSIBLE_FORCE_COLOR": "0",
            "TASK_RESULTS": str(results),
        }
        binary = str(Path(sys.executable).parent / "ansible-playbook")
        argv = [
            binary,
            f"inferlab.dflash.{playbook}",
            "-i",
            os.environ["LAB_INVENTORY"],
            "--limit",
            os.environ["LAB_LIMIT"],
            *options,
        ]
        return argv, env, results

    def run(self, playbook: str = "deploy_dflash", *options: str) -> Run:
        argv, env, results = self.command(playbook, *options)
        done = subprocess.run(argv, env=env, cwd=self.folder, capture_output=True, text=True, timeout=600, check=False)
        entries = [json.loads(line) for line in results.read_text().splitlines()]
        run = Run(done.returncode, done.stdout + done.stderr, entries)
        (self.folder / f"output-{self.count}.txt").write_text(run.output)
        return run

    def kill_after(self, task: str, *options: str) -> list[dict]:
        """Start a deploy and kill the whole process group with SIGKILL once a task of that name has a result."""
        argv, env, results = self.command("deploy_dflash", *options)
        process = subprocess.Popen(
            argv, env=env, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        end = time.monotonic() + 300
        while process.poll() is None and time.monotonic() < end:
            if f'"task": "{task}"' in results.read_text():
                os.killpg(process.pid, signal.SIGKILL)
                break
            time.sleep(0.02)
        process.wait()
        return [json.loads(line) for line in results.read_text().splitlines() if line.endswith("}")]

    def host(self, *words: str, check: bool = True) -> str:
        """Run a command on the host that the tests change, past Ansible."""
        done = subprocess.run(
            ["podman", "exec", HOST, *words], capture_output=True, text=True, timeout=120, check=False
        )
        if check and done.returncode != 0:
            raise AssertionError(f"{words} on {HOST} ended with {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout.strip()

    def pid(self) -> str:
        return self.host("systemctl", "show", "--property", "MainPID", "--value", "dflash-main.service")

    def serves(self, port: int = 8000) -> bool:
        body = json.dumps({"model": "main", "prompt": "1, 2, 3,", "max_tokens": 4})
        words = [
            "curl",
            "-sf",
            "-H",
            "Content-Type: application/json",
            "-d",
            body,
            f"http://127.0.0.1:{port}/v1/completions",
        ]
        return '"choices"' in self.host(*words, check=False)


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    return Lab(tmp_path_factory.mktemp("lab"))


class Job:
    """One ansible-runner run, and what it left in its artifacts."""

    def __init__(self, folder: Path, playbook: str, answers: dict) -> None:
        (folder / "env").mkdir(parents=True)
        (folder / "env/extravars").write_text(json.dumps(answers))
        (folder / "env/envvars").write_text(json.dumps({"ANSIBLE_FORCE_COLOR": "0", "JOB_ID": JOB}))
        self.artifacts = folder / "artifacts/job"
        argv = [
            str(Path(sys.executable).parent / "ansible-runner"),
            "run",
            str(folder),
            "--ident",
            "job",
            "--quiet",
            "--playbook",
            playbook,
        ]
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

    def changed_on(self, host: str) -> set[str]:
        changed = [
            event for event in self.events("runner_on_ok") if event["host"] == host and event["res"].get("changed")
        ]
        return {event["task"] for event in changed if not event.get("role", "").endswith("report")}

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
