# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""AWX objects from this project's short definitions. Pure; private to this collection.

Source of the formats: the documentation of awx.awx.job_template and awx.awx.workflow_job_template.
"""

from __future__ import annotations

import typing as t

from . import survey_form


def without_empty(values: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """``values`` without empty strings and empty lists, which the controller would take for settings."""
    return {key: value for key, value in values.items() if value not in ("", [], None)}


def job_template(
    short: t.Mapping[str, t.Any],
    common: t.Mapping[str, t.Any],
    options: t.Mapping[str, t.Any],
    bounds: t.Mapping[str, t.Sequence[int]],
    asked: t.Sequence[str],
) -> dict[str, t.Any]:
    """Arguments of awx.awx.job_template; the limit is asked for on launch, since no playbook here runs without one."""
    template = {
        "job_type": "run",
        "ask_limit_on_launch": True,
        "ask_diff_mode_on_launch": True,
        "ask_variables_on_launch": True,
        "use_fact_cache": True,
        "allow_simultaneous": False,
        **common,
        **{key: value for key, value in short.items() if key != "survey"},
    }
    if short.get("survey"):
        template["survey_enabled"] = True
        template["survey_spec"] = survey_form.form(str(short["name"]), asked, options, bounds)
    return without_empty(template)


def workflow_nodes(nodes: t.Sequence[t.Mapping[str, t.Any]], organization: str) -> list[dict[str, t.Any]]:
    """The ``workflow_nodes`` of awx.awx.workflow_job_template.

    :raises ValueError: a node that leads to one that is not there.
    """
    known = {node["identifier"] for node in nodes}
    result = []
    for node in nodes:
        for target in [*node.get("success", []), *node.get("failure", [])]:
            if target not in known:
                raise ValueError(
                    f"workflow node {node['identifier']!r} leads to {target!r}, which is not a node; there are: {', '.join(sorted(known))}"
                )
        if "approval" in node:
            job = {"name": node["approval"], "description": node["approval"], "type": "workflow_approval", "timeout": 0}
        else:
            job = {"name": node["template"], "type": "job_template", "organization": {"name": organization}}
        result.append(
            {
                "identifier": node["identifier"],
                "unified_job_template": job,
                "related": {
                    "success_nodes": [{"identifier": target} for target in node.get("success", [])],
                    "failure_nodes": [{"identifier": target} for target in node.get("failure", [])],
                },
            }
        )
    return result
