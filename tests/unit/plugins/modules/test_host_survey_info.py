# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""host_survey_info, run as Ansible runs it, on a planted tree."""

from __future__ import annotations

import io
import json

import pytest
from ansible.module_utils import basic
from ansible_collections.inferlab.dflash.plugins.module_utils._gpu import host
from ansible_collections.inferlab.dflash.plugins.modules import host_survey_info
from ansible_collections.inferlab.dflash.tests.unit.plugins.module_utils._survey.survey_tree import plant, process


def run(monkeypatch, capsys, **params):
    monkeypatch.setattr(basic, "_ANSIBLE_ARGS", json.dumps({"ANSIBLE_MODULE_ARGS": params}).encode())
    # Core 2.20 and later ask for the profile too.
    monkeypatch.setattr(basic, "_ANSIBLE_PROFILE", "legacy", raising=False)
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    with pytest.raises(SystemExit) as end:
        host_survey_info.main()
    return end.value.code, json.loads(capsys.readouterr().out)


@pytest.fixture()
def root(tmp_path):
    plant(
        tmp_path,
        {
            **process(10, ["python", "-m", "sglang.launch_server", "--api-key", "marked-key-4711"]),
            **process(11, ["/usr/bin/mytrainer", "--token", "marked-key-4711"]),
            "/opt/v/pyvenv.cfg": "version = 3.12.1\n",
            "/stock/w/pyvenv.cfg": "version = 3.11.2\n",
        },
    )
    return str(tmp_path)


def test_it_reads_below_the_root_and_changes_nothing(root, monkeypatch, capsys):
    rc, said = run(monkeypatch, capsys, root=root)
    assert (rc, said["changed"]) == (0, False)
    assert [process["kind"] for process in said["survey"]["processes"]] == ["sglang"]
    assert [environment["path"] for environment in said["survey"]["environments"]] == ["/opt/v"]
    assert "marked-key" not in json.dumps(said["survey"])


def test_check_mode_makes_no_difference(root, monkeypatch, capsys):
    plain = run(monkeypatch, capsys, root=root)
    assert run(monkeypatch, capsys, root=root, _ansible_check_mode=True) == plain


def test_own_patterns_and_paths(root, monkeypatch, capsys):
    said = run(monkeypatch, capsys, root=root, patterns={"mine": ["mytrainer"]}, paths=["/stock"])[1]["survey"]
    assert [(process["kind"], process["command"]) for process in said["processes"]] == [("mine", "mytrainer")]
    assert [environment["path"] for environment in said["environments"]] == ["/stock/w"]


def test_a_bad_pattern_is_refused_by_name(root, monkeypatch, capsys):
    rc, said = run(monkeypatch, capsys, root=root, patterns={"mine": ["("]})
    assert (rc, said["failed"]) == (1, True)
    assert said["msg"].startswith("patterns.mine: ['('] is no list of regular expressions")


def test_no_command_is_run_below_another_root(root, monkeypatch, capsys):
    def refuse(*_args, **_kwargs):
        raise AssertionError("a command was run")

    monkeypatch.setattr(host.subprocess, "Popen", refuse)
    assert run(monkeypatch, capsys, root=root)[0] == 0


def test_the_facts_of_gpu_facts_come_with_it_when_asked_for(root, monkeypatch, capsys):
    alone = run(monkeypatch, capsys, root=root)[1]
    both = run(monkeypatch, capsys, root=root, gpu_subset=["all", "!toolkits"])[1]
    assert "gpu" not in alone
    assert both["survey"] == alone["survey"]
    assert both["gpu"]["driver"]["state"] == "no_gpu"
    assert "cuda_toolkits" not in both["gpu"]["driver"]


def test_an_unknown_gpu_subset_is_named(root, monkeypatch, capsys):
    rc, said = run(monkeypatch, capsys, root=root, gpu_subset=["fans"])
    assert (rc, said["msg"]) == (1, "gpu_subset: no such subset: fans")
