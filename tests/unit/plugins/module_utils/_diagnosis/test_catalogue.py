# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.inferlab.dflash.plugins.module_utils._diagnosis import catalogue, rules_engine

DOCUMENT = Path(__file__).resolve().parents[5] / "docs" / "diagnosis.md"


@pytest.mark.parametrize("code", list(catalogue.CODES))
def test_every_code_is_documented_as_it_is(code):
    entry = catalogue.CODES[code]
    causes = ", ".join(f"`{name}`" for name in entry.causes) or "-"
    assert (
        f"| `{code}` | {entry.meaning} | {causes} | {entry.remedy} |"
        in DOCUMENT.read_text(encoding="utf-8").splitlines()
    )


def test_rows_use_known_codes_and_tiers():
    for row in rules_engine.ROWS:
        assert row.code in catalogue.CODES
        assert row.tier in catalogue.TIERS


def test_generic_codes_exist():
    assert set(catalogue.CODES) >= catalogue.GENERIC
