# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter awx_survey: a survey form from the playbooks' options."""

from __future__ import annotations

DOCUMENTATION = r"""
name: awx_survey
author: inferlab.dflash contributors (@inferlab)
version_added: 1.0.0
short_description: A survey form from the playbooks' options
description:
  - Makes the C(survey_spec) of an AWX job template from argument specifications, so that form and options cannot differ.
  - Secrets and types that a form cannot ask for are refused.
positional: _input, options, bounds
options:
  _input:
    description: Names of the options to ask for.
    type: list
    elements: str
    required: true
  options:
    description: Argument specification of the options.
    type: dict
    required: true
  bounds:
    description: Lowest and highest value of each number.
    type: dict
    required: true
  title:
    description: Title of the form.
    type: str
    default: Options
"""

EXAMPLES = r"""
- name: Show the form
  ansible.builtin.debug:
    msg: "{{ ['dflash_model'] | inferlab.dflash.awx_survey(dflash_options, dflash_bounds) }}"
"""

RETURN = r"""
_value:
  description: The survey_spec.
  type: dict
"""

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.inferlab.dflash.plugins.plugin_utils._lazy import Lazy

awx_objects = Lazy("module_utils._plan.awx_objects")
survey_form = Lazy("module_utils._plan.survey_form")


def awx_survey(
    names: t.Sequence[str], options: t.Mapping[str, t.Any], bounds: t.Mapping[str, t.Any], title: str = "Options"
) -> dict[str, t.Any]:
    """The survey_spec that asks for ``names``."""
    try:
        return survey_form.form(title, names, options, bounds)
    except survey_form.FormError as error:
        raise AnsibleFilterError(str(error)) from error


def awx_workflow_nodes(
    nodes: t.Sequence[t.Mapping[str, t.Any]], workflow: str, organization: str
) -> list[dict[str, t.Any]]:
    """Arguments of awx.awx.workflow_job_template_node for each node."""
    try:
        return awx_objects.workflow_nodes(nodes, workflow, organization)
    except ValueError as error:
        raise AnsibleFilterError(str(error)) from error


class FilterModule:
    """Ansible's entry point."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {
            "awx_job_template": awx_objects.job_template,
            "awx_survey": awx_survey,
            "awx_workflow_nodes": awx_workflow_nodes,
            "without_empty": awx_objects.without_empty,
        }
