# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from ansible_collections.inferlab.dflash.plugins.module_utils._plan import errors, survey_form, wishes

ROOT = Path(__file__).resolve().parents[5]
VARS = yaml.safe_load((ROOT / "playbooks/vars/options.yml").read_text())
OPTIONS, BOUNDS, ASKED = VARS["dflash_options"], VARS["dflash_bounds"], VARS["dflash_survey"]
TYPES = {"str": "text", "path": "text", "int": "integer", "float": "float", "bool": "multiplechoice"}


def test_the_form_equals_the_options():
    form = survey_form.form("Deploy", ASKED, OPTIONS, BOUNDS)
    assert [question["variable"] for question in form["spec"]] == ASKED
    for question in form["spec"]:
        option = OPTIONS[question["variable"]]
        assert question["type"] == ("multiplechoice" if option.get("choices") else TYPES[option["type"]])
        assert question["choices"] == (
            [str(c) for c in option.get("choices", [])] or (["true", "false"] if option["type"] == "bool" else [])
        )
        default = option.get("default")
        assert question.get("default") == (str(default).lower() if isinstance(default, bool) else default)
        assert question["required"] is bool(option.get("required", False))
        if question["variable"] in BOUNDS:
            assert [question["min"], question["max"]] == BOUNDS[question["variable"]]


@pytest.mark.parametrize("name", sorted(BOUNDS))
def test_the_bounds_are_those_that_the_playbooks_enforce(name):
    low, high = BOUNDS[name]
    base = {"dflash_model": "/m", "dflash_drafter": "/d", "dflash_algorithm": "ddtree"}
    key = name.replace("dflash_", "")
    for value in (low, high):
        assert wishes.normalise([], {**base, name: str(value)})[0][key] == value
    for value in (low - 1, high + 1):
        with pytest.raises(errors.PlanError, match=key):
            wishes.normalise([], {**base, name: str(value)})


def test_a_question_that_is_not_answered_leaves_the_option_to_the_inventory():
    for question in survey_form.form("Deploy", ASKED, OPTIONS, BOUNDS)["spec"]:
        if question["variable"] in wishes.FLAT_OPTIONS:
            assert "default" not in question, "a controller gives every default to the job"
            assert question["required"] is False
        if question["type"] == "text":
            assert question["min"] == 1, "an empty text is no answer"


def test_every_flat_option_but_the_name_is_asked_for():
    assert set(wishes.FLAT_OPTIONS) - {"dflash_name"} <= set(ASKED)


@pytest.mark.parametrize(
    ("name", "option", "text"),
    [
        ("dflash_api_key", {"type": "str", "description": "x"}, "is a secret"),
        ("dflash_expect", {"type": "dict", "description": "x"}, "of type dict"),
        ("dflash_count", {"type": "int", "description": "x"}, "without bounds"),
    ],
)
def test_what_a_form_cannot_ask_for_is_refused(name, option, text):
    with pytest.raises(survey_form.FormError, match=text):
        survey_form.question(name, option)


def test_unknown_names_are_refused():
    with pytest.raises(survey_form.FormError, match="dflash_nothing"):
        survey_form.form("x", ["dflash_nothing"], OPTIONS, BOUNDS)
