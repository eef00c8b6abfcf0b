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


def nodes_of(short):
    nodes = {}
    for call in awx_objects.workflow_nodes(short, "W", "DFlash"):
        assert not ("approval_node" in call and "success_nodes" in call), "the module cannot do both at once"
        nodes.setdefault(call["identifier"], {}).update(call)
    return nodes


def test_workflow_goes_from_survey_over_approval_to_benchmark_and_back_on_failure():
    nodes = nodes_of(AWX["awx_workflow_nodes"])
    assert nodes["approve"]["approval_node"]["name"] and "unified_job_template" not in nodes["approve"]
    way = ["survey", "approve", "reconcile", "deploy", "benchmark"]
    assert [nodes[name]["success_nodes"] for name in way] == [*([name] for name in way[1:]), []]
    assert nodes["deploy"]["failure_nodes"] == nodes["benchmark"]["failure_nodes"] == ["rollback"]
    assert nodes["rollback"]["extra_data"] == {"dflash_before": {}}, (
        "without a deployment's artifacts nothing is undone"
    )
    assert "extra_data" not in nodes["deploy"]
    names = {short["name"] for short in AWX["awx_templates"]}
    assert {node["unified_job_template"] for node in nodes.values() if "unified_job_template" in node} <= names


def test_a_node_comes_after_those_that_it_leads_to():
    made = set()
    for call in awx_objects.workflow_nodes(AWX["awx_workflow_nodes"], "W", "DFlash"):
        assert {*call.get("success_nodes", []), *call.get("failure_nodes", [])} <= made
        made.add(call["identifier"])
    assert made == {node["identifier"] for node in AWX["awx_workflow_nodes"]}


@pytest.mark.parametrize(
    ("nodes", "text"),
    [
        ([{"identifier": "a", "template": "x", "success": ["nowhere"]}], "leads to 'nowhere'"),
        ([{"identifier": "a", "template": "x", "failure": ["a"]}], "back to itself: a -> a"),
    ],
)
def test_a_node_that_leads_nowhere_or_to_itself_is_refused(nodes, text):
    with pytest.raises(ValueError, match=text):
        nodes_of(nodes)
