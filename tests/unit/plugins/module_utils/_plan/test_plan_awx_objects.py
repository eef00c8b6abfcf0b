# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from ansible_collections.inferlab.dflash.plugins.module_utils._plan import awx_objects

ROOT = Path(__file__).resolve().parents[5]
AWX = yaml.safe_load((ROOT / "playbooks/vars/awx.yml").read_text())
OPTIONS = yaml.safe_load((ROOT / "playbooks/vars/options.yml").read_text())
COMMON = {"organization": "DFlash", "credentials": []}


def template(short):
    return awx_objects.job_template(
        short, COMMON, OPTIONS["dflash_options"], OPTIONS["dflash_bounds"], OPTIONS["dflash_survey"]
    )


def test_templates_name_playbooks_that_exist_and_ask_for_a_limit():
    for short in AWX["awx_templates"]:
        assert (ROOT / short["playbook"]).is_file()
        made = template(short)
        assert made["ask_limit_on_launch"] is True
        assert ("survey_spec" in made) is bool(short.get("survey"))
        assert "credentials" not in made


def test_check_mode_has_templates_of_its_own():
    kinds = {short["name"]: template(short)["job_type"] for short in AWX["awx_templates"]}
    assert kinds["DFlash deploy, check"] == kinds["DFlash driver, check"] == "check"
    assert kinds["DFlash deploy"] == "run"


def test_workflow_goes_from_survey_over_approval_to_benchmark_and_back_on_failure():
    nodes = {node["identifier"]: node for node in awx_objects.workflow_nodes(AWX["awx_workflow_nodes"], "DFlash")}

    def after(name, kind):
        return [target["identifier"] for target in nodes[name]["related"][f"{kind}_nodes"]]

    assert nodes["approve"]["unified_job_template"]["type"] == "workflow_approval"
    assert [
        after("survey", "success"),
        after("approve", "success"),
        after("reconcile", "success"),
        after("deploy", "success"),
    ] == [
        ["approve"],
        ["reconcile"],
        ["deploy"],
        ["benchmark"],
    ]
    assert after("deploy", "failure") == after("benchmark", "failure") == ["rollback"]
    names = {short["name"] for short in AWX["awx_templates"]}
    assert {node["template"] for node in AWX["awx_workflow_nodes"] if "template" in node} <= names


def test_a_node_that_leads_nowhere_is_refused():
    with pytest.raises(ValueError, match="leads to 'nowhere'"):
        awx_objects.workflow_nodes([{"identifier": "a", "template": "x", "success": ["nowhere"]}], "DFlash")
