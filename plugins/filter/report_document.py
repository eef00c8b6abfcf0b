# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter report_document: host data to a report document."""

from __future__ import annotations

DOCUMENTATION = r"""
name: report_document
author:
  - inferlab.dflash contributors (@inferlab)
version_added: 1.0.0
short_description: Build a report document and compare it with the previous one
description:
  - Turns the data of a run's hosts into the document that role P(inferlab.dflash.report#role) writes.
  - Says whether anything but the time and the given volatile values differs from the previous report.
positional: _input
options:
  _input:
    description: Host names mapped to their data.
    type: dict
    required: true
  kind:
    description: What is reported.
    type: str
    required: true
    choices: [deploy, survey, benchmark, diagnose]
  now:
    description: Time of the report in UTC, for example V(2026-11-30T14:09:36Z).
    type: str
    required: true
  title:
    description: Heading of the page.
    type: str
  extra:
    description: Further keys of the document beside C(hosts), for example C(findings) or C(figures).
    type: dict
    default: {}
  previous:
    description: Text of the previous report's JSON file; empty where there is none.
    type: str
  volatile:
    description: Keys, at any depth, that are measured anew each time and never count as a change.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Build a report of two hosts
  ansible.builtin.set_fact:
    result: >-
      {{ {'a': {'state': 'serving'}, 'b': {'state': 'refused'}}
         | inferlab.dflash.report_document(kind='deploy', now='2026-11-30T14:09:36Z') }}
"""

RETURN = r"""
_value:
  description: The report and how it compares with the previous one.
  type: dict
  contains:
    document:
      description: The report itself, with C(schema), C(kind), C(generated), C(title), C(hosts) and the extra keys.
      type: dict
    changed:
      description: Whether it differs from the previous report in more than time and volatile values.
      type: bool
    name:
      description: File name, without suffix, of the dated copy.
      type: str
"""

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.inferlab.dflash.plugins.plugin_utils._report.document import ReportError, build_document


def report_document(hosts: t.Any, kind: str, now: str, **options: t.Any) -> dict[str, t.Any]:
    """Build a report document; see DOCUMENTATION."""
    try:
        return build_document(hosts, kind=kind, now=now, **options)
    except ReportError as exc:
        raise AnsibleFilterError(f"report_document: {exc}") from exc


class FilterModule:
    """Ansible's entry point."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filters of this file."""
        return {"report_document": report_document}
