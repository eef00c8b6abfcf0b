# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import functools
import os
import sys
from pathlib import Path

import pytest
import yaml
from ansible_collections.inferlab.dflash.plugins.module_utils._diagnosis import diagnose

CASES = Path(__file__).resolve().parents[4] / "fixtures" / "cases"


# libyaml where it is there: several times faster over some hundred files.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# A property is held against every third case on each Python, and three Pythons are tested: together they meet every case under
# every change. With this variable one Python meets all of them, as `make test-all` has it.
PARTS = 1 if os.environ.get("DIAGNOSIS_EVERY_CASE") else 3


@functools.cache
def load_cases():
    """Shared between tests, which leave them as they are."""
    return [yaml.load(path.read_bytes(), Loader=LOADER) for path in sorted(CASES.rglob("*.yml"))]


def part(cases, turn=0):
    """This Python's share of the cases; I(turn) gives each change of a series another share."""
    return cases[(sys.version_info[1] + turn) % PARTS :: PARTS]


def pytest_generate_tests(metafunc):
    """A test that wants cases gets them in groups: ansible-test forks for each test, which takes longer than ten cases."""
    if "cases" in metafunc.fixturenames:
        groups = {}
        for case in load_cases():
            groups.setdefault(case["id"][:2], []).append(case)
        metafunc.parametrize("cases", groups.values(), ids=groups)


@pytest.fixture(scope="session")
def all_cases():
    return load_cases()


@functools.cache
def code_of_each():
    return {case["id"]: diagnose(case["input"])["code"] for case in part(load_cases())}


def pytest_collection_finish(session):
    """Ansible-test forks for each test, and what a child worked out is lost with it: work it out before, patterns included."""
    if any("codes" in getattr(item, "fixturenames", ()) for item in session.items):
        code_of_each()


@pytest.fixture(scope="session")
def codes():
    """What each case is without a change: {id: code}."""
    return code_of_each()
