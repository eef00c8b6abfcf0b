# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys

import yaml
from ansible_collections.inferlab.dflash.plugins.module_utils._diagnosis import catalogue, diagnose

from .conftest import CASES

RUNNER = CASES.parents[1] / "run_cases.py"
# Loaded once, and not in each of the processes that ansible-test forks.
SPEC = importlib.util.spec_from_file_location("run_cases", RUNNER)
runner = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(runner)


def test_cases(cases):
    assert {case["id"]: wrong for case in cases if (wrong := problems(case))} == {}


def problems(case):
    verdict = diagnose(case["input"])
    found = runner.problems(case["expected"], verdict)
    if verdict["code"] in forbidden(case):
        found.append(f"{verdict['code']} must not be named")
    if verdict["code"] in verdict["secondary_codes"]:
        found.append(f"{verdict['code']} is both the cause and a secondary code")
    # The public cases allow secondary codes, our own demand them.
    wanted = set(case["expected"].get("secondary_codes", [])) if case["id"].startswith("D") else set()
    if missing := wanted - set(verdict["secondary_codes"]):
        found.append(f"no secondary code {', '.join(sorted(missing))}")
    if verdict["code"] != "unknown" and not verdict["evidence"]:
        found.append("no evidence")
    if verdict["code"] != "unknown" and any(len(line) > 300 for line in verdict["evidence"]):
        found.append("a line of evidence is longer than 300 characters")
    return found


def forbidden(case):
    """Codes that a case's must_not sentences name."""
    words = re.compile(r"^(?:report|declare|assume|stop at|guess)\b(?!.*\bas primary\b)")
    sentences = [text for text in case["expected"].get("must_not", []) if words.match(text)]
    return set(catalogue.CODES) & {word for text in sentences for word in re.findall(r"\w+", text)}


def test_every_code_and_cause_has_advice(all_cases):
    for case in all_cases:
        verdict = diagnose(case["input"])
        assert verdict["remedy"] and verdict["meaning"]
    assert {case["expected"]["code"] for case in all_cases} == set(catalogue.CODES)


def run(*arguments):
    return subprocess.run(
        [sys.executable, str(RUNNER), *map(str, arguments)], capture_output=True, text=True, check=False
    )


def test_runner_counts_reports_and_fails(tmp_path):
    good = {"id": "A", "input": {"nvidia_smi_rc": 0}, "expected": {"code": "no_fault"}}
    bad = {"id": "B", "input": {"nvidia_smi_rc": 0}, "expected": {"code": "gpu_oom"}}
    mute = {"id": "C", "input": {}}
    for case in (good, mute):
        (tmp_path / f"{case['id']}.yml").write_text(yaml.safe_dump(case))
    out = tmp_path / "out.json"
    done = run(tmp_path, "--json", out)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "1 passed, 0 failed, 1 without an expectation")
    assert json.loads(out.read_text())["A"] == {
        "code": "no_fault",
        "cause": None,
        "parsed": json.loads(out.read_text())["A"]["parsed"],
        "secondary_codes": [],
    }
    (tmp_path / "B.yml").write_text(yaml.safe_dump(bad))
    done = run(tmp_path)
    assert done.returncode == 1
    assert "FAIL  B" in done.stdout and done.stdout.splitlines()[-1].startswith("1 passed, 1 failed")


def test_runner_refuses_an_empty_folder(tmp_path):
    assert run(tmp_path).returncode == 1
