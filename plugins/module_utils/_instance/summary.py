# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a deployment came to on one host, for the report and for the screen. Pure; private to this collection."""

from __future__ import annotations

import re
import typing as t

ORDER = ("serving", "degraded", "failed")


def failure_text(result: t.Mapping[str, t.Any]) -> str:
    """The message of a failed task: its own, or those of its loop items; a censored one says so."""
    if result.get("results"):
        texts = [str(item.get("msg")) for item in result["results"] if item.get("failed") and item.get("msg")]
        if texts:
            return "; ".join(texts)
    if result.get("msg"):
        # ansible-core wraps a filter's own sentence in where and how it was evaluated.
        return re.split(r"The filter plugin '[\w.]+' failed: ", str(result["msg"]))[-1]
    if result.get("censored"):
        return "the task failed; its message is hidden because it may hold a secret"
    return str(result.get("stderr") or result.get("reason") or "the task failed without a message")


def attempt(outcome: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """What the ladder and the report keep of one attempt."""
    diagnosis = outcome.get("diagnosis") or {}
    return {
        "profile": outcome.get("profile"),
        "ready": outcome["ready"],
        "code": diagnosis.get("code"),
        "cause": diagnosis.get("cause"),
        "diagnosis": diagnosis or None,
        "message": outcome.get("message") or "",
        "seconds": outcome.get("elapsed"),
        "generation": outcome.get("generation"),
    }


def instance_report(
    tried: t.Mapping[str, t.Any],
    step: t.Mapping[str, t.Any],
    attempts: t.Sequence[t.Mapping[str, t.Any]],
    generation: t.Mapping[str, t.Any],
    address: str,
) -> dict[str, t.Any]:
    """One instance of the report: what serves where, how fast, and what was tried.

    :param tried: the last configuration that was tried; ``step``: the ladder's last word (``state, profile, code, reason``).
    :param generation: result of generation_info; empty when nothing was asked.
    """
    last = attempts[-1] if attempts else {}
    return {
        "name": tried["name"],
        "url": f"http://{address}:{tried['port']}",
        "engine_backend": tried["engine_backend"],
        "algorithm": tried["algorithm"],
        "budget": tried.get("budget") if tried["algorithm"] == "ddtree" else None,
        "tp_size": tried.get("tp_size"),
        "gpus": list(tried.get("gpus") or []),
        "state": step["state"],
        "profile": step.get("profile"),
        "code": step.get("code"),
        "reason": step.get("reason"),
        "generation": last.get("generation"),
        "message": last.get("message") or "",
        "diagnosis": last.get("diagnosis"),
        "attempts": [{"instance": tried["name"], **entry} for entry in attempts],
        "tokens_per_second": generation.get("tokens_per_second"),
        "acceptance_length": generation.get("acceptance_length"),
        "acceptance_histogram": generation.get("acceptance_histogram") or [],
        "completion": generation.get("completion"),
        "warnings": list(tried.get("warnings") or []),
    }


def overall(instances: t.Sequence[t.Mapping[str, t.Any]], stopped_by: t.Mapping[str, t.Any] | None) -> str:
    """``serving``, ``degraded`` or ``failed``: the worst of the host's instances, and failed when something stopped the run."""
    if stopped_by:
        return "failed"
    states = [str(instance["state"]) for instance in instances] or ["serving"]
    return max(states, key=ORDER.index)


def summarise(host: str, values: t.Mapping[str, t.Any], accept_degraded: bool = False) -> dict[str, t.Any]:
    """The report's entry of one host.

    :param values: ``dflash_results`` (list of outcomes with ``state, profile, code, url, ...``), ``dflash_stopped_by`` (``task, message, code``),
        ``gpu`` (the fact) and ``checked`` (whether this was check mode).
    :returns: the keys role report shows, and ``ok`` (whether the play may succeed), ``result`` (for set_stats), ``lines`` (for the screen).
    """
    instances = list(values.get("dflash_results") or [])
    stopped_by = values.get("dflash_stopped_by") or None
    state = overall(instances, stopped_by)
    worst = next((instance for instance in instances if instance["state"] == state), {})
    code = (stopped_by or {}).get("code") or worst.get("code")
    profile = worst.get("profile")
    gpu = values.get("gpu") or {}
    summary: dict[str, t.Any] = {
        "state": state,
        "profile": profile,
        "code": code,
        "address": values.get("address"),
        "instances": instances,
        "driver": gpu.get("driver"),
        "diagnosis": (stopped_by or {}).get("diagnosis") or worst.get("diagnosis") or None,
        "attempts": [attempt for instance in instances for attempt in instance.get("attempts") or []],
        "result": {"state": state, "profile": profile, "code": code},
        "ok": state == "serving" or (state == "degraded" and accept_degraded),
        "stopped_by": stopped_by,
    }
    summary["lines"] = _lines(host, summary, bool(values.get("checked")))
    return summary


def _lines(host: str, summary: t.Mapping[str, t.Any], checked: bool) -> list[str]:
    if summary["stopped_by"]:
        stopped = summary["stopped_by"]
        code = f" [{summary['code']}]" if summary["code"] else ""
        return [f"{host}: stopped{code} at '{stopped['task']}': {stopped['message']}"]
    lines = []
    for instance in summary["instances"]:
        if checked:
            lines.append(f"{host}: {instance['name']} would serve at {instance['url']} ({instance['algorithm']})")
            continue
        if instance["state"] == "failed":
            lines.append(f"{host}: {instance['name']} does not serve [{instance['code']}]: {instance['message']}")
            continue
        how = "" if instance["state"] == "serving" else f", DEGRADED: {instance['reason']}"
        lines.append(f"{host}: {instance['name']} serves at {instance['url']} ({instance['algorithm']}{how})")
        if instance.get("tokens_per_second") is not None:
            accepted = instance.get("acceptance_length")
            length = f", acceptance length {accepted:.2f}" if accepted is not None else ""
            lines.append(f"  {instance['tokens_per_second']:.1f} tokens a second{length}")
        if instance.get("completion"):
            lines.append(f"  {instance['completion']['prompt']!r} -> {instance['completion']['text'][:120]!r}")
    return lines or [f"{host}: no instance is wished for; nothing to do"]
