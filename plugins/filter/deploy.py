# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filters of the deploy playbook: what stopped a host, what a host came to, tuned values over wishes, what a roll-back undoes."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.inferlab.dflash.plugins.module_utils._instance import summary
from ansible_collections.inferlab.dflash.plugins.plugin_utils._lazy import Lazy

classify = Lazy("module_utils._diagnosis.classify")

TUNABLE = ("algorithm", "budget")


def deploy_failure(result: t.Mapping[str, t.Any], task: t.Any = None) -> dict[str, t.Any]:
    """Task, message and diagnosis of the task that stopped a host."""
    message = summary.failure_text(result)
    found = dict(result.get("diagnosis") or {}) or classify.diagnose({"ansible_output": message})
    code = found.get("code") if found.get("code") not in (None, "unknown", "no_fault") else None
    name = getattr(task, "name", None) or (task.get("name") if isinstance(task, t.Mapping) else None) or "a task"
    return {"task": str(name), "message": message, "code": code, "diagnosis": found if code else None}


def deploy_summary(host: str, values: t.Mapping[str, t.Any], accept_degraded: t.Any = False) -> dict[str, t.Any]:
    """The report's entry of one host, from its variables."""
    facts = values.get("ansible_facts") or {}
    address = values.get("ansible_host") or host
    accept = str(accept_degraded).lower() in ("true", "yes", "on", "1")
    chosen = {name: values.get(name) for name in ("dflash_results", "dflash_stopped_by")}
    return summary.summarise(
        host,
        {**chosen, "gpu": facts.get("gpu"), "address": address, "checked": values.get("ansible_check_mode")},
        accept,
    )


def overlay_tuned(wishes: list[dict[str, t.Any]], tuned: t.Mapping[str, t.Any] | None) -> list[dict[str, t.Any]]:
    """Wishes with what the benchmark chose for them (``dflash_tuned``: instance name to algorithm and budget)."""
    tuned = tuned or {}
    for name, values in tuned.items():
        unknown = sorted(set(values) - set(TUNABLE))
        if unknown:
            raise AnsibleFilterError(
                f"dflash_tuned[{name!r}] has unknown keys: {', '.join(unknown)}; it may hold {', '.join(TUNABLE)}"
            )
    return [{**wish, **tuned.get(wish["name"], {})} for wish in wishes]


def plan_models(plan: t.Sequence[t.Mapping[str, t.Any]]) -> list[str]:
    """References of every model that a plan serves, targets and drafters, each once."""
    wanted = [reference for item in plan for reference in (item["model"], item.get("drafter")) if reference]
    return list(dict.fromkeys(wanted))


def peer_gpus(everyone: t.Mapping[str, t.Any], hosts: t.Sequence[str], host: str) -> dict[str, t.Any]:
    """The GPU facts of the other hosts of the play that have them."""
    found = {
        name: (everyone[name].get("ansible_facts") or {}).get("gpu")
        for name in hosts
        if name != host and name in everyone
    }
    return {name: gpu for name, gpu in found.items() if gpu}


def peer_plans(everyone: t.Mapping[str, t.Any], hosts: t.Sequence[str], host: str) -> dict[str, dict[str, t.Any]]:
    """What the other hosts of the play see, wish for and hold, for planning host and guest jointly."""
    return {
        name: {
            "gpu": gpu,
            "wishes": everyone[name].get("dflash_wishes") or [],
            "own": (everyone[name].get("dflash_here") or {}).get("instances") or [],
        }
        for name, gpu in peer_gpus(everyone, hosts, host).items()
    }


def rollback_targets(
    here: t.Sequence[t.Mapping[str, t.Any]], names: str = "", before: t.Mapping[str, t.Any] | None = None
) -> list[str]:
    """Names of the instances to roll back: those asked for, or all.

    :param here: a host's instances, from dflash_instance_info.
    :param names: the wanted ones, separated by commas; empty for all.
    :param before: instance name to the generation that was in force when a deployment of the same workflow began; an instance that
        this deployment did not move, or put back itself, is left out, and so is one that was not there.
    """
    present = {item["name"]: item.get("generation") for item in here}
    wanted = [name.strip() for name in str(names or "").split(",") if name.strip()] or list(present)
    missing = [name for name in wanted if name not in present]
    if missing:
        raise AnsibleFilterError(
            f"this host has no instance {', '.join(missing)}; it has: {', '.join(sorted(present)) or 'none'}"
        )
    if before is None:
        return wanted
    return [name for name in wanted if name in before and before[name] != present[name]]


class FilterModule:
    """Ansible's entry point."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {
            "deploy_failure": deploy_failure,
            "deploy_summary": deploy_summary,
            "instance_attempt": summary.attempt,
            "instance_report": summary.instance_report,
            "overlay_tuned": overlay_tuned,
            "peer_gpus": peer_gpus,
            "peer_plans": peer_plans,
            "plan_models": plan_models,
            "rollback_targets": rollback_targets,
        }
