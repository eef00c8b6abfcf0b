# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter dflash_wishes: the inventory's instances, checked and complete."""

from __future__ import annotations

DOCUMENTATION = r"""
name: dflash_wishes
author: inferlab.dflash contributors (@inferlab)
version_added: 1.0.0
short_description: Check the wished-for instances and make them complete
description:
  - Takes C(dflash_instances), or builds a list of one from the flat options when it is empty, and returns complete
    instances.
  - Unknown keys, wrong types, unknown algorithms, duplicate names and ports are refused, naming the value, the reason
    and a way out.
  - Strings from AWX surveys are coerced; empty ones count as not given.
positional: _input
options:
  _input:
    description:
      - The list C(dflash_instances); a string is read as YAML, as an AWX text area gives it.
      - Keys of an instance are C(name), C(engine_backend), C(model), C(drafter), C(served_model_name), C(algorithm),
        C(tp_size), C(gpus), C(host), C(port), C(budget), C(block_size), C(mem_fraction), C(env), C(args) and
        C(profiles).
    type: raw
    required: true
  flat:
    description:
      - The flat options C(dflash_name), C(dflash_engine_backend), C(dflash_model), C(dflash_drafter),
        C(dflash_algorithm),
        C(dflash_budget), C(dflash_tp_size), C(dflash_port).
      - Refused beside a list that is not empty.
    type: dict
"""

EXAMPLES = r"""
- name: Read the wishes
  ansible.builtin.set_fact:
    wishes: "{{ dflash_instances | inferlab.dflash.dflash_wishes }}"

- name: Read the flat options
  ansible.builtin.debug:
    msg: "{{ [] | inferlab.dflash.dflash_wishes(flat={'dflash_model': '/srv/qwen', 'dflash_port': '30000'}) }}"
"""

RETURN = r"""
_value:
  description: Complete instances; C(port) and C(gpus) may still be V(auto).
  type: list
  elements: dict
"""

import typing as t

import yaml
from ansible.errors import AnsibleFilterError
from ansible_collections.inferlab.dflash.plugins.module_utils._plan.errors import PlanError
from ansible_collections.inferlab.dflash.plugins.module_utils._plan.wishes import normalise


def dflash_wishes(instances: t.Any, flat: dict[str, t.Any] | None = None) -> list[dict[str, t.Any]]:
    """Complete instances from ``dflash_instances`` or the flat options."""
    if isinstance(instances, str) and instances.strip():
        try:
            instances = yaml.safe_load(instances)
        except yaml.YAMLError as exc:
            raise AnsibleFilterError(f"dflash_instances is a string that is no YAML: {exc}. Give a list.") from exc
    try:
        return normalise(instances, flat)
    except PlanError as exc:
        raise AnsibleFilterError(str(exc)) from exc


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Name to function."""
        return {"dflash_wishes": dflash_wishes}
