# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What operators meet after the first deployment: refusals, drift, kills, roll-back, secrets. Expects a deployed host."""

from __future__ import annotations

import json
import os
import shutil

import pytest
from conftest import HOST, ROOT

NANO = ROOT / "roles/engine/files/nano-pair"
LONG = "LAB_LONG" in os.environ


def instances(extra):
    """The full form in place of the inventory's flat options, as an extra variable."""
    instance = {
        "name": "main",
        "engine_backend": "transformers",
        "model": "builtin:nano-target",
        "drafter": "builtin:nano-drafter",
        "port": 8000,
        **extra,
    }
    flat = ("model", "drafter", "algorithm", "budget", "port", "engine_backend")
    return json.dumps({"dflash_instances": [instance], **{f"dflash_{name}": "" for name in flat}})


# Each is refused by another task. What is long has all of them: the values themselves are unit tests, and a host that is not the
# expected one is met in scenario story.
REFUSALS = [
    (["-e", "dflash_algoritm=none"], ["dflash_algoritm", "did you mean dflash_algorithm"]),
    (["-e", "dflash_algorithm=eagle"], ["eagle", "ddtree"]),
    (["-e", "dflash_budget=many"], ["many", "budget"]),
    (["-e", "dflash_model=somewhere/else"], ["somewhere/else", "control:/PATH"]),
    (["-e", instances({"colour": "blue"})], ["colour"]),
    (["-e", '{"dflash_expect": {"gpu_name": "RTX PRO 6000", "gpu_count": 8}}'], ["RTX PRO 6000"]),
]


@pytest.mark.parametrize(("options", "texts"), REFUSALS if LONG else REFUSALS[:2])
def test_bad_input_is_refused_before_anything_changes(lab, options, texts):
    pid = lab.pid()
    run = lab.run("deploy_dflash", *options)
    assert run.status != 0
    for text in texts:
        assert text in run.failures, run.output
    assert run.changed_on(HOST) == set()
    assert lab.pid() == pid and lab.serves()
    assert "Traceback" not in run.output


def test_a_taken_port_is_refused_and_its_holder_left_alone(lab):
    lab.host("systemd-run", "--unit=holder", "python3", "-m", "http.server", "8123")
    try:
        before = lab.host("systemctl", "show", "--property", "MainPID", "--value", "holder.service")
        run = lab.run("deploy_dflash", "-e", "dflash_port=8123")
        assert run.status != 0
        assert "8123" in run.failures and "holder.service" in run.failures, run.output
        assert lab.host("systemctl", "show", "--property", "MainPID", "--value", "holder.service") == before
        assert lab.serves()
    finally:
        lab.host("systemctl", "stop", "holder.service", check=False)


def test_damaged_and_unfitting_models_are_refused_before_the_instance_is_touched(lab, tmp_path):
    pid = lab.pid()
    truncated = tmp_path / "truncated"
    shutil.copytree(NANO / "target", truncated)
    weights = truncated / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])
    run = lab.run("deploy_dflash", "-e", f"dflash_model=control:{truncated}")
    assert run.status != 0 and "model.safetensors is truncated" in run.failures, run.output
    assert lab.pid() == pid

    swapped = lab.run("deploy_dflash", "-e", "dflash_drafter=builtin:nano-target")
    assert swapped.status != 0 and "drafter" in swapped.failures, swapped.output
    assert lab.pid() == pid and lab.serves()


@pytest.mark.skipif(not LONG, reason="runs with what is long; what is compared is a unit test")
def test_no_room_for_the_model_is_refused_before_the_first_byte(lab):
    pid = lab.pid()
    lab.host("mkdir", "-p", "/mnt/small")
    lab.host("mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", "/mnt/small")
    try:
        run = lab.run("deploy_dflash", "-e", "dflash_models_directory=/mnt/small")
        assert run.status != 0 and "/mnt/small has" in run.failures and "free" in run.failures, run.output
        assert lab.host("ls", "/mnt/small") == ""
        assert lab.pid() == pid
    finally:
        lab.host("umount", "/mnt/small")


# Of the release that serves: a host may keep others beside it.
UVICORN = "/var/lib/dflash/instances/main/release/venv/lib/python3*/site-packages/uvicorn/main.py"
DRIFTS = {
    "unit edited": ["sed", "-i", "s/^RestartSec=5/RestartSec=6/", "/etc/systemd/system/dflash-main.service"],
    "mode widened": ["chmod", "0644", "/etc/dflash/main/environment"],
    "model file deleted": ["rm", "/var/lib/dflash/models/nano-target/tokenizer_config.json"],
    "package downgraded": [
        "sh",
        "-c",
        f"echo '# edited' >> $(echo {UVICORN})",
    ],
}


