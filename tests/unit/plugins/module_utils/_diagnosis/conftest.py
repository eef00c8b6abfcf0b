# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from pathlib import Path

import pytest
import yaml

CASES = Path(__file__).resolve().parents[4] / "fixtures" / "cases"


def load_cases():
    return [yaml.safe_load(path.read_text(encoding="utf-8")) for path in sorted(CASES.rglob("*.yml"))]


def pytest_generate_tests(metafunc):
    """Every test that wants a case runs on each of them."""
    if "case" in metafunc.fixturenames:
        cases = load_cases()
        metafunc.parametrize("case", cases, ids=[case["id"] for case in cases])


@pytest.fixture(scope="session")
def all_cases():
    return load_cases()
