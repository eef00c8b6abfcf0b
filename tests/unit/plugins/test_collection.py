# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Promises that the collection makes as a whole."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
ROLES = sorted(path.name for path in (ROOT / "roles").iterdir() if (path / "meta/argument_specs.yml").exists())


def test_the_action_group_holds_every_module():
    group = yaml.safe_load((ROOT / "meta/runtime.yml").read_text())["action_groups"]["dflash"]
    assert group == sorted(f"inferlab.dflash.{path.stem}" for path in (ROOT / "plugins/modules").glob("*.py"))


@pytest.mark.parametrize("role", ROLES)
def test_defaults_equal_the_argument_specification(role):
    folder = ROOT / "roles" / role
    options = yaml.safe_load((folder / "meta/argument_specs.yml").read_text())["argument_specs"]["main"]["options"]
    defaults = yaml.safe_load((folder / "defaults/main.yml").read_text()) or {}
    documented = {name: option["default"] for name, option in options.items() if "default" in option}
    assert defaults == documented
    assert all(option.get("required") for name, option in options.items() if name not in defaults)
    assert all(name.startswith(f"{role}_") for name in options)
