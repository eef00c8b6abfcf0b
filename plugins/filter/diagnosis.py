# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filters of the diagnose playbook: which units to look at, what was found on a host, and what a job's artifacts keep of it."""

from __future__ import annotations

import typing as t

# What a job's artifacts keep of a diagnosis; the rest is in the report.
VERDICT_KEYS = ("code", "cause", "meaning", "evidence", "remedy", "must_not")


def diagnosis_targets(here: t.Mapping[str, t.Any], units: t.Sequence[str] = ()) -> list[dict[str, t.Any]]:
    """Units to diagnose, each with ``unit``, ``url`` and ``api_key_file`` (None where there is none)."""
    instances = {item["unit"]: item for item in here.get("instances") or []}
    names = [unit if "." in unit else f"{unit}.service" for unit in units] or list(instances)
    return [_target(name, instances.get(name)) for name in names]


def _target(unit: str, instance: t.Mapping[str, t.Any] | None) -> dict[str, t.Any]:
    port = (instance or {}).get("port")
    return {
        "unit": unit,
        "url": f"http://127.0.0.1:{port}" if port else None,
        "api_key_file": f"/etc/dflash/{instance['name']}/api_key" if instance else None,
    }


def diagnosis_summary(results: t.Sequence[t.Mapping[str, t.Any]]) -> dict[str, t.Any]:
    """The report's entry of one host: ``state``, ``units``, and ``lines`` to show."""
    units: list[dict[str, t.Any]] = []
    lines: list[str] = []
    for result in results:
        found = dict(result.get("diagnosis") or {})
        unit = (result.get("item") or {}).get("unit", "?")
        state = _state(found, result.get("degraded"))
        entry = {"unit": unit, "state": state, "diagnosis": found, "degraded": result.get("degraded")}
        units.append(entry)
        lines += found.get("block") or [f"{unit}: {result.get('msg', 'not diagnosed')}"]
        if entry["degraded"]:
            lower = entry["degraded"]
            lines.append(
                f"  degraded: serves as {lower['profile']} instead of {lower['wanted']}, because of {lower['code']}"
            )
    order = ("failed", "unknown", "degraded", "healthy")
    state = next((name for name in order if any(unit["state"] == name for unit in units)), "idle")
    worst = next((unit["diagnosis"] for unit in units if unit["state"] == state), {})
    return {
        "state": state,
        "units": units,
        "lines": lines or ["no unit of ours on this host"],
        "result": {"state": state, "code": worst.get("code") if state in ("failed", "unknown") else None},
    }


def verdicts(entry: t.Mapping[str, t.Any]) -> list[dict[str, t.Any]]:
    """The diagnoses of a host's report entry, for machines: one a unit or failed instance, without what only a reader wants.

    What stopped a run without a diagnosis is there too, with code None, so that a failed host never has an empty list.
    """
    found = [
        _verdict(item.get("unit") or item.get("name"), item.get("message"), item["diagnosis"])
        for item in [*(entry.get("units") or []), *(entry.get("instances") or [])]
        if item.get("diagnosis")
    ]
    stopped = entry.get("stopped_by")
    if stopped:
        found.append(_verdict(stopped.get("task"), stopped.get("message"), stopped.get("diagnosis") or {}))
    return found


def _verdict(about: t.Any, message: t.Any, found: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    return {"about": about, "message": message or None, **{key: found.get(key) for key in VERDICT_KEYS}}


def _state(found: t.Mapping[str, t.Any], degraded: t.Any) -> str:
    if found.get("code") == "no_fault":
        return "degraded" if degraded else "healthy"
    return "unknown" if found.get("code") in (None, "unknown") else "failed"


class FilterModule:
    """Filters on diagnoses."""

    def filters(self) -> dict[str, t.Callable]:
        return {"diagnosis_targets": diagnosis_targets, "diagnosis_summary": diagnosis_summary, "verdicts": verdicts}
