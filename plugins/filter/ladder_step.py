# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter ladder_step: the next profile to try, or where the ladder ends."""

from __future__ import annotations

DOCUMENTATION = r"""
name: ladder_step
author: inferlab.dflash contributors (@inferlab)
version_added: 1.0.0
short_description: Decide which profile of an instance to try next
description:
  - An instance is tried as wished first, then its C(profiles) in order, each at most once.
  - A profile is tried only when it changes something that can cure the diagnosed code, for every attempt that failed so
    far.
  - Codes that no profile can cure (a broken driver, a missing file, a taken port, hardware, an unknown cause) stop the
    ladder.
positional: _input
options:
  _input:
    description: A complete instance, from P(inferlab.dflash.dflash_wishes#filter).
    type: dict
    required: true
  attempts:
    description:
      - What was tried so far, in order, each with C(profile), C(ready) and, when it was not ready, C(code) and C(cause)
        of the
        diagnosis.
    type: list
    elements: dict
    default: []
  most:
    description: At most this many attempts in all.
    type: int
seealso:
  - plugin: inferlab.dflash.plan_instances
    plugin_type: filter
"""

EXAMPLES = r"""
- name: What comes next
  ansible.builtin.debug:
    msg: "{{ instance | inferlab.dflash.ladder_step([{'profile': 'as wished', 'ready': false, 'code': 'gpu_oom'}]) }}"
"""

RETURN = r"""
_value:
  description: The decision.
  type: dict
  contains:
    action:
      description: Try C(rung), or V(done) (it serves), or V(stop) (it failed).
      type: str
      choices: [try, done, stop]
    rung:
      description: The instance to plan and start, with C(profile) naming it; null unless C(action) is V(try).
      type: dict
    reason:
      description: Why.
      type: str
    skipped:
      description: Profiles that were passed over, each with the reason.
      type: list
      elements: str
    state:
      description: The state for the report.
      type: str
      choices: [trying, serving, degraded, failed]
    profile:
      description: The profile that this is about.
      type: str
    code:
      description: The diagnosis code that led here, if any.
      type: str
"""

import typing as t

from ansible_collections.inferlab.dflash.plugins.module_utils._plan import ladder


def ladder_step(
    instance: dict[str, t.Any],
    attempts: list[dict[str, t.Any]] | None = None,
    most: int | None = None,
) -> dict[str, t.Any]:
    """What comes next on the ladder of an instance."""
    return ladder.step(instance, attempts or [], most)


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Name to function."""
        return {"ladder_step": ladder_step}
