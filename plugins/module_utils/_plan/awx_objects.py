# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""AWX objects from this project's short definitions. Pure; private to this collection.

Source of the formats: the documentation of awx.awx.job_template and awx.awx.workflow_job_template_node.
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


def workflow_nodes(
    nodes: t.Sequence[t.Mapping[str, t.Any]], workflow: str, organization: str
) -> list[dict[str, t.Any]]:
    """Arguments of awx.awx.workflow_job_template_node, call by call: every node after those that it leads to.

    Node by node, because the workflow_nodes of awx.awx.workflow_job_template report an approval as changed on every run; and an approval
    in two calls, because the module looks for an approval's links at the wrong place when it exists already.

    :raises ValueError: a node that leads to one that is not there, or back to itself.
    """
    short = {node["identifier"]: node for node in nodes}
    ordered: dict[str, list[dict[str, t.Any]]] = {}

    def add(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            raise ValueError(f"workflow node {name!r} leads back to itself: {' -> '.join((*path, name))}")
        if name not in short:
            raise ValueError(
                f"workflow node {path[-1]!r} leads to {name!r}, which is not a node; there are: {', '.join(sorted(short))}"
            )
        for target in [*short[name].get("success", []), *short[name].get("failure", [])]:
            add(target, (*path, name))
        ordered.setdefault(name, _calls(short[name], workflow, organization))

    for identifier in short:
        add(identifier, ())
    return [call for calls in ordered.values() for call in calls]


def _calls(node: t.Mapping[str, t.Any], workflow: str, organization: str) -> list[dict[str, t.Any]]:
    where = {"identifier": node["identifier"], "workflow_job_template": workflow, "organization": organization}
    links = {"success_nodes": list(node.get("success", [])), "failure_nodes": list(node.get("failure", []))}
    if "approval" in node:
        approval = {"name": node["approval"], "description": node["approval"], "timeout": 0}
        return [{**where, "approval_node": approval}, {**where, **links}]
    runs = {"unified_job_template": node["template"], "lookup_organization": organization}
    given = {"extra_data": dict(node["variables"])} if node.get("variables") else {}
    return [{**where, **runs, **given, **links}]
