# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from ansible_collections.inferlab.dflash.plugins.module_utils._gpu import facts

ROOTS = yaml.safe_load((Path(__file__).parents[4] / "fixtures/gpu/roots.yml").read_text())


def leaves(value, prefix=""):
    for key, leaf in value.items():
        if isinstance(leaf, dict):
            yield from leaves(leaf, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", leaf


@pytest.mark.parametrize("case", ROOTS, ids=[case["name"] for case in ROOTS])
def test_facts_of_fixture_roots(case, make_root):
    found = facts.gather(make_root(case["files"], case.get("links")), set(facts.SUBSETS))
    driver = found["driver"]
    assert {key: driver[key] for key in case["expected"]} == case["expected"]
    assert found["identity"]["container"] == case.get("container", "none")
    if "packages" in case:
        assert {package["name"]: package["held"] for package in driver["packages"]} == case["packages"]
    if "devices" in case:
        assert len(found["devices"]) == len(case["devices"])
        for device, expected in zip(found["devices"], case["devices"]):
            assert {key: device[key] for key in expected} == expected


@pytest.mark.parametrize("case", ROOTS, ids=[case["name"] for case in ROOTS])
def test_every_unknown_value_has_its_reason(case, make_root):
    found = facts.gather(make_root(case["files"], case.get("links")), set(facts.SUBSETS))
    explained = {warning["field"] for warning in found["warnings"] if warning["reason"]}
    unknown = {f"driver.{key}" for key, value in found["driver"].items() if value is None and key != "nvml_error"}
    unknown |= {f"devices.{key}" for device in found["devices"] for key, value in leaves(device) if value is None}
    assert unknown - explained == set()


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        (["all"], set(facts.SUBSETS)),
        ([], set(facts.SUBSETS)),
        (["min"], {"driver"}),
        (["!all"], {"driver"}),
        (["processes"], {"driver", "devices", "processes"}),
        (["!topology"], {"driver", "devices", "processes", "packages", "toolkits"}),
        (["all", "!packages", "!toolkits"], {"driver", "devices", "processes", "topology"}),
    ],
)
def test_subsets(chosen, expected):
    assert facts.subsets(chosen) == expected


def test_an_unknown_subset_is_named():
    with pytest.raises(ValueError, match="colour"):
        facts.subsets(["driver", "!colour"])


def test_a_given_container_kind_replaces_the_detected_one(make_root):
    case = next(case for case in ROOTS if case["name"] == "lxc_guest_newer_than_its_host")
    found = facts.gather(make_root(case["files"], case["links"]), {"driver"}, "none")
    assert found["identity"]["container"] == "none"
    assert found["devices"] == [] and found["p2p"] is None
