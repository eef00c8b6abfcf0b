# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Report documents: shape, refusals, and what counts as a change."""

from __future__ import annotations

import json

import pytest
from ansible_collections.inferlab.dflash.plugins.plugin_utils._report.document import (
    ReportError,
    build_document,
    plain,
    without,
)

EARLY, LATE = "2026-11-30T14:09:36Z", "2026-11-30T15:00:00Z"
HOSTS = {"a": {"state": "serving", "instances": [{"name": "n", "tokens_per_second": 40.0}]}}


def build(hosts=None, now=EARLY, **options):
    return build_document(HOSTS if hosts is None else hosts, kind="deploy", now=now, **options)


def test_document_has_the_keys_of_every_report():
    document = build(title="Deployment", extra={"figures": []})["document"]
    assert list(document) == ["schema", "kind", "generated", "title", "figures", "hosts"]
    assert document["generated"] == EARLY
    assert document["hosts"] == HOSTS


def test_first_report_is_a_change_and_is_named_by_its_time():
    result = build()
    assert result["changed"] is True
    assert result["name"] == "20261130T140936Z"


def test_only_the_clock_moved_leaves_the_report_as_it_is():
    first = build()["document"]
    again = build(now=LATE, previous=json.dumps(first))
    assert again["changed"] is False
    assert again["document"] == first


def test_volatile_values_are_written_but_are_no_change():
    first = build()["document"]
    hosts = {"a": {"state": "serving", "instances": [{"name": "n", "tokens_per_second": 41.0}]}}
    again = build(hosts, now=LATE, previous=json.dumps(first), volatile=["tokens_per_second"])
    assert again["changed"] is False
    assert again["document"]["generated"] == LATE
    assert again["document"]["hosts"]["a"]["instances"][0]["tokens_per_second"] == 41.0
    assert build(hosts, now=LATE, previous=json.dumps(first))["changed"] is True


@pytest.mark.parametrize("broken", ["", None, "{", "[]", "null"])
def test_an_unreadable_previous_report_counts_as_none(broken):
    assert build(previous=broken)["changed"] is True


@pytest.mark.parametrize(
    ("kwargs", "words"),
    [
        ({"kind": "deployment"}, "'deployment' is not known; use one of deploy, survey"),
        ({"hosts": ["a"]}, "must map host names to their data, got list"),
        ({"hosts": {"a": {}, "b": "down"}}, "the data of b must be a mapping"),
        ({"extra": {"hosts": {}}}, "must not hold hosts"),
    ],
)
def test_refusals_name_value_reason_and_way_out(kwargs, words):
    arguments = {"hosts": HOSTS, "kind": "deploy", "now": EARLY, **kwargs}
    with pytest.raises(ReportError, match=words):
        build_document(arguments.pop("hosts"), **arguments)


class Wrapped(str):
    """Stands for a templated string type."""


def test_plain_unwraps_types_and_drops_what_json_lacks():
    value = plain({Wrapped("k"): (Wrapped("v"), True, None, float("nan"), b"x", {2, 1}), 3: 1.5})
    assert value == {"k": ["v", True, None, None, "x", [1, 2]], "3": 1.5}
    assert not isinstance(value["k"][0], Wrapped)


def test_without_removes_keys_at_any_depth():
    assert without({"a": 1, "b": [{"a": 2, "c": 3}]}, frozenset({"a"})) == {"b": [{"c": 3}]}
