# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import os
import socket
import stat
import sys
import tarfile

import pytest
from ansible_collections.inferlab.dflash.plugins.module_utils._diagnosis import (
    bundle,
    diagnose,
    evidence,
    service_facts,
)
from ansible_collections.inferlab.dflash.plugins.module_utils._diagnosis.collect import collect

SHOW = """Id=x.service
LoadState=loaded
ActiveState=failed
Result=exit-code
ExecMainCode=1
ExecMainStatus=1
NRestarts={restarts}
MainPID=0
Environment=PATH=/usr/bin MY_OWN=hunter2hunter2 HF_TOKEN=hf_secretsecretsecretsecret LD_LIBRARY_PATH=/x "NCCL_DEBUG=INFO"
ExecStart={{ path=/opt/v/bin/python ; argv[]=/opt/v/bin/python ARGUMENTS ; ignore_errors=no }}
""".replace("ARGUMENTS", "-m x --model-path /models/t --drafter /models/d --port 7001 --api-key abcdefgh")


class Commands:
    """Stands for the host's programs: answers by the first words of the command line, and keeps what was asked."""

    def __init__(self, restarts=0, journal="", **answers):
        self.answers = {"systemctl show": SHOW.format(restarts=restarts), "systemd-detect-virt": "none\n", **answers}
        self.journal = journal
        self.asked = []

    def __call__(self, argv, timeout, limit):
        line = " ".join(argv)
        self.asked.append(line)
        assert timeout <= 30 and limit <= 8 << 20
        if argv[0] == "journalctl":
            if "--output=json" in line:
                return 0, json.dumps({"__REALTIME_TIMESTAMP": "1000000000"}), ""
            if "--dmesg" in line:
                return 0, "", ""
            return 0, "first run\n" if "--until" in line else self.journal, ""
        for words, answer in self.answers.items():
            if line.startswith(words):
                return 0, answer, ""
        return None, "", f"{argv[0]}: No such file or directory"


@pytest.fixture
def root(tmp_path):
    for name, text in {
        "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.126.09  Wed Jan  7\n",
        "sys/module/nvidia/version": "580.126.09\n",
        "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.580.159.03": "",
        "opt/v/bin/python": "",
        "opt/v/bin/ninja": "",
        "opt/v/lib/python3.12/site-packages/torch-2.11.0+cu130.dist-info/METADATA": "",
        "models/t/config.json": '{"num_hidden_layers": 2}',
        "dev/shm/x": "",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def gather(root, commands, **options):
    return collect(evidence.Host("x", commands), root=str(root), **options)


def test_channels_feed_the_diagnosis(root):
    commands = Commands(journal="ImportError: /opt/v/lib/a.so: undefined symbol: foo\n")
    channels = gather(root, commands)
    verdict = diagnose(channels)
    assert verdict["code"] == "driver_library_mismatch"
    assert verdict["parsed"]["user_space_version"] == "580.159.03"
    assert "abi_undefined_symbol" in verdict["secondary_codes"]
    assert channels["pip_freeze"] == "torch==2.11.0+cu130\n"
    assert channels["stat_venv_ninja"] == "/opt/v/bin/ninja\n"
    assert channels["target_config_json"] == '{"num_hidden_layers": 2}'
    assert channels["draft_config_json"] is None
    assert channels["nvidia_smi"] is None
    assert "kernel_log" not in channels
    assert " /dev/shm" in channels["df_shm"] and " /dev/shm" in channels["stat_shm"]


def test_secrets_stay_on_the_host(root):
    commands = Commands(journal="server_args=ServerArgs(api_key='abcdefgh')\nGET with Bearer abcdefgh\nabcdefgh\n")
    text = json.dumps(gather(root, commands, api_key="abcdefgh"))
    assert "abcdefgh" not in text
    assert "hf_secret" not in text
    assert "hunter2" not in text
    assert "LD_LIBRARY_PATH=/x" in text and "NCCL_DEBUG=INFO" in text


def test_the_first_failing_run_is_included_after_restarts(root):
    commands = Commands(restarts=3, journal="last run\n")
    assert gather(root, commands)["unit_journal"] == "first run\nlast run\n"
    assert any("--until=@1000.000000" in line for line in commands.asked)
    assert any("--since=@1000.000000" in line for line in commands.asked)


def test_without_restarts_one_window_is_enough(root):
    commands = Commands(journal="only run\n")
    assert gather(root, commands)["unit_journal"] == "only run\n"
    assert not any("--until" in line for line in commands.asked)


def test_silence_is_measured_only_of_a_running_unit(root):
    running = SHOW.format(restarts=0).replace("failed", "active")
    assert gather(root, Commands(**{"systemctl show": running}), now=lambda: 1600.0)["seconds_since_last_line"] == 600
    assert "seconds_since_last_line" not in gather(root, Commands(), now=lambda: 1600.0)


def test_the_budget_ends_the_collection(root):
    clock = iter(range(0, 1000, 40))
    channels = gather(root, Commands(journal="x\n"), clock=lambda: next(clock), budget=60)
    assert "unit_journal" in channels and "virtualization" in channels
    assert "df_shm" not in channels


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_the_holder_of_a_port_is_named():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        commands = Commands(**{"systemctl show": SHOW.format(restarts=0).replace("7001", str(port))})
        channels = collect(evidence.Host("x", commands))
        assert service_facts.listeners(channels["ss_listen"])[port]["holder_pid"] == os.getpid()


def test_a_broken_host_still_yields_a_verdict(tmp_path):
    channels = collect(evidence.Host("x", lambda argv, timeout, limit: (None, "", "broken")), root=str(tmp_path))
    assert "unit_show" not in channels and "unit_journal" not in channels
    assert diagnose(channels)["code"] == "unknown"


def test_run_bounds_time_and_bytes():
    rc, out, _err = evidence.run(["sh", "-c", "echo head; echo tail"], limit=5)
    assert (rc, out) == (0, "tail\n")
    assert evidence.run(["sleep", "5"], timeout=0.05)[0] is None
    assert evidence.run(["/nonexistent"]) == (None, "", "/nonexistent: No such file or directory")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1min 30s", 90),
        ("90000000", 90),
        ("5min", 300),
        ("infinity", None),
        ("2h", 7200),
        ("1d", 86400),
        ("500ms", 0),
        ("", None),
    ],
)
def test_time_spans(text, expected):
    assert service_facts.seconds(text) == expected


