# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter readiness_verdict: findings boiled down to ready, ready after something, or not ready."""

from __future__ import annotations

DOCUMENTATION = r"""
name: readiness_verdict
author: inferlab.dflash contributors (@inferlab)
version_added: 1.0.0
short_description: Boil preflight findings down to one verdict
description:
  - A critical finding means not ready, a repairable one ready after its remedy, anything else ready.
positional: _input
options:
  _input:
    description: Findings of P(inferlab.dflash.preflight_findings#filter), or others of the same form.
    type: list
    elements: dict
    required: true
seealso:
  - plugin: inferlab.dflash.preflight_findings
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Say it
  ansible.builtin.debug:
    msg: "{{ findings | inferlab.dflash.readiness_verdict }}"
"""

RETURN = r"""
_value:
  description: The verdict.
  type: dict
  contains:
    verdict:
      description: The verdict itself.
      type: str
      choices: [ready, ready_after, not_ready]
    because:
      description: The messages of the findings that decided it.
      type: list
      elements: str
    after:
      description: What to do first, where the verdict is V(ready_after).
      type: list
      elements: str
"""

import typing as t

from ansible_collections.inferlab.dflash.plugins.plugin_utils._lazy import Lazy

preflight = Lazy("module_utils._plan.preflight")


def readiness_verdict(findings: list[dict[str, t.Any]]) -> dict[str, t.Any]:
    """One verdict from findings."""
    return preflight.verdict(findings)


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Name to function."""
        return {"readiness_verdict": readiness_verdict}
