# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter preflight_findings: is this the machine that the inventory means, and is it ready?"""

from __future__ import annotations

DOCUMENTATION = r"""
name: preflight_findings
author: inferlab.dflash contributors (@inferlab)
version_added: 1.0.0
short_description: Compare what the inventory expects of a host with its GPU facts
description:
  - Compares C(dflash_expect) with the facts, and names a wrong machine, a wrong driver, a driver that needs repair, one
    machine
    under two names, and a host with its guest.
positional: _input
options:
  _input:
    description: The mapping C(dflash_expect) with C(gpu_name), C(gpu_count) and C(driver), each optional.
    type: raw
    required: true
  gpu:
    description: The fact C(ansible_facts.gpu) of the host, from M(inferlab.dflash.gpu_facts).
    type: dict
    required: true
  host:
    description: The inventory name of the host.
    type: str
    default: this host
  peers:
    description: The same facts of the other hosts of the play, by name.
    type: dict
    default: {}
seealso:
  - plugin: inferlab.dflash.readiness_verdict
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Refuse the wrong machine
  ansible.builtin.assert:
    that: (findings | inferlab.dflash.readiness_verdict).verdict != 'not_ready'
    fail_msg: "{{ findings | map(attribute='message') | join('; ') }}"
  vars:
    findings: "{{ dflash_expect | inferlab.dflash.preflight_findings(ansible_facts['gpu'], host=inventory_hostname) }}"
"""

RETURN = r"""
_value:
  description: Findings, worst first.
  type: list
  elements: dict
  contains:
    severity:
      description: How bad it is.
      type: str
      choices: [critical, repairable, warning, info]
    code:
      description: A stable short name, such as V(wrong_machine) or V(driver_library_mismatch).
      type: str
    message:
      description: One sentence that names the host.
      type: str
    remedy:
      description: What to do.
      type: str
    expected:
      description: What was expected, where that applies.
      type: raw
    found:
      description: What was found, where that applies.
      type: raw
"""

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.inferlab.dflash.plugins.module_utils._plan.errors import PlanError
from ansible_collections.inferlab.dflash.plugins.plugin_utils._lazy import Lazy

preflight = Lazy("module_utils._plan.preflight")


def preflight_findings(
    expect: t.Any,
    gpu: dict[str, t.Any] | None,
    host: str = "this host",
    peers: dict[str, t.Any] | None = None,
) -> list[dict[str, t.Any]]:
    """What speaks against deploying to this host, worst first."""
    try:
        return preflight.findings(expect, gpu, str(host), peers or {})
    except PlanError as exc:
        raise AnsibleFilterError(str(exc)) from exc


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Name to function."""
        return {"preflight_findings": preflight_findings}