def test_drift_is_predicted_mended_and_then_gone(lab, start):
    for words in DRIFTS.values():
        lab.host(*words)
    checked = lab.run("deploy_dflash", "--check", "--diff")
    assert checked.status == 0, checked.output
    assert "RestartSec" in checked.output
    real = lab.run()
    assert real.status == 0, real.output
    assert checked.changed_on(HOST) == real.changed_on(HOST)
    assert {
        "inferlab.dflash.engine : Make the release",
        "inferlab.dflash.models : Stage models from the control node",
        "inferlab.dflash.instance : Start the instance",
    } <= real.changed_on(HOST)
    # Nothing is left to do, says the next run, which a controller starts.
    again = start("deploy_dflash.yml").wait()
    assert again.ended == (0, "successful"), again.output
    assert again.changed_on(HOST) == set()
    assert again.handed_on["dflash_result"][HOST]["state"] == "serving"
    assert again.handed_on["dflash_verdicts"] == {HOST: []}
    assert lab.serves()


KILLS = ["inferlab.dflash.instance : Start the instance"]
if LONG:
    KILLS += [
        "inferlab.dflash.engine : Make the release",
        "inferlab.dflash.models : Stage models from the control node",
        "Plan",
    ]


def command_line(lab):
    return lab.host("systemctl", "show", "--property", "ExecStart", "--value", "dflash-main.service")


@pytest.mark.parametrize("task", KILLS)
def test_a_killed_deploy_is_completed_by_the_next_one_which_can_be_rolled_back(lab, task):
    assert "--budget 16" in command_line(lab)
    lab.kill_after(task, "-e", "dflash_budget=12")
    run = lab.run("deploy_dflash", "-e", "dflash_budget=12")
    assert run.status == 0, run.output
    assert "--budget 12" in command_line(lab) and lab.serves()
    back = lab.run("rollback")
    assert back.status == 0, back.output
    assert "--budget 16" in command_line(lab) and lab.serves()


def test_rollback_is_refused_where_nothing_served_before(lab):
    lab.host("cp", "/var/lib/dflash/history.jsonl", "/root/history.jsonl")
    lab.host("truncate", "-s", "0", "/var/lib/dflash/history.jsonl")
    refused = lab.run("rollback")
    lab.host("mv", "/root/history.jsonl", "/var/lib/dflash/history.jsonl")
    assert refused.status != 0 and "cannot be rolled back" in refused.output
    assert lab.serves()


def test_a_server_that_cannot_start_is_named_and_the_former_one_serves_again(lab, start):
    """Deployed as a controller does it: exit status, events and artifacts carry the diagnosis."""
    job = start("deploy_dflash.yml", **json.loads(instances({"args": ["--no-such-option"]}))).wait()
    assert job.ended == (2, "failed"), job.output
    verdict = job.handed_on["dflash_verdicts"][HOST][0]
    assert verdict["code"] == "server_args_invalid" and verdict["remedy"]
    assert any("--no-such-option" in line for line in verdict["evidence"])
    assert job.handed_on["dflash_result"][HOST]["code"] == "server_args_invalid"
    ended = [event["res"] for kind in ("runner_on_ok", "runner_on_failed") for event in job.events(kind)]
    assert "server_args_invalid" in [(result.get("diagnosis") or {}).get("code") for result in ended]
    assert "server_args_invalid" in job.output and "--no-such-option" in job.output
    assert lab.serves()


def test_the_api_key_is_enforced_and_found_nowhere(lab, tmp_path):
    key = "planted-key-7f3a9c"
    secret = tmp_path / "key.yml"
    secret.write_text(f"dflash_api_key: {key}\n")
    run = lab.run("deploy_dflash", "-vv", "-e", f"@{secret}")
    assert run.status == 0, run.output
    assert key not in run.output
    assert not lab.serves(), "the server answered without the key"
    assert lab.host("stat", "-c", "%a %U", "/etc/dflash/main/api_key") == "600 root"
    where = "grep -rlF --exclude-dir=proc --exclude-dir=sys -e " + key
    found = lab.host("sh", "-c", f"{where} /etc /var /opt /run /tmp 2>/dev/null; true").split()
    # The file itself, and systemd's own copy of the credential, which only the service can read.
    assert [
        path for path in found if path != "/etc/dflash/main/api_key" and not path.startswith("/run/credentials/")
    ] == []
    for words in (
        ["journalctl", "--no-pager"],
        ["systemctl", "show", "dflash-main.service"],
        ["sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"],
        ["curl", "-s", "http://127.0.0.1:8000/server_info"],
    ):
        assert key not in lab.host(*words, check=False), words
    reports = [path for path in lab.folder.rglob("*") if path.is_file() and key in path.read_text(errors="replace")]
    assert reports == []
    if LONG:  # the tests that follow expect a server without a key
        assert lab.run().status == 0 and lab.serves()
