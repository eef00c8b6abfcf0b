# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A survey for the terminal: one line a host, then what is wrong."""

from __future__ import annotations

import typing as t

from .changes import in_words

_COLUMNS = ("HOST", "VERDICT", "GPUS", "FREE", "DRIVER", "SERVES", "FINDINGS")
_SHOWN = 20


def row(name: str, host: t.Mapping[str, t.Any]) -> tuple[str, ...]:
    """Return the cells of one host."""
    gpus = host["gpus"]
    models = list(dict.fromkeys(short_name(gpu["name"]) for gpu in gpus))
    driver = host["driver"] or {}
    versions = [v for v in (driver.get("kernel_module_version"), driver.get("user_space_version")) if v]
    shown = "/".join(dict.fromkeys(versions)) or "-"
    state = driver.get("state")
    if state not in (None, "healthy", "no_gpu"):
        shown = f"{state} {shown}".replace(" -", "")
    counts = [
        f"{count} {severity}"
        for severity in ("critical", "repairable", "warning", "info")
        if (count := sum(item["severity"] == severity for item in host["findings"]))
    ]
    return (
        name,
        host["state"].replace("_", " "),
        f"{len(gpus)} x {', '.join(models)}" if gpus else "-",
        f"{sum(gpu['free'] for gpu in gpus)}/{len(gpus)}" if gpus else "-",
        shown,
        ", ".join(serving(host)) or "-",
        ", ".join(counts) or "-",
    )


def short_name(name: t.Any) -> str:
    """Return a GPU's name without the vendor."""
    return str(name or "unknown").replace("NVIDIA ", "").replace("GeForce ", "")


def serving(host: t.Mapping[str, t.Any]) -> list[str]:
    """Return the units that are up and serve a model."""
    units = (host["survey"] or {}).get("services") or []
    return [
        u["unit"].replace(".service", "")
        for u in units
        if u["active"] == "active" and u["kind"] not in ("training", "other")
    ]


def align(rows: t.Sequence[t.Sequence[str]]) -> list[str]:
    """Return rows as lines with columns two blanks apart."""
    widths = [max(len(cells[column]) for cells in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(cells, widths)).rstrip() for cells in rows]


def lines(hosts: t.Mapping[str, t.Mapping[str, t.Any]], findings: t.Sequence[t.Mapping[str, t.Any]]) -> list[str]:
    """Return the table, and below it the findings that stand before a deployment, or warn."""
    told = align([_COLUMNS, *(row(name, host) for name, host in hosts.items())]) if hosts else ["no host was surveyed"]
    serious = [item for item in findings if item["severity"] != "info"]
    if serious:
        told.append("")
    for item in serious[:_SHOWN]:
        told.append(f"{item['severity']}: {item['message']}")
        told.append(f"    -> {item['remedy']}")
    if len(serious) > _SHOWN:
        told.append(f"... and {len(serious) - _SHOWN} more in the report")
    return told


def change_lines(changes: t.Sequence[t.Mapping[str, t.Any]], since: str) -> list[str]:
    """Return only what differs from an earlier survey."""
    if not changes:
        return [f"nothing changed since {since}"]
    return [f"changed since {since}:", *(in_words(change) for change in changes)]
