# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a page shows beyond the document itself: totals and rows, worked out here so that templates only print."""

from __future__ import annotations

import typing as t

Document = t.Mapping[str, t.Any]


def view_of(document: Document) -> dict[str, t.Any]:
    """Return the totals ("tiles") of a report's kind and whatever else its template wants."""
    view: dict[str, t.Any] = {"when": spoken_time(str(document.get("generated", "")))}
    builder = _BUILDERS.get(str(document.get("kind")))
    if builder:
        view.update(builder(document))
    return view


def spoken_time(stamp: str) -> str:
    """Return 2026-11-30T14:09:36Z as 2026-11-30 14:09:36 UTC."""
    return stamp.replace("T", " ").replace("Z", " UTC")


def tile(label: str, value: t.Any, tone: str = "plain") -> dict[str, t.Any]:
    """Return one total of the page's head."""
    return {"label": label, "value": value, "tone": tone}


def deploy_view(document: Document) -> dict[str, t.Any]:
    """Totals of a deployment: hosts by outcome, instances, their summed rate."""
    hosts = document.get("hosts") or {}
    states = [str(data.get("state") or "unknown") for data in hosts.values()]
    instances = [item for data in hosts.values() for item in data.get("instances") or []]
    rates = [item["tokens_per_second"] for item in instances if isinstance(item.get("tokens_per_second"), (int, float))]
    good = sum(state in ("serving", "ok", "unchanged") for state in states)
    degraded = states.count("degraded")
    tiles = [
        tile("hosts", len(hosts)),
        tile("serving", good, "good" if good else "plain"),
        tile("degraded", degraded, "warn" if degraded else "plain"),
        tile("not serving", len(states) - good - degraded, "bad" if len(states) - good - degraded else "plain"),
        tile("instances", len(instances)),
    ]
    if rates:
        tiles.append(tile("tokens a second, all", f"{sum(rates):,.0f}".replace(",", "\u202f")))
    return {"tiles": tiles}


def diagnose_view(document: Document) -> dict[str, t.Any]:
    """Totals of a diagnosis run: hosts, units looked at, faults found."""
    hosts = document.get("hosts") or {}
    units = [unit for data in hosts.values() for unit in data.get("units") or []]
    faults = [unit for unit in units if (unit.get("diagnosis") or {}).get("code") not in (None, "no_fault")]
    return {
        "tiles": [
            tile("hosts", len(hosts)),
            tile("units", len(units)),
            tile("faults", len(faults), "bad" if faults else "good"),
        ]
    }


def benchmark_view(document: Document) -> dict[str, t.Any]:
    """Totals of a benchmark: hosts, figures, and what the run itself wants at the head of the page."""
    hosts = document.get("hosts") or {}
    tiles = [tile("hosts", len(hosts))]
    tiles += [
        tile(str(item.get("label", "")), item.get("value", ""), str(item.get("tone", "plain")))
        for item in document.get("tiles") or []
    ]
    return {"tiles": tiles}


_BUILDERS: dict[str, t.Callable[[Document], dict[str, t.Any]]] = {
    "deploy": deploy_view,
    "diagnose": diagnose_view,
    "benchmark": benchmark_view,
}
