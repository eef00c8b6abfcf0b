# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The action plugin of host_survey_info: the program says what the module says, and in any doubt the module is run."""

from __future__ import annotations

import ast
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


# What a host with another Python takes: the code's line does not concern it.
AS_SOURCE = "0badcafe !\n" + host_survey_info.MODULES.splitlines()[-1] + "\n"


def run_program(given: dict, modules: str = host_survey_info.MODULES, *options: str) -> subprocess.CompletedProcess:
    """The program on a Python that has nothing beside its standard library."""
    text, sent = program.program(given, modules)
    argv = [sys.executable, "-I", "-S", "-B", *options, "-c", text]
    return subprocess.run(argv, input=sent, capture_output=True, check=False)


@pytest.mark.parametrize("modules", [host_survey_info.MODULES, AS_SOURCE], ids=["code", "source"])
def test_the_program_needs_only_python_and_says_what_the_module_says(tmp_path, modules: str) -> None:
    plant(
        tmp_path, {**process(10, ["python", "-m", "sglang.launch_server"]), "/opt/v/pyvenv.cfg": "version = 3.12.1\n"}
    )
    given = {**DEFAULTS, "root": str(tmp_path), "gpu_subset": ["all"]}
    done = run_program(given, modules)
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


def test_a_host_imports_nothing_heavy_for_the_program(tmp_path) -> None:
    """Its Python starts for one answer: each of these costs a host milliseconds that a survey can do without."""
    plant(tmp_path, process(10, ["python", "-m", "sglang.launch_server"]))
    given = {**DEFAULTS, "root": str(tmp_path), "gpu_subset": ["all"]}
    told = run_program(given, host_survey_info.MODULES, "-X", "importtime").stderr.decode()
    imported = {line.rpartition("|")[2].strip() for line in told.splitlines()}
    assert program.ENTRY in imported
    assert not imported & {
        "typing",
        "dataclasses",
        "inspect",
        "pathlib",
        "socket",
        "base64",
        "csv",
        "xml.etree.ElementTree",
    }
    assert not {name.rpartition(".")[2] for name in imported} & {"nvml", "smi", "smi_text", "pair"}


class _Readers(ast.NodeTransformer):
    """The same as program.plain by another way: on the syntax tree."""

    def visit(self, node: ast.AST) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
        if isinstance(node, ast.FunctionDef):
            node.returns = None
        if isinstance(node, ast.arg):
            node.annotation = None
        for name, block in ast.iter_fields(node):
            if isinstance(block, list) and not isinstance(node, ast.ClassDef):
                plain = [isinstance(entry, ast.AnnAssign) and entry.value is not None for entry in block]
                changed = [ast.Assign([e.target], e.value) if yes else e for e, yes in zip(block, plain)]
                setattr(node, name, changed)
        return node


def test_what_is_sent_is_the_same_program_without_words_for_readers() -> None:
    for name, source in program.sources().items():
        expected = ast.unparse(ast.fix_missing_locations(_Readers().visit(ast.parse(source))))
        sent = ast.unparse(ast.parse(program.plain(source)))
        assert sent.replace("import typing as t\n", "") == expected.replace("import typing as t\n", ""), name
        assert "t." not in sent or "typing" not in sent, f"{name} needs typing when it runs"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ('def f():\n    "Says."\n', "def f():\n    pass\n"),
        ('"""Two\nlines."""\nx: int = 1\n', "\n\nx = 1\n"),
        (
            "def f(a: int, *b: str, c: int = 3, **d: t.Any) -> tuple[\n    int\n]:\n    return a\n",
            "def f(a, *b, c = 3, **d) :\n    return a\n",
        ),
        ('class A:\n    """Says."""\n\n    field: int = 1\n', "class A:\n    \n\n    field: int = 1\n"),
        ("import typing as t\nx: t.Any = 1\n", "\nx = 1\n"),
        ("import typing as t\nX = t.Any\n", "import typing as t\nX = t.Any\n"),
        ('é = "é"; y: str = "\u20ac"  # "-> é"\n', 'é = "é"; y = "\u20ac"  # "-> é"\n'),
    ],
)
def test_plain(source: str, expected: str) -> None:
    assert program.plain(source) == expected
    compile(expected, "x", "exec")


def test_the_program_is_counted_in_characters_that_are_bytes() -> None:
    text, sent = program.program({"patterns": {"mine": ["é"]}}, host_survey_info.MODULES)
    assert sent.isascii()
    assert text.startswith("import sys; exec(sys.stdin.read(")


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
    text, expected = program.program({**DEFAULTS, "depth": 3}, host_survey_info.MODULES)
    assert command == f"HTTPS_PROXY=here /usr/bin/env python3 -B -c '{text}'"
    assert sent == expected


def test_a_discovered_interpreter_gets_it_too(action) -> None:
    known = {
        "ansible_python_interpreter": "auto",
        "ansible_facts": {"discovered_interpreter_python": "/usr/bin/python3.11"},
    }
    assert action.run(None, known) == BARE
    assert "/usr/bin/python3.11 -B -c " in action.sent[0][0]


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
