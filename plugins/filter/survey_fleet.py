# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter survey_fleet: the hosts' answers as one picture."""

from __future__ import annotations

DOCUMENTATION = r"""
name: survey_fleet
author:
  - inferlab.dflash contributors (@inferlab)
version_added: 1.0.0
short_description: Turn the answers of surveyed hosts into findings, verdicts, changes, an inventory and a table
description:
  - Joins hosts that are one machine and hosts that share GPUs, judges which GPU is free, compares each host with what the
    inventory expects, and says of each whether it is ready for a deployment.
  - Hosts that did not answer become findings.
positional: _input
options:
  _input:
    description: The variable C(hostvars).
    type: dict
    required: true
  hosts:
    description: Names of the hosts to report, in order.
    type: list
    elements: str
    required: true
  gpu:
    description: >-
      Name of the variable in which each host's result of M(inferlab.dflash.gpu_facts) was registered, where O(survey) does not hold its
      facts.
    type: str
    default: _survey_gpu
  survey:
    description: Name of the variable in which each host's result of M(inferlab.dflash.host_survey_info) was registered.
    type: str
    default: _survey_host
  contexts:
    description: >-
      Name of the variable in which each host's result of M(inferlab.dflash.gpu_context_info) was registered, where it was asked for.
    type: str
    default: _survey_contexts
  expect:
    description: Name of the inventory variable that holds what is expected of a host.
    type: str
    default: dflash_expect
  thresholds:
    description: Limits of the findings, C(disk_free_gib), C(clock_skew_s), C(shm_mib) and C(restarts).
    type: dict
    default: {}
  idle_mib:
    description: Used memory in MiB below which a GPU counts as idle.
    type: int
    default: 1024
  previous:
    description: Text of an earlier survey's JSON report to compare with; empty for none.
    type: str
    default: ''
  only_changes:
    description: Whether the lines tell only what differs from O(previous).
    type: bool
    default: false
seealso:
  - module: inferlab.dflash.host_survey_info
  - plugin: inferlab.dflash.preflight_findings
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Judge the fleet
  ansible.builtin.debug:
    msg: "{{ (hostvars | inferlab.dflash.survey_fleet(hosts=ansible_play_hosts_all)).lines }}"
"""

RETURN = r"""
_value:
  description: The fleet.
  type: dict
  contains:
    hosts:
      description: Host names mapped to what the report says of each; see docs/schemas/report-survey.schema.json.
      type: dict
    findings:
      description: Findings of all hosts, worst first.
      type: list
      elements: dict
    changes:
      description: Differences from O(previous) as C(host), C(what), C(before) and C(after); null without an earlier survey.
      type: list
      elements: dict
    since:
      description: Time of the earlier survey.
      type: str
    inventory:
      description: A YAML inventory with groups by GPU model, number of GPUs, driver state and verdict.
      type: dict
    lines:
      description: The survey for the terminal.
      type: list
      elements: str
"""

import json
import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.inferlab.dflash.plugins.plugin_utils._lazy import Lazy

changes = Lazy("module_utils._survey.changes")
export = Lazy("module_utils._survey.export")
findings = Lazy("module_utils._survey.findings")
fleet = Lazy("module_utils._survey.fleet")
table = Lazy("module_utils._survey.table")


def survey_fleet(
    hostvars: t.Any,
    hosts: list[str],
    gpu: str = "_survey_gpu",
    survey: str = "_survey_host",
    contexts: str = "_survey_contexts",
    expect: str = "dflash_expect",
    thresholds: dict[str, int] | None = None,
    idle_mib: int = 1024,
    previous: str = "",
    only_changes: bool = False,
) -> dict[str, t.Any]:
    """Turn answers into a picture; see DOCUMENTATION."""
    unknown = sorted(set(thresholds or {}) - set(findings.THRESHOLDS))
    if unknown:
        known = ", ".join(findings.THRESHOLDS)
        raise AnsibleFilterError(f"survey_fleet: thresholds: {unknown[0]} is unknown; known are {known}")
    answers = {}
    for name in hosts:
        known = hostvars[name]
        answers[str(name)] = fleet.answer_of(
            known.get(gpu),
            known.get(survey),
            known.get(expect),
            known.get(contexts),
            address=known.get("ansible_host") or str(name),
        )
    judged = fleet.assemble(answers, thresholds, int(idle_mib))
    found = fleet.all_findings(judged)
    before = _earlier(previous)
    changed = changes.between(before["hosts"], judged) if before else None
    since = str(before["generated"]) if before else None
    lines = table.lines(judged, found)
    if only_changes:
        lines = table.change_lines(changed or [], since) if since else ["there is no earlier survey to compare with"]
    return {
        "hosts": judged,
        "findings": found,
        "changes": changed,
        "since": since,
        "inventory": export.inventory(judged),
        "lines": lines,
    }


def _earlier(text: str) -> dict[str, t.Any] | None:
    if not text:
        return None
    try:
        report = json.loads(text)
        kind, hosts = report["kind"], report["hosts"]
    except (ValueError, KeyError, TypeError) as exc:
        raise AnsibleFilterError(f"survey_fleet: the earlier report cannot be read: {exc}") from exc
    if kind != "survey" or not isinstance(hosts, dict):
        raise AnsibleFilterError(f"survey_fleet: the earlier report is of kind {kind!r}, a survey is needed")
    return report


class FilterModule:
    """Ansible's entry point."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filters of this file."""
        return {"survey_fleet": survey_fleet}
