# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The documented schemas of reports describe what is really written."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from ansible_collections.inferlab.dflash.plugins.filter.survey_fleet import survey_fleet
from ansible_collections.inferlab.dflash.plugins.module_utils._survey import collect
from ansible_collections.inferlab.dflash.plugins.plugin_utils._report.document import build_document
from ansible_collections.inferlab.dflash.tests.unit.plugins.module_utils._survey import survey_story as story
from ansible_collections.inferlab.dflash.tests.unit.plugins.module_utils._survey.survey_tree import plant, process

SCHEMAS = Path(__file__).resolve().parents[4] / "docs" / "schemas"
NOW = "2026-11-30T14:09:36Z"


def validator(kind):
    schema = json.loads((SCHEMAS / f"report-{kind}.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def survey_document():
    hostvars = story.hostvars()
    fleet = survey_fleet(hostvars, list(hostvars))
    extra = {key: fleet[key] for key in ("findings", "changes", "since")}
    return build_document(fleet["hosts"], kind="survey", now=NOW, extra=extra)["document"]


def deploy_document(**instance):
    host = {"state": "serving", "instances": [{"name": "nano", "acceptance_histogram": [1, 2], **instance}]}
    return build_document({"a": host, "b": {"state": "unreachable"}}, kind="deploy", now=NOW)["document"]


def test_the_surveyed_story_is_valid():
    validator("survey").validate(survey_document())


@pytest.mark.parametrize(
    "spoil",
    [
        lambda document: document.pop("findings"),
        lambda document: document["hosts"]["ct129"].update(state="fine"),
        lambda document: document["hosts"]["ct129"]["gpus"][0].pop("free"),
        lambda document: document["hosts"]["ct129"]["survey"].update(ports=[{"port": "22", "address": "::"}]),
        lambda document: document.update(generated="yesterday"),
    ],
)
def test_a_spoilt_survey_is_not_valid(spoil):
    document = survey_document()
    spoil(document)
    assert not validator("survey").is_valid(document)


def test_every_key_that_the_module_returns_is_documented(tmp_path):
    planted = plant(
        tmp_path,
        {
            **process(10, ["python", "-m", "sglang.launch_server"]),
            "/etc/systemd/system/sglang.service": "[Service]\nExecStart=/x\n",
            "/opt/v/pyvenv.cfg": "version = 3.12\n",
            "/opt/sglang/.git/HEAD": "x",
            "/models/q/config.json": "{}",
            "/models/q/w.safetensors": "",
            "/usr/local/cuda/bin/nvcc": "",
            "/proc/mounts": "/dev/sda / ext4 rw 0 0\n",
            "/proc/net/tcp": "head\n 0: 0100007F:7530 00000000:0000 0A 0:0 00:0 0 0 0 4711 1\n",
            "/dev/shm/x": "",
            "/etc/pve/lxc/129.conf": "hostname: ct129\n",
        },
    )
    answer = collect.collect(planted)
    schema = validator("survey").schema
    documented = schema["$defs"]["survey"]["properties"]
    assert set(answer) == set(documented)
    for key, value in answer.items():
        if isinstance(value, dict) and "properties" in documented[key]:
            assert set(value) <= set(documented[key]["properties"]), key
        if isinstance(value, list) and key != "warnings":
            assert value, f"nothing was planted for {key}"
            items = documented[key]["items"]
            items = schema["$defs"][items["$ref"].rsplit("/", 1)[1]] if "$ref" in items else items
            assert set(value[0]) <= set(items["properties"]), key


@pytest.mark.parametrize("instance", [{}, {"algorithm": "ddtree", "budget": 16}, {"acceptance_histogram": {"1": 3}}])
def test_a_deployment_is_valid(instance):
    validator("deploy").validate(deploy_document(**instance))


@pytest.mark.parametrize("instance", [{"algorithm": "magic"}, {"acceptance_histogram": [-1]}, {"budget": "16"}])
def test_a_wrong_deployment_is_not_valid(instance):
    assert not validator("deploy").is_valid(deploy_document(**instance))
