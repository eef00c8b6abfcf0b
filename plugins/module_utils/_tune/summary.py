# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a report shows of a sweep: cells for machines, tables and figure data for people, and the comparison of two reports."""

from __future__ import annotations

import math
import typing as t

from . import faults
from .decide import latency_ms
from .noise import Noise, rate_interval
from .samples import Sample, config_of, configs, group, measured, percentile, rate, samples, whole

STATES = {"winner": "winner", "no_gain": "no gain", "no_winner": "no winner"}


class CompareError(ValueError):
    """Two reports that cannot be compared; says which and why."""


def _round(value: float | None, digits: int = 3) -> float | None:
    return None if value is None or math.isnan(value) else round(value, digits)


def cells(
    rows: t.Sequence[t.Mapping[str, t.Any]],
    complete_blocks: t.Collection[int],
    noise: t.Mapping[str, t.Any] | None,
    latency_metric: str = "p95_tpot",
) -> list[dict[str, t.Any]]:
    """One entry a configuration and concurrency, the simplest configuration first.

    Milliseconds and tokens. ``round_ms`` is what one verify round (one token, without a drafter) took a request: tokens a second and
    user are ``accept_length`` over it, which is where a gain or its absence comes from.
    """
    kept = measured(whole(rows, complete_blocks))
    everything = samples(kept)
    estimate = Noise(**noise) if noise else None
    result = []
    for config in configs(kept):
        for level in sorted({int(r["concurrency_wanted"]) for r in kept if config_of(r) == config}):
            mine = [r for r in kept if config_of(r) == config and int(r["concurrency_wanted"]) == level]
            items = [s for s in everything if s.config == config.key and s.concurrency == level]
            interval = rate_interval(items, level, estimate, 0.95, 1)
            result.append(
                {
                    "configuration": config.key,
                    "label": config.label,
                    "algorithm": config.algorithm,
                    "budget": config.budget or None,
                    "concurrency": level,
                    "tokens_per_second": _round(rate(items, level)),
                    "interval": [_round(v) for v in interval] if interval else None,
                    "accept_length": _round(accept_length(mine)),
                    "accept_by_domain": {
                        domain: _round(accept_length(some))
                        for domain, some in group(mine, lambda r: r["domain"]).items()
                    },
                    "histogram": {str(k): v for k, v in faults.histogram(mine).items()},
                    "round_ms": _round(round_ms(mine, items)),
                    "build_ms": _round(_mean([r.get("tree", {}).get("build_ms") for r in mine])),
                    "p50_ttft_ms": _round(percentile([s.ttft for s in items], 50) * 1000),
                    "p95_ttft_ms": _round(percentile([s.ttft for s in items], 95) * 1000),
                    "p50_tpot_ms": _round(percentile([s.decode for s in items], 50) * 1000),
                    "p95_tpot_ms": _round(percentile([s.decode for s in items], 95) * 1000),
                    "p95_e2e_ms": _round(percentile([s.latency for s in items], 95) * 1000),
                    "latency_ms": _round(latency_ms(items, latency_metric)),
                    "requests": len(items),
                    "errors": sum(sum(r.get("error_kinds", {}).values()) for r in mine),
                }
            )
    return result


