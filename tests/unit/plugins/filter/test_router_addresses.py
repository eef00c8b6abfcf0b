# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The workers of a router, from what runs on the hosts."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.inferlab.dflash.plugins.filter.router_addresses import router_addresses


def instance(name, port, active=True, **record):
    return {"name": name, "port": port, "active": active, "record": record}


HOSTS = {
    "web2": {"address": "192.0.2.2", "instances": [instance("main", 30000), instance("router", 30080, role="router")]},
    "web1": {"address": "192.0.2.1", "instances": [instance("main", 30000), instance("old", 30001, active=False)]},
    "web3": {"address": "2001:db8::3", "instances": [instance("other", 30000, served_model_name="main")]},
    "web4": {"address": None, "instances": None},
}


def test_running_instances_only_and_this_host_by_loopback():
    assert router_addresses(HOSTS, "web1") == [
        "http://127.0.0.1:30000",
        "http://192.0.2.2:30000",
        "http://[2001:db8::3]:30000",
    ]


def test_different_models_are_refused_unless_one_is_named():
    hosts = {**HOSTS, "web4": {"address": None, "instances": [instance("small", 30000)]}}
    with pytest.raises(AnsibleFilterError, match="main on web1 serves main, small on web4 serves small"):
        router_addresses(hosts, "web1")
    assert router_addresses(hosts, "web1", model="small") == ["http://web4:30000"]
