# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filters on one instance: its command line, its environment, its unit text's ExecStart."""

from __future__ import annotations

DOCUMENTATION = r"""
name: instance_argv
author: inferlab.dflash contributors (@inferlab)
version_added: 1.0.0
short_description: Command line of an instance
description:
  - Gives the words of the command that serves an instance, for either engine. Units, the benchmark and argument checks use the same words.
positional: _input
options:
  _input:
    description: A planned instance, from P(inferlab.dflash.plan_instances#filter).
    type: dict
    required: true
  model:
    description: Directory of the target on the host.
    type: str
    required: true
  drafter:
    description: Directory of the drafter on the host; needed unless the algorithm is V(none).
    type: str
  host:
    description: Address to listen on.
    type: str
    default: 0.0.0.0
  python:
    description: Interpreter; the default is the one of the instance's release link.
    type: str
"""

EXAMPLES = r"""
- name: Show the command
  ansible.builtin.debug:
    msg: "{{ instance | inferlab.dflash.instance_argv('/models/target', '/models/drafter') | join(' ') }}"
"""

RETURN = r"""
_value:
  description: Words of the command.
  type: list
  elements: str
"""

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.inferlab.dflash.plugins.module_utils._instance import launch, systemd_text


def instance_argv(
    instance: t.Mapping[str, t.Any], model: str, drafter: str | None = None, **options: t.Any
) -> list[str]:
    """Words of the command; refusals become filter errors."""
    try:
        return launch.argv(instance, model, drafter or None, **options)
    except launch.LaunchError as error:
        raise AnsibleFilterError(str(error)) from error


def instance_environment(instance: t.Mapping[str, t.Any]) -> dict[str, str]:
    """Environment of an instance's unit, without secrets."""
    return launch.environment(instance)


def systemd_command(words: t.Sequence[str]) -> str:
    """ExecStart= value of a list of words."""
    try:
        return systemd_text.command_line(words)
    except ValueError as error:
        raise AnsibleFilterError(str(error)) from error


class FilterModule:
    """Ansible's entry point."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {
            "instance_argv": instance_argv,
            "instance_environment": instance_environment,
            "systemd_command": systemd_command,
        }
