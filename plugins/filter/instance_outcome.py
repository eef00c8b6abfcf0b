# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter instance_outcome: one dictionary that says how an attempt to serve went."""

from __future__ import annotations

DOCUMENTATION = r"""
name: instance_outcome
author: inferlab.dflash contributors (@inferlab)
version_added: 1.0.0
short_description: How an attempt to serve went
description:
  - Joins the results of M(inferlab.dflash.server_ready) and M(inferlab.dflash.dflash_instance) into what deploy decides on and reports.
positional: _input, started, instance
options:
  _input:
    description: Result of M(inferlab.dflash.server_ready).
    type: dict
    required: true
  started:
    description: Result of M(inferlab.dflash.dflash_instance).
    type: dict
    required: true
  instance:
    description: The planned instance.
    type: dict
    required: true
  check_mode:
    description: Whether nothing was really started.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Keep the outcome
  ansible.builtin.set_fact:
    outcome: "{{ ready | inferlab.dflash.instance_outcome(started, instance) }}"
"""

RETURN = r"""
_value:
  description: C(name), C(ready), C(profile), C(generation), C(previous), C(diagnosis), C(message), C(acceptance_length), C(elapsed).
  type: dict
"""

import typing as t


def _message(ready: t.Mapping[str, t.Any], known: t.Mapping[str, t.Any] | None, instance: t.Mapping[str, t.Any]) -> str:
    if known:
        return (
            f"instance {instance['name']} failed with {known.get('code') or 'no known cause'} at {known.get('time')} and is not tried "
            "again; dflash_retry_failed=true tries it"
        )
    return str(ready.get("msg") or f"instance {instance['name']} is not ready")


def instance_outcome(
    ready: t.Mapping[str, t.Any],
    started: t.Mapping[str, t.Any],
    instance: t.Mapping[str, t.Any],
    check_mode: bool = False,
) -> dict[str, t.Any]:
    """Outcome of one attempt; in check mode nothing was started, and what would be started is taken to become ready."""
    known = started.get("known_failure")
    serves = known is None and (check_mode or bool(ready.get("ready")))
    diagnosis = {} if serves else {**known, "known": True} if known else dict(ready.get("diagnosis") or {})
    return {
        "name": instance["name"],
        "ready": serves,
        "profile": instance.get("profile"),
        "generation": started.get("generation"),
        "previous": started.get("previous"),
        "diagnosis": diagnosis,
        "message": "" if serves else _message(ready, known, instance),
        "acceptance_length": ready.get("acceptance_length"),
        "elapsed": ready.get("elapsed"),
        "journal_tail": [] if serves else list(ready.get("journal_tail") or []),
    }


class FilterModule:
    """Ansible's entry point."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"instance_outcome": instance_outcome}
