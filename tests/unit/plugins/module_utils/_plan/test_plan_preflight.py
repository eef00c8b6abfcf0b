# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Preflight: the wrong machine, the wrong driver, one machine under two names."""

from __future__ import annotations

import pytest
from ansible_collections.inferlab.dflash.plugins.module_utils._plan import preflight
from ansible_collections.inferlab.dflash.plugins.module_utils._plan.errors import PlanError
from ansible_collections.inferlab.dflash.tests.unit.plugins.module_utils._plan import plan_facts as facts

EIGHT = facts.gpu([facts.device(n) for n in range(8)])
EXPECT = {"gpu_name": "RTX PRO 6000", "gpu_count": "8", "driver": "595.71.05"}


def codes(found):
    return [finding["code"] for finding in found]


def test_the_right_machine_has_no_finding():
    found = preflight.findings(EXPECT, EIGHT, "ct200")
    assert found == []
    assert preflight.verdict(found) == {"verdict": "ready", "because": [], "after": []}


def test_a6000s_that_answer_for_a_pro6000_host_are_refused_by_name():
    a6000 = facts.gpu([facts.device(n, name=facts.A6000) for n in range(2)])
    found = preflight.findings(EXPECT, a6000, "ct200")
    assert found[0]["code"] == "wrong_machine"
    for part in ("ct200", "wrong machine", "8 x RTX PRO 6000", "2 x NVIDIA RTX A6000"):
        assert part in found[0]["message"]
    assert preflight.verdict(found)["verdict"] == "not_ready"


def test_the_count_alone():
    found = preflight.findings({"gpu_count": 2}, EIGHT, "h")
    assert codes(found) == ["wrong_gpu_count"]


@pytest.mark.parametrize(
    ("expected", "found", "matches"),
    [
        ("RTX PRO 6000", facts.PRO6000, True),
        ("nvidia rtx pro 6000 blackwell", facts.PRO6000, True),
        ("RTX A6000", facts.A6000, True),
        ("RTX 6000", facts.A6000, False),
        ("RTX A6000", facts.PRO6000, False),
        ("H200", None, False),
    ],
)
def test_names(expected, found, matches):
    assert preflight.name_matches(expected, found) is matches


@pytest.mark.parametrize(
    ("expected", "found", "matches"),
    [
        ("580", "580.126.09", True),
        ("580.126.09", "580.126.09", True),
        ("580.126.9", "580.126.09", False),
        ("580.12", "580.126.09", False),
        ("580.126.09", "580.126", False),
    ],
)
def test_drivers(expected, found, matches):
    assert preflight.driver_matches(expected, found) is matches


def test_a_mismatch_is_repairable_and_names_both_versions():
    gpu = facts.gpu(
        [facts.device(0)], state="mismatch", kernel_module_version="580.126.09", user_space_version="580.159.03"
    )
    found = preflight.findings({}, gpu, "ct129")
    assert codes(found) == ["driver_library_mismatch"]
    assert "580.126.09" in found[0]["message"] and "580.159.03" in found[0]["message"]
    said = preflight.verdict(found)
    assert said["verdict"] == "ready_after"
    assert "reconcile_driver" in said["after"][0]


def test_gpus_that_cannot_be_read_are_no_wrong_machine():
    gpu = facts.gpu([], state="no_driver", kernel_module_version=None, user_space_version=None)
    assert codes(preflight.findings({"gpu_name": "H200"}, gpu, "h")) == ["machine_unproven", "driver_no_driver"]


def test_a_gpu_host_without_gpu_is_the_wrong_machine():
    assert codes(preflight.findings(EXPECT, facts.NO_GPU, "h")) == ["wrong_machine", "wrong_driver"]


def test_no_expectation_and_no_gpu_is_ready():
    assert preflight.findings(None, facts.NO_GPU, "lab1") == []
    assert preflight.findings({"gpu_count": 0, "gpu_name": ""}, facts.NO_GPU, "lab1") == []


def test_the_wrong_driver():
    found = preflight.findings({"driver": "580"}, EIGHT, "h")
    assert codes(found) == ["wrong_driver"]
    assert "595.71.05 is loaded, the inventory expects 580" in found[0]["message"]


def test_an_alias_is_critical_and_a_guest_is_not():
    found = preflight.findings({}, EIGHT, "b", {"a": EIGHT, "c": facts.gpu(EIGHT["devices"], machine="m2")})
    assert codes(found) == ["same_machine", "host_and_guest"]
    assert "b and a are one machine" in found[0]["message"]


def test_equal_boot_ids_alone_say_nothing():
    assert preflight.findings({}, facts.NO_GPU, "a", {"b": facts.gpu([], state="no_gpu", machine="m2")}) == []


def test_unknown_state_warns_with_the_reasons():
    gpu = facts.gpu([], state="unknown")
    gpu["warnings"] = [{"field": "driver", "reason": "permission denied"}]
    found = preflight.findings({}, gpu, "h")
    assert codes(found) == ["driver_unknown"]
    assert "permission denied" in found[0]["message"]
    assert preflight.verdict(found)["verdict"] == "ready"


def test_a_pending_reboot_is_said():
    gpu = facts.gpu([facts.device(0)], reboot_required=True, next_boot_module_version="600.1.2")
    assert codes(preflight.findings({}, gpu, "h")) == ["reboot_required"]


def test_missing_facts_are_critical():
    assert codes(preflight.findings({}, None, "h")) == ["no_facts"]


@pytest.mark.parametrize(
    ("expect", "words"),
    [
        ({"gpu_nam": "x"}, "gpu_nam: this key is unknown"),
        ({"gpu_count": "many"}, "gpu_count = 'many'"),
        ({"driver": 580.1}, "Quote it"),
        ("RTX", "Give a mapping"),
    ],
)
def test_malformed_expectations(expect, words):
    with pytest.raises(PlanError, match=words):
        preflight.findings(expect, EIGHT)
