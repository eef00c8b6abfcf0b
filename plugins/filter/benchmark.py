# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filters of the benchmark: the plan of a sweep, the verdict on its rows, the tuned file, the report."""

from __future__ import annotations

import json
import typing as t

import yaml
from ansible.errors import AnsibleFilterError
from ansible_collections.inferlab.dflash.plugins.plugin_utils._lazy import Lazy

decide = Lazy("module_utils._tune.decide")
plan = Lazy("module_utils._tune.plan")
summary = Lazy("module_utils._tune.summary")
tuned = Lazy("module_utils._tune.tuned")


def _plain(value: t.Any) -> t.Any:
    """Ansible's tagged values as plain Python, so that they survive json and keep their arithmetic."""
    if isinstance(value, t.Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, bool) or value is None:
        return value
    for kind in (int, float, str):
        if isinstance(value, kind):
            return kind(value)
    return value


def benchmark_plan(
    instance: t.Mapping[str, t.Any],
    model_path: str,
    drafter_path: str = "",
    algorithms: t.Sequence[str] | None = None,
    budgets: t.Sequence[t.Any] = (),
    **options: t.Any,
) -> dict[str, t.Any]:
    """Plan of a sweep around ``instance``, with ``visits`` (names) and ``current`` (key) beside what ddtree.bench reads."""
    instance, options = _plain(instance), _plain(options)
    try:
        chosen = plan.configurations(
            _plain(plan.ALGORITHMS if algorithms is None else algorithms), _plain(budgets), instance
        )
        made = plan.build(instance, str(model_path), str(drafter_path) or None, chosen, **options)
    except plan.PlanError as error:
        raise AnsibleFilterError(f"benchmark: {error}") from error
    current = plan.key_of(str(instance["algorithm"]), instance.get("budget"))
    return {"plan": made, "visits": plan.visit_names(made), "current": current}


def _rule(options: t.Mapping[str, t.Any]) -> decide.Rule:
    unknown = sorted(set(options) - set(decide.Rule._fields))
    if unknown:
        raise AnsibleFilterError(
            f"benchmark: the rule has no {', '.join(unknown)}; it has {', '.join(decide.Rule._fields)}"
        )
    return decide.Rule(**options)


def benchmark_verdict(
    result: t.Mapping[str, t.Any],
    current: str,
    rule: t.Mapping[str, t.Any] | None = None,
    target_concurrency: int | None = None,
) -> dict[str, t.Any]:
    """The verdict on what ``ddtree.bench collect`` printed."""
    result = _plain(result)
    try:
        return decide.decide(
            result["rows"],
            result["complete_blocks"],
            str(current),
            _rule(_plain(rule or {})),
            target_concurrency or None,
        )
    except decide.RuleError as error:
        raise AnsibleFilterError(f"benchmark: {error}") from error


def benchmark_confirmation(
    result: t.Mapping[str, t.Any], verdict: t.Mapping[str, t.Any], rule: t.Mapping[str, t.Any] | None = None
) -> dict[str, t.Any]:
    """Whether a second sweep bears the verdict out."""
    result = _plain(result)
    try:
        return decide.confirm(result["rows"], result["complete_blocks"], _plain(verdict), _rule(_plain(rule or {})))
    except decide.RuleError as error:
        raise AnsibleFilterError(f"benchmark: {error}") from error


def benchmark_report(
    result: t.Mapping[str, t.Any], verdict: t.Mapping[str, t.Any], name: str, facts: t.Mapping[str, t.Any] | None = None
) -> dict[str, t.Any]:
    """The report's entry of one host, without figures."""
    result = _plain(result)
    return summary.host_report(
        str(name), result["rows"], result["complete_blocks"], _plain(verdict), _plain(facts or {})
    )


