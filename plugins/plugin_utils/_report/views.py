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


def survey_view(document: Document) -> dict[str, t.Any]:
    """Totals, fleet rows, GPU occupancy and table rows of a survey."""
    hosts = document.get("hosts") or {}
    states = [host.get("state") for host in hosts.values()]
    # GPUs that a host and its guest both see are one GPU.
    gpus = {gpu.get("uuid"): gpu for host in hosts.values() for gpu in host.get("gpus") or []}
    free = sum(bool(gpu.get("free")) for gpu in gpus.values())
    tiles = [tile("hosts", len(hosts))]
    for state, label, tone in (
        ("ready", "ready", "good"),
        ("ready_after", "ready after repair", "warn"),
        ("not_ready", "not ready", "bad"),
        ("unreachable", "unreachable", "bad"),
    ):
        count = states.count(state)
        if count or state == "ready":
            tiles.append(tile(label, count, tone if count else "plain"))
    tiles += [tile("GPUs", len(gpus)), tile("free GPUs", free, "good" if free else "plain")]
    since = document.get("since")
    return {
        "tiles": tiles,
        "rows": [survey_row(name, host) for name, host in hosts.items()],
        "occupied": occupied(hosts),
        "hosts": {name: survey_tables(host) for name, host in hosts.items()},
        "since": spoken_time(str(since)) if since else "the last survey",
    }


def survey_row(name: str, host: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """One line of the fleet table."""
    gpus = host.get("gpus") or []
    models = list(dict.fromkeys(gpu_model(gpu) for gpu in gpus))
    driver = host.get("driver") or {}
    survey = host.get("survey") or {}
    services = survey.get("services") or []
    state = driver.get("state")
    return {
        "name": name,
        "state": host.get("state") or "unknown",
        "gpus": f"{len(gpus)} × {', '.join(models)}" if gpus else "",
        "free": f"{sum(bool(gpu.get('free')) for gpu in gpus)} of {len(gpus)}" if gpus else "",
        "driver": driver.get("kernel_module_version") or driver.get("user_space_version") or "",
        "driver_state": state if state not in (None, "healthy", "no_gpu") else None,
        "serves": [
            unit["unit"].replace(".service", "")
            for unit in services
            if unit.get("active") == "active" and unit.get("kind") not in ("training", "other")
        ],
        "system": ((survey.get("host") or {}).get("os") or {}).get("name"),
    }


def gpu_model(gpu: t.Mapping[str, t.Any]) -> str:
    """A GPU's name without the vendor."""
    return str(gpu.get("name") or "unknown GPU").replace("NVIDIA ", "").replace("GeForce ", "")


def occupied(hosts: t.Mapping[str, t.Any]) -> list[dict[str, t.Any]]:
    """The occupancy picture: each physical GPU once, under the first host that sees it."""
    drawn: set[t.Any] = set()
    groups = []
    for name, host in hosts.items():
        gpus = [gpu for gpu in host.get("gpus") or [] if gpu.get("uuid") not in drawn]
        drawn.update(gpu.get("uuid") for gpu in gpus if gpu.get("uuid"))
        if gpus:
            joined = [*(host.get("shares_gpus_with") or []), *(host.get("same_machine_as") or [])]
            groups.append({"name": name, "joined": joined, "gpus": [gpu_bar(gpu) for gpu in gpus]})
    return groups


def gpu_bar(gpu: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """One GPU's memory as parts of a bar, and the same in words."""
    total, used = gpu.get("memory_total_mib"), gpu.get("memory_used_mib")
    holders = gpu.get("holders") or []
    parts = []
    if total and used is not None:
        left = min(used, total)
        for holder in sorted(holders, key=lambda item: not item.get("own")):
            size = min(holder.get("memory_mib") or 0, left)
            left -= size
            if size:
                parts.append(_part("own" if holder.get("own") else "used", size, total, str(holder.get("text") or "")))
        if left:
            # Where a holder's own share is unknown, the rest is most likely its.
            known = bool(holders) and any(holder.get("memory_mib") is None for holder in holders)
            kind = ("own" if gpu.get("own") else "used") if known else "unseen" if not gpu.get("free") else "used"
            parts.append(_part(kind, left, total, "in use, holder not visible" if not known else "in use"))
    if gpu.get("dead"):
        parts = [{"kind": "dead", "percent": "100", "text": "no CUDA context can be opened"}]
    memory = f"{used / 1024:.1f} of {total / 1024:.0f} GiB" if total and used is not None else "memory unknown"
    said = "free" if gpu.get("free") else "; ".join(gpu.get("reasons") or []) or "held"
    model = gpu_model(gpu)
    return {
        "index": gpu.get("index"),
        "model": model,
        "memory": memory,
        "said": "" if gpu.get("free") else said,
        "label": f"GPU {gpu.get('index')} {model}: {memory} in use, {said}",
        "parts": parts,
    }


def _part(kind: str, size: float, total: float, text: str) -> dict[str, t.Any]:
    return {"kind": kind, "percent": f"{100.0 * size / total:.2f}", "text": f"{text}, {size / 1024:.1f} GiB"}


def survey_tables(host: t.Mapping[str, t.Any]) -> dict[str, list[list[t.Any]]]:
    """Rows of a host card's tables."""
    survey = host.get("survey") or {}
    return {
        "services": [
            [unit["unit"], unit["kind"], service_state(unit), unit.get("restarts"), unit.get("user") or "root"]
            for unit in survey.get("services") or []
        ],
        "processes": [
            [
                process["command"],
                process["kind"],
                process["pid"],
                process.get("user") or f"uid {process.get('uid')}",
                f"{process['guest']['kind']} {process['guest']['id']}" if process.get("guest") else process.get("unit"),
                f"{process['rss_mib'] / 1024:.1f} GiB" if process.get("rss_mib") is not None else None,
            ]
            for process in survey.get("processes") or []
        ],
        "models": [
            [
                model["path"],
                model["role"],
                model.get("architecture") or model.get("model_type"),
                f"{model['size_mib'] / 1024:.1f} GiB",
                model_remarks(model),
            ]
            for model in survey.get("models") or []
        ],
        "ports": [
            [port["port"], port["address"], port.get("command") or "not visible", port.get("unit")]
            for port in survey.get("ports") or []
        ],
    }


def service_state(unit: t.Mapping[str, t.Any]) -> str:
    """A unit's state in a few words."""
    state = unit.get("active") or "not known"
    if state == "failed":
        return f"failed ({unit.get('result') or 'reason unknown'})"
    return f"{state} ({unit['sub']})" if unit.get("sub") and unit["sub"] != state else state


def model_remarks(model: t.Mapping[str, t.Any]) -> str:
    """What is to say about a model directory beside its size."""
    remarks = []
    if model.get("quantization"):
        remarks.append(str(model["quantization"]))
    if model.get("copy_of"):
        remarks.append(f"copy of {model['copy_of']}")
    if model.get("missing_files"):
        remarks.append(f"{len(model['missing_files'])} files missing")
    fits = [pair["target"] for pair in model.get("pairs") or [] if pair["ok"]]
    if fits:
        remarks.append(f"pair with {', '.join(fits)}")
    elif model.get("pairs"):
        remarks.append("pair with no target here")
    return "; ".join(remarks)


_BUILDERS: dict[str, t.Callable[[Document], dict[str, t.Any]]] = {
    "deploy": deploy_view,
    "diagnose": diagnose_view,
    "benchmark": benchmark_view,
    "survey": survey_view,
}
