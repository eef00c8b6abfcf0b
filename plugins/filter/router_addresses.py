# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter router_addresses: the workers of a router, from what runs on the hosts."""

from __future__ import annotations

DOCUMENTATION = r"""
name: router_addresses
author: inferlab.dflash contributors (@inferlab)
version_added: 1.0.0
short_description: Addresses of the running instances of some hosts
description:
  - Turns the results of M(inferlab.dflash.dflash_instance_info) on several hosts into the list of workers of a router.
  - Refuses instances that serve under different names unless O(model) chooses one.
positional: _input
options:
  _input:
    description: Host name to a mapping with C(address) and C(instances).
    type: dict
    required: true
  here:
    description: The router's own host, whose instances are reached by the loopback address.
    type: str
    required: true
  model:
    description: Only instances that serve under this name.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Say what a router on web1 would serve from
  ansible.builtin.debug:
    msg: "{{ {'web1': {'address': '192.0.2.1', 'instances': here.instances}} | inferlab.dflash.router_addresses('web1') }}"
"""

RETURN = r"""
_value:
  description: Addresses of the form C(http://HOST:PORT).
  type: list
  elements: str
"""

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.inferlab.dflash.plugins.module_utils._router.addresses import addresses


def router_addresses(hosts: dict[str, t.Any], here: str, model: str = "") -> list[str]:
    """Addresses of the running instances."""
    try:
        return addresses(hosts, str(here), str(model))
    except ValueError as exc:
        raise AnsibleFilterError(str(exc)) from exc


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Name to function."""
        return {"router_addresses": router_addresses}