def test_activity_sees_compilers_and_reads(tmp_path):
    group = tmp_path / "cgroup/system.slice/x.service"
    group.mkdir(parents=True)
    (group / "cgroup.procs").write_text("7\n8\n")
    for pid, comm in ((7, "python"), (8, "cicc")):
        (tmp_path / f"proc/{pid}").mkdir(parents=True)
        (tmp_path / f"proc/{pid}/comm").write_text(comm + "\n")
        (tmp_path / f"proc/{pid}/io").write_text("rchar: 100\nwchar: 1\n")
    host = evidence.Host("x", Commands(), proc=str(tmp_path / "proc"), cgroup=str(tmp_path / "cgroup"))
    assert host.activity({"ControlGroup": "/system.slice/x.service"}) == {"read_bytes": 200, "compilers": ["cicc"]}
    assert host.activity(None) == {"read_bytes": 0, "compilers": []}


def test_new_lines_follow_the_cursor():
    asked = []

    def journal(argv, timeout, limit):
        asked.append(argv)
        if argv[0] == "systemctl":
            return 0, "InvocationID=abc\n", ""
        return 0, "a\n-- cursor: s=1\n" if len(asked) < 3 else "b\n-- cursor: s=2\n", ""

    host = evidence.Host("x", journal)
    assert host.new_lines() == ["a"]
    assert "_SYSTEMD_INVOCATION_ID=abc" in asked[1]
    assert host.new_lines() == ["b"]
    assert "--after-cursor=s=1" in asked[2] and "--unit=x.service" in asked[2]


def test_bundle(tmp_path):
    path = tmp_path / "e.tar.gz"
    bundle.write(
        str(path), "x.service", {"unit_journal": "line\n", "nvidia_smi": None, "nvidia_smi_rc": 18}, {"code": "unknown"}
    )
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with tarfile.open(path) as archive:
        names = sorted(archive.getnames())
        assert archive.extractfile("x.service/unit_journal.txt").read() == b"line\n"
        manifest = json.load(archive.extractfile("x.service/manifest.json"))
    assert names == [
        f"x.service/{name}" for name in ("manifest.json", "nvidia_smi_rc.txt", "unit_journal.txt", "verdict.json")
    ]
    assert manifest == {"nvidia_smi": None, "nvidia_smi_rc": 2, "unit_journal": 5}
    assert [entry.name for entry in tmp_path.iterdir()] == ["e.tar.gz"]


def test_a_bundle_that_cannot_be_written_leaves_nothing(tmp_path):
    target = tmp_path / "taken"
    (target / "x").mkdir(parents=True)
    with pytest.raises(OSError):
        bundle.write(str(target), "x.service", {}, {})
    assert [entry.name for entry in tmp_path.iterdir()] == ["taken"]