def benchmark_figure_data(entry: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """What the plots of one host's entry are drawn from."""
    return summary.figure_data(_plain(entry))


def benchmark_comparison(old: t.Mapping[str, t.Any], new: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Two benchmark reports, cell by cell."""
    try:
        return summary.compare_reports(_plain(old), _plain(new))
    except summary.CompareError as error:
        raise AnsibleFilterError(f"benchmark: {error}") from error


def tuned_values(existing: str, name: str, verdict: t.Mapping[str, t.Any], day: str = "") -> dict[str, t.Any]:
    """``tuned`` (the variable dflash_tuned) and ``text`` (the file), with the verdict's choice laid over the former text."""
    try:
        former = yaml.safe_load(existing) if existing else None
    except yaml.YAMLError as error:
        raise AnsibleFilterError(
            f"benchmark: the former dflash_tuned.yml is not YAML, so it is left alone: {error}"
        ) from error
    verdict = _plain(verdict)
    values = tuned.merged(former, str(name), verdict["choice"])
    return {"tuned": values, "text": tuned.render(values, tuned.notes(str(name), verdict, str(day)))}


def benchmark_instance(
    planned: t.Sequence[t.Mapping[str, t.Any]], deployed: t.Sequence[t.Mapping[str, t.Any]], name: str = ""
) -> dict[str, t.Any]:
    """The instance to benchmark, as it is served now: its plan, under what the host's record says of it."""
    names = [str(item["name"]) for item in planned]
    wanted = str(name) or (names[0] if names else "")
    if wanted not in names:
        raise AnsibleFilterError(
            f"benchmark: there is no instance {wanted!r} in the inventory; there are: {', '.join(names) or 'none'}"
        )
    here = next((item for item in deployed if item["name"] == wanted and item.get("generation")), None)
    if here is None:
        raise AnsibleFilterError(f"benchmark: instance {wanted!r} is not deployed on this host; deploy it first")
    item = next(item for item in planned if item["name"] == wanted)
    return {**_plain(item), **{key: value for key, value in _plain(here["record"]).items() if value is not None}}


def benchmark_outcome(
    verdict: t.Mapping[str, t.Any], name: str, written: t.Mapping[str, t.Any] | None = None, confirmation: t.Any = None
) -> dict[str, t.Any]:
    """What set_stats carries: verdict, choice, the file (or its text, where it was not written), and the confirmation."""
    written, confirmation = _plain(written or {}), _plain(confirmation or {})
    return {
        "instance": str(name),
        **{key: _plain(verdict[key]) for key in ("status", "reasons", "current", "choice", "gain", "concurrency")},
        "by_concurrency": {str(v["concurrency"]): _plain(v["choice"]) for v in verdict["by_concurrency"]},
        "confirmed": confirmation.get("confirmed"),
        "confirmation": confirmation.get("reasons"),
        "tuned_file": written.get("file"),
        "tuned_written": written.get("written"),
        "tuned_text": written.get("text"),
    }


def benchmark_head(hosts: t.Mapping[str, t.Any], previous: str = "", now: str = "") -> dict[str, t.Any]:
    """Top of the report: tiles, and the table against the previous report where the two have something in common."""
    hosts = _plain(hosts)
    head: dict[str, t.Any] = {"tiles": summary.tiles(hosts), "tables": []}
    if previous:
        try:
            report = {"kind": "benchmark", "generated": now, "hosts": hosts}
            head["tables"].append(summary.compare_reports(json.loads(previous), report)["table"])
        except (ValueError, summary.CompareError):
            pass  # a report of other hosts, or of another version: there is nothing to compare
    return head


def comparison_lines(comparison: t.Mapping[str, t.Any]) -> list[str]:
    """A comparison for the terminal, a line each."""
    return summary.comparison_lines(_plain(comparison))


def scrape_targets(hosts: t.Sequence[str], hostvars: t.Mapping[str, t.Any]) -> list[dict[str, t.Any]]:
    """What Prometheus is to scrape: every deployed instance of ``hosts``, from the variable dflash_here of each."""
    return [
        {
            "host": str(host),
            "address": str(hostvars[host].get("ansible_host") or host),
            "port": int(item["port"]),
            "name": str(item["name"]),
            "engine_backend": str(item["record"].get("engine_backend") or ""),
            "algorithm": str(item["record"].get("algorithm") or ""),
        }
        for host in hosts
        for item in (hostvars[host].get("dflash_here") or {}).get("instances", ())
        # The router's own metrics are elsewhere and of another kind.
        if item.get("generation") and item.get("port") and not str(item["name"]).startswith("router")
    ]


def tuned_obstacle(places: t.Sequence[t.Mapping[str, t.Any]], root: str) -> str:
    """Why the tuned file cannot be written where it belongs; empty when nothing is in the way.

    ``places`` are the results of stat for the file, the folder, and the folder's name with .yml, .yaml and .json.
    """
    if not root:
        return "the host comes from an inventory that is no directory."
    file, folder, *single = places
    if file["stat"]["exists"] and not file["stat"].get("writeable", True):
        return "the file is not writable."
    if folder["stat"]["exists"] and not folder["stat"].get("isdir"):
        return f"{folder['item']} is a file, and Ansible would not read a folder of that name."
    hidden = [str(place["item"]) for place in single if place["stat"]["exists"]]
    if hidden and not folder["stat"]["exists"]:
        # Ansible reads the folder or the file, never both: a new folder would silently switch the file off.
        return f"{hidden[0]} holds the host's variables, and a folder beside it would hide it from Ansible. Move it into the folder first."
    return ""


class FilterModule:
    """Ansible's entry point."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {
            "benchmark_comparison": benchmark_comparison,
            "benchmark_confirmation": benchmark_confirmation,
            "benchmark_figure_data": benchmark_figure_data,
            "benchmark_head": benchmark_head,
            "benchmark_instance": benchmark_instance,
            "benchmark_outcome": benchmark_outcome,
            "benchmark_plan": benchmark_plan,
            "benchmark_report": benchmark_report,
            "benchmark_verdict": benchmark_verdict,
            "comparison_lines": comparison_lines,
            "scrape_targets": scrape_targets,
            "tuned_obstacle": tuned_obstacle,
            "tuned_values": tuned_values,
        }
