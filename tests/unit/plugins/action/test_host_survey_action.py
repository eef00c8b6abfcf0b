# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The action plugin of host_survey_info: the program says what the module says, and in any doubt the module is run."""

from __future__ import annotations

import json
import subprocess
import sys
from types import SimpleNamespace

import pytest
from ansible_collections.inferlab.dflash.plugins.action import host_survey_info
from ansible_collections.inferlab.dflash.plugins.module_utils._survey import answer
from ansible_collections.inferlab.dflash.plugins.plugin_utils._survey import program
from ansible_collections.inferlab.dflash.tests.unit.plugins.module_utils._survey.survey_tree import plant, process

DEFAULTS = {name: spec.get("default") for name, spec in answer.ARGUMENTS.items()}
MODULE = {"changed": False, "survey": "the module's"}
BARE = {"changed": False, "survey": "the program's"}


def run_program(given: dict) -> subprocess.CompletedProcess:
    """The program on a Python that has nothing beside its standard library."""
    argv = [sys.executable, "-I", "-S", "-B", "-"]
    return subprocess.run(argv, input=program.program(given), capture_output=True, check=False)


def test_the_program_needs_only_python_and_says_what_the_module_says(tmp_path) -> None:
    plant(
        tmp_path, {**process(10, ["python", "-m", "sglang.launch_server"]), "/opt/v/pyvenv.cfg": "version = 3.12.1\n"}
    )
    given = {**DEFAULTS, "root": str(tmp_path), "gpu_subset": ["all"]}
    done = run_program(given)
    assert (done.returncode, done.stderr) == (0, b"")
    said = program.answer(done.stdout.decode())
    expected = json.loads(json.dumps({**answer.answer(given), "changed": False}))
    for one in (said, expected):
        # The moment itself.
        one["survey"]["time"].pop("epoch")
        one["survey"]["host"].pop("uptime_s", None)
    assert said == expected
    assert [entry["path"] for entry in said["survey"]["environments"]] == ["/opt/v"]


def test_on_a_running_system_the_program_reads_it(tmp_path) -> None:
    said = program.answer(run_program({**DEFAULTS, "paths": [str(tmp_path)]}).stdout.decode())
    assert said["survey"]["host"]["kernel"]
    assert said["survey"]["memory"]["total_mib"] > 0


def test_a_bad_pattern_fails_as_in_the_module() -> None:
    said = program.answer(run_program({**DEFAULTS, "patterns": {"mine": ["("]}}).stdout.decode())
    assert said["failed"] is True
    assert said["msg"].startswith("patterns.mine: ['('] is no list of regular expressions")


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("Welcome!\n" + program.MARK + '{"survey": 1}\n', {"survey": 1}),
        (program.MARK + '{"survey": 1}\nlogout\n', {"survey": 1}),
        (program.MARK + '{"survey": ', None),
        (program.MARK + "[1]", None),
        ("Please change your password\n", None),
        ("", None),
    ],
)
def test_the_answer_among_other_lines(output: str, expected: dict | None) -> None:
    assert program.answer(output) == expected


def test_a_command_that_is_missing_is_an_answer() -> None:
    assert answer.run(["no-such-program-4711"]) == (127, "")
    assert answer.run(["sh", "-c", "echo said; exit 3"]) == (3, "said\n")


@pytest.fixture
def action(monkeypatch):
    """The plugin with a host that answers the program."""
    made = host_survey_info.ActionModule.__new__(host_survey_info.ActionModule)
    made._task = SimpleNamespace(args={"depth": 3}, async_val=0, delegate_to=None)
    made._templar = SimpleNamespace(template=lambda value: value)
    made.sent = []
    made.reply = {"rc": 0, "stdout": program.MARK + json.dumps(BARE), "stderr": ""}

    def low_level(command, in_data):
        made.sent.append((command, in_data))
        return made.reply

    monkeypatch.setattr(host_survey_info.ActionBase, "run", lambda *_arguments: {})
    made._low_level_execute_command = low_level
    made._is_pipelining_enabled = lambda *_arguments: True
    made._compute_environment_string = lambda: "HTTPS_PROXY=here"
    made._execute_module = lambda task_vars: dict(MODULE)
    made.validate_argument_spec = lambda argument_spec: (None, {**DEFAULTS, **made._task.args})
    return made


def test_a_known_interpreter_gets_the_program(action) -> None:
    assert action.run(None, {"ansible_python_interpreter": "/usr/bin/env python3"}) == BARE
    ((command, sent),) = action.sent
    assert command == "HTTPS_PROXY=here /usr/bin/env python3 -B -"
    assert sent == program.program({**DEFAULTS, "depth": 3})


def test_a_discovered_interpreter_gets_it_too(action) -> None:
    known = {
        "ansible_python_interpreter": "auto",
        "ansible_facts": {"discovered_interpreter_python": "/usr/bin/python3.11"},
    }
    assert action.run(None, known) == BARE
    assert action.sent[0][0].endswith("/usr/bin/python3.11 -B -")


@pytest.mark.parametrize("value", ["auto", "auto_silent", ""])
def test_an_interpreter_that_is_not_known_is_the_modules_business(action, value: str) -> None:
    assert action.run(None, {"ansible_python_interpreter": value}) == MODULE
    assert action.sent == []


@pytest.mark.parametrize(
    "change",
    [
        lambda a: setattr(a._task, "async_val", 60),
        lambda a: setattr(a._task, "delegate_to", "elsewhere"),
        lambda a: a._task.args.update(root="/srv/image"),
        lambda a: setattr(a, "_is_pipelining_enabled", lambda *_arguments: False),
    ],
    ids=["async", "delegated", "another root", "no pipelining"],
)
def test_what_is_not_plain_goes_through_the_module(action, change) -> None:
    change(action)
    assert action.run(None, {"ansible_python_interpreter": "/usr/bin/python3"}) == MODULE
    assert action.sent == []


@pytest.mark.parametrize(("rc", "stdout"), [(1, ""), (0, "something else"), (127, program.MARK + json.dumps(BARE))])
def test_a_program_that_did_not_work_is_followed_by_the_module(action, rc: int, stdout: str) -> None:
    action.reply = {"rc": rc, "stdout": stdout, "stderr": "SyntaxError"}
    assert action.run(None, {"ansible_python_interpreter": "/usr/bin/python3"}) == MODULE
    assert len(action.sent) == 1
