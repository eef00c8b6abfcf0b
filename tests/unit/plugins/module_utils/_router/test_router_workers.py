# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Workers of a router: what to add, what to remove, who is missing."""

from __future__ import annotations

import pytest
from ansible_collections.inferlab.dflash.plugins.module_utils._router import workers

LISTED = [
    {"id": "1", "url": "http://192.0.2.1:30000", "is_healthy": True},
    {"id": "2", "url": "http://192.0.2.2:30000/", "is_healthy": False},
]


def test_what_is_wanted_already_is_left_alone():
    assert workers.plan(LISTED, ["http://192.0.2.2:30000", "http://192.0.2.1:30000/"]) == {"add": [], "remove": {}}


def test_added_and_removed():
    difference = workers.plan(LISTED, ["http://192.0.2.1:30000", "http://192.0.2.3:30000", "http://192.0.2.3:30000/"])
    assert difference == {"add": ["http://192.0.2.3:30000"], "remove": {"http://192.0.2.2:30000": "2"}}


def test_missing_are_the_unhealthy_and_the_unknown():
    wanted = ["http://192.0.2.1:30000", "http://192.0.2.2:30000", "http://192.0.2.3:30000"]
    assert workers.missing(LISTED, wanted) == wanted[1:]


def test_ipv6_keeps_its_brackets():
    assert workers.address("http://[2001:db8::1]:30000/") == "http://[2001:db8::1]:30000"


@pytest.mark.parametrize("url", ["192.0.2.1:30000", "http://h", "ftp://h:1", "http://h:1/v1", "http://h:99999", ""])
def test_no_address(url):
    with pytest.raises(ValueError, match="is no worker address"):
        workers.address(url)