def _mean(values: t.Iterable[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return sum(known) / len(known) if known else None


def accept_length(rows: t.Sequence[t.Mapping[str, t.Any]]) -> float | None:
    """Tokens a verify round over rows; None where nothing is verified."""
    known = [r["accept"] for r in rows if r.get("accept", {}).get("length") and r["accept"].get("rounds")]
    rounds = sum(a["rounds"] for a in known)
    if rounds:
        return sum(a["length"] * a["rounds"] for a in known) / rounds
    return _mean(r.get("accept", {}).get("length") for r in rows)


def round_ms(rows: t.Sequence[t.Mapping[str, t.Any]], items: t.Sequence[Sample]) -> float | None:
    """Decoding time of a request over its rounds; without rounds a token is a round."""
    seconds = sum(s.latency - s.ttft for s in items)
    rounds = sum(r.get("accept", {}).get("rounds") or 0 for r in rows) or sum(s.tokens - 1 for s in items)
    return seconds / rounds * 1000 if rounds else None


def split(one: t.Mapping[str, t.Any], two: t.Mapping[str, t.Any]) -> str | None:
    """Where the difference of two cells comes from: acceptance times the cost of a round."""
    if not one.get("round_ms") or not two.get("round_ms"):
        return None
    accept = (one.get("accept_length") or 1.0) / (two.get("accept_length") or 1.0)
    cost = one["round_ms"] / two["round_ms"]
    text = f"{one['label']} against {two['label']}, {one['concurrency']} at once: acceptance x{accept:.2f}, round time x{cost:.2f}"
    if one.get("build_ms"):
        text += f" (of {one['round_ms']:.2f} ms, drafting and tree {one['build_ms']:.2f} ms)"
    return text + f", so x{accept / cost:.2f} while decoding"


def host_report(
    name: str,
    rows: t.Sequence[t.Mapping[str, t.Any]],
    complete_blocks: t.Collection[int],
    verdict: t.Mapping[str, t.Any],
    facts: t.Mapping[str, t.Any],
) -> dict[str, t.Any]:
    """The report's entry of one host, without figures.

    :param name: of the instance; ``facts``: label to value, shown as they are (engine, model, machine, time taken, ...).
    """
    table = cells(rows, complete_blocks, verdict.get("noise"), verdict["rule"]["latency_metric"])
    now = {c["concurrency"]: c for c in table if c["configuration"] == verdict["current"]}
    best = _shown_choice(verdict, table)
    ratio = {
        (v["concurrency"], c["configuration"]): c["versus_current"]
        for v in verdict["by_concurrency"]
        for c in v["candidates"]
        if c.get("versus_current")
    }
    splits = [
        text
        for level, current in now.items()
        for cell in table
        if cell["concurrency"] == level and cell["configuration"] == best and cell is not current
        for text in [split(cell, current)]
        if text
    ]
    return {
        "state": STATES[verdict["status"]],
        "instance": name,
        "status": verdict["status"],
        "reasons": verdict["reasons"],
        "current": verdict["current"],
        "choice": verdict["choice"],
        "gain": verdict["gain"],
        "faults": verdict["faults"],
        "noise": verdict["noise"],
        "rule": verdict["rule"],
        "cells": table,
        "splits": splits,
        "facts": {
            "instance": name,
            "verdict": "; ".join(verdict["reasons"]),
            **facts,
            "served now": verdict["current"],
            **({"where it comes from": "; ".join(splits)} if splits else {}),
        },
        "tables": [_table(level, table, ratio, verdict) for level in sorted({c["concurrency"] for c in table})],
        "histograms": [
            {
                "title": f"Tokens a verify round: {c['label']}, {c['concurrency']} at once",
                "counts": c["histogram"],
                "mean": c["accept_length"],
            }
            for c in table
            if c["histogram"]
            and c["configuration"] in (best, verdict["current"])
            and c["concurrency"] == min(now or [0])
        ],
    }


def _shown_choice(verdict: t.Mapping[str, t.Any], table: t.Sequence[t.Mapping[str, t.Any]]) -> str | None:
    """The configuration whose figures explain the verdict: the chosen one, else the fastest."""
    if verdict["choice"]:
        return str(verdict["choice"]["configuration"])
    at = [c for c in table if c["concurrency"] == verdict["concurrency"] and c["configuration"] != verdict["current"]]
    return str(max(at, key=lambda c: c["tokens_per_second"] or 0)["configuration"]) if at else None


COLUMNS = (
    *(
        "configuration",
        "tokens/s (95 % interval)",
        "against current (interval)",
        "tokens/round",
        "ms/round",
        "TTFT p50",
    ),
    *("ms/token p95", "errors"),
)


def _table(
    level: int,
    table: t.Sequence[t.Mapping[str, t.Any]],
    ratio: t.Mapping[tuple[int, str], t.Mapping[str, float]],
    verdict: t.Mapping[str, t.Any],
) -> dict[str, t.Any]:
    at = next(v for v in verdict["by_concurrency"] if v["concurrency"] == level)
    by_key = {c["configuration"]: c for c in at["candidates"]}
    lines = []
    for cell in (c for c in table if c["concurrency"] == level):
        versus = ratio.get((level, cell["configuration"]))
        candidate = by_key.get(cell["configuration"], {})
        marks = []
        if (at.get("choice") or {}).get("configuration") == cell["configuration"]:
            marks.append("chosen")
        if cell["configuration"] == verdict["current"]:
            marks.append("current")
        if candidate.get("tied_with_fastest"):
            marks.append("tied")
        if candidate.get("why_not"):
            marks.append(candidate["why_not"])
        span = cell["interval"]
        lines.append(
            [
                cell["label"] + (f" ({', '.join(marks)})" if marks else ""),
                _show(cell["tokens_per_second"], 1)
                + (f" ({_show(span[0], 1)} to {_show(span[1], 1)})" if span else ""),
                f"{_share(versus['ratio'])} ({_share(versus['low'])} to {_share(versus['high'])})" if versus else "",
                _show(cell["accept_length"], 2),
                _show(cell["round_ms"], 2),
                _show(cell["p50_ttft_ms"], 1),
                _show(cell["p95_tpot_ms"], 2),
                str(cell["errors"]),
            ]
        )
    return {
        "title": f"{level} request{'s' if level > 1 else ''} at once",
        "columns": list(COLUMNS),
        "numeric": list(range(1, len(COLUMNS))),
        "rows": lines,
        "caption": "; ".join(at["reasons"]),
    }


def _show(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def _share(ratio: float) -> str:
    return f"{(ratio - 1) * 100:+.1f} %"


def compare_reports(old: t.Mapping[str, t.Any], new: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Two benchmark reports side by side, cell by cell.

    A change counts as one when the two 95 % intervals do not overlap.

    :returns: ``hosts``: name to a list of {configuration, concurrency, old, new, ratio, changed, ...}; ``missing`` and ``added`` cells;
        ``table`` for the role report.
    :raises CompareError: something that is no benchmark report, or no cell in common.
    """
    for which, report in (("first", old), ("second", new)):
        if not isinstance(report, t.Mapping) or report.get("kind") != "benchmark" or "hosts" not in report:
            raise CompareError(
                f"the {which} file is no benchmark report (kind {report.get('kind') if isinstance(report, t.Mapping) else None!r})"
            )
    before, after = (_cells_of(report) for report in (old, new))
    both = [key for key in after if key in before]
    if not both:
        raise CompareError("the two reports have no host, configuration and concurrency in common")
    lines: dict[str, list[dict[str, t.Any]]] = {}
    for key in both:
        was, now = before[key], after[key]
        apart = bool(was["interval"] and now["interval"]) and (
            now["interval"][0] > was["interval"][1] or now["interval"][1] < was["interval"][0]
        )
        lines.setdefault(key[0], []).append(
            {
                "configuration": key[1],
                "concurrency": key[2],
                "label": now["label"],
                "old": was["tokens_per_second"],
                "new": now["tokens_per_second"],
                "ratio": now["tokens_per_second"] / was["tokens_per_second"] if was["tokens_per_second"] else None,
                "old_accept_length": was["accept_length"],
                "new_accept_length": now["accept_length"],
                "old_round_ms": was["round_ms"],
                "new_round_ms": now["round_ms"],
                "changed": apart,
            }
        )
    return {
        "old": old.get("generated"),
        "new": new.get("generated"),
        "hosts": lines,
        "missing": [list(key) for key in before if key not in after],
        "added": [list(key) for key in after if key not in before],
        "table": _compare_table(lines, old, new),
    }


def comparison_lines(comparison: t.Mapping[str, t.Any]) -> list[str]:
    """A comparison as aligned text lines."""
    table = [comparison["table"]["columns"], *comparison["table"]["rows"]]
    widths = [max(len(str(row[i])) for row in table) for i in range(len(table[0]))]
    lines = [f"{comparison['old']} against {comparison['new']}"]
    lines += ["  ".join(str(value).ljust(width) for value, width in zip(row, widths)).rstrip() for row in table]
    lines += [
        f"only in the {which} report: {' '.join(map(str, key))}"
        for which, name in (("first", "missing"), ("second", "added"))
        for key in comparison[name]
    ]
    return lines


def tiles(hosts: t.Mapping[str, t.Mapping[str, t.Any]]) -> list[dict[str, t.Any]]:
    """Totals of a report: how many instances have a winner, and the gain and the speed of a single one."""
    tones = {"winner": "good", "no_gain": "plain", "no_winner": "bad"}
    result = [
        {"label": STATES[status], "value": count, "tone": tones[status] if count else "plain"}
        for status in ("winner", "no_gain", "no_winner")
        for count in [sum(data["status"] == status for data in hosts.values())]
        if count or len(hosts) > 1
    ]
    if len(hosts) == 1:
        data = next(iter(hosts.values()))
        if data["choice"]:
            result.append({"label": "chosen", "value": data["choice"]["configuration"], "tone": "good"})
        if data["gain"]:
            result.append({"label": "gain", "value": _share(data["gain"]["ratio"]), "tone": "good"})
        fastest = max(
            (c for c in data["cells"] if c["tokens_per_second"]), key=lambda c: c["tokens_per_second"], default=None
        )
        if fastest:
            text = f"{fastest['tokens_per_second']:.0f}"
            result.append(
                {
                    "label": f"tokens/s at most ({fastest['label']}, {fastest['concurrency']} at once)",
                    "value": text,
                    "tone": "plain",
                }
            )
    return result


def _cells_of(report: t.Mapping[str, t.Any]) -> dict[tuple[str, str, int], t.Mapping[str, t.Any]]:
    return {
        (host, cell["configuration"], cell["concurrency"]): cell
        for host, data in report["hosts"].items()
        for cell in data.get("cells", ())
    }


def _compare_table(
    lines: t.Mapping[str, t.Sequence[t.Mapping[str, t.Any]]], old: t.Mapping[str, t.Any], new: t.Mapping[str, t.Any]
) -> dict[str, t.Any]:
    columns = [
        "host",
        "configuration",
        "at once",
        "tokens/s before",
        "now",
        "change",
        "acceptance before",
        "now",
        "beyond noise",
    ]
    rows = [
        [
            host,
            line["label"],
            str(line["concurrency"]),
            _show(line["old"], 1),
            _show(line["new"], 1),
            _share(line["ratio"]) if line["ratio"] else "",
            _show(line["old_accept_length"], 2),
            _show(line["new_accept_length"], 2),
            "yes" if line["changed"] else "no",
        ]
        for host, some in lines.items()
        for line in some
    ]
    title = f"Against the report of {old.get('generated')}"
    return {
        "title": title,
        "columns": columns,
        "numeric": list(range(2, 8)),
        "rows": rows,
        "caption": f"Now: {new.get('generated')}",
    }


def figure_data(host: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """What the plots are drawn from: the cells of one host's entry, and the marks on them."""
    return {
        "instance": host["instance"],
        "cells": host["cells"],
        "current": host["current"],
        "choice": (host["choice"] or {}).get("configuration"),
        "latency_metric": host["rule"]["latency_metric"],
        "latency_bound_ms": host["rule"]["latency_bound_ms"],
    }
