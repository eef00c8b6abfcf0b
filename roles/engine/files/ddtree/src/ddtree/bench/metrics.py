# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""The server's own counters: Prometheus text in, acceptance and traffic over an interval out.

Counters run since the server's start, so everything here is a difference of two snapshots. Names are
the project's ``ddtree_*`` (both engines); SGLang's own are the fall-back.
"""

from __future__ import annotations

import json
import math
import re
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from typing import Any

_LINE = re.compile(r"^([A-Za-z_:][A-Za-z0-9_:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+-?\d+)?$")
_LABEL = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)="((?:[^"\\]|\\.)*)"')

# Candidates in order of preference. SGLang writes ':' after its prefix.
ROUNDS = ("ddtree_verify_rounds_total", "sglang:spec_verify_calls_total")
ACCEPTED = ("ddtree_accepted_tokens_total",)
GENERATED = ("ddtree_generation_tokens_total", "sglang:generation_tokens_total")
REQUESTS = ("ddtree_requests_total", "sglang:num_requests_total")
RUNNING = ("ddtree_requests_running", "sglang:num_running_reqs")
WAITING = ("ddtree_requests_waiting", "sglang:num_queue_reqs")
HISTOGRAM = "ddtree_accept_length"
GAUGE = "sglang:spec_accept_length"
_PARTS = ("_count", "_sum")


@dataclass(frozen=True)
class Snapshot:
    """One reading: metric name to value summed over its labels, and histogram buckets by upper bound."""

    values: dict[str, float]
    buckets: dict[str, dict[float, float]] = field(default_factory=dict)

    def first(self, names: tuple[str, ...]) -> float | None:
        """The value of the first of `names` that the server exports."""
        return next((self.values[n] for n in names if n in self.values), None)


def parse(text: str) -> Snapshot:
    """Read the text exposition format; lines that are not samples are passed over."""
    values: dict[str, float] = {}
    buckets: dict[str, dict[float, float]] = {}
    for line in text.splitlines():
        match = _LINE.match(line.strip())
        if not match:
            continue
        name, labels, raw = match.groups()
        try:
            value = float(raw)
        except ValueError:
            continue
        bound = dict(_LABEL.findall(labels or "")).get("le") if name.endswith("_bucket") else None
        if bound is not None:
            series = buckets.setdefault(name[: -len("_bucket")], {})
            series[float(bound)] = series.get(float(bound), 0.0) + value
        else:
            values[name] = values.get(name, 0.0) + value
    return Snapshot(values, buckets)


def get(url: str, path: str, api_key: str | None = None, timeout: float = 5.0) -> str:
    """GET below the server's base URL; OSError (URLError, HTTPError) when it does not answer."""
    request = urllib.request.Request(url.rstrip("/").removesuffix("/v1") + path)
    if api_key:
        request.add_header("Authorization", f"Bearer {api_key}")
    with urllib.request.urlopen(request, timeout=timeout) as response:
        return response.read().decode("utf-8", "replace")


def snapshot(url: str, api_key: str | None = None) -> Snapshot | None:
    """The server's metrics now; None when it has no /metrics (SGLang without --enable-metrics)."""
    try:
        return parse(get(url, "/metrics", api_key))
    except OSError:
        return None


def settled(url: str, api_key: str | None = None, patience: float = 2.0) -> Snapshot | None:
    """The metrics once nothing runs or waits any more, or after `patience` seconds as they are.

    A server counts a request when it is done with it, which may be a moment after its client is.
    """
    deadline = time.monotonic() + patience
    previous = snapshot(url, api_key)
    while previous is not None and time.monotonic() < deadline:
        time.sleep(0.05)
        now = snapshot(url, api_key)
        if now is None or (not now.first(RUNNING) and not now.first(WAITING) and _counters(now) == _counters(previous)):
            return now
        previous = now
    return previous


def _counters(reading: Snapshot) -> tuple[float | None, ...]:
    return tuple(reading.first(names) for names in (REQUESTS, ROUNDS, ACCEPTED))


def server_info(url: str, api_key: str | None = None) -> dict[str, Any]:
    """/server_info of either engine; {} when there is none."""
    try:
        info = json.loads(get(url, "/server_info", api_key))
    except (OSError, ValueError):
        return {}
    return info if isinstance(info, dict) else {}


def simulated(info: dict[str, Any]) -> bool:
    """True when the server itself says that its acceptance is simulated, anywhere in its information."""

    def found(value: Any) -> bool:
        if isinstance(value, dict):
            for key, item in value.items():
                name = str(key).lower()
                if name.startswith("simulated_acc") and item:
                    return True
                if name.endswith("simulate_acc_len") and _number(item) is not None and _number(item) > 0:
                    return True
                if found(item):
                    return True
        return isinstance(value, list) and any(found(item) for item in value)

    return found(info)


def _number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return None if math.isnan(number) else number


@dataclass(frozen=True)
class Acceptance:
    """Acceptance over an interval: tokens a verify round, the bonus token included.

    `source` says where the length is from: `histogram`, `counters`, `sglang_counters`, `sglang_gauge`,
    `usage` or `none` (the server does not speculate, or does not say).
    """

    length: float | None
    rounds: int | None
    histogram: dict[int, int]
    source: str


def acceptance(before: Snapshot | None, after: Snapshot | None) -> Acceptance:
    """What the counters say happened between two snapshots."""
    if before is None or after is None:
        return Acceptance(None, None, {}, "none")

    def delta(names: tuple[str, ...]) -> float:
        end = after.first(names)
        return 0.0 if end is None else end - (before.first(names) or 0.0)

    old, histogram, below = before.buckets.get(HISTOGRAM, {}), {}, 0.0
    for bound, value in sorted(after.buckets.get(HISTOGRAM, {}).items()):
        total = value - old.get(bound, 0.0)
        if math.isfinite(bound) and total > below:
            histogram[round(bound)] = round(total - below)
        below = total
    count, total = delta((f"{HISTOGRAM}_count",)), delta((f"{HISTOGRAM}_sum",))
    if count > 0:
        return Acceptance(total / count, round(count), histogram, "histogram")
    rounds = delta(ROUNDS[:1])
    if rounds > 0:
        return Acceptance(delta(ACCEPTED) / rounds, round(rounds), {}, "counters")
    rounds = delta(ROUNDS[1:])
    if rounds > 0:
        # The first token of each request comes from its prefill, not from a verify round.
        tokens = delta(GENERATED[1:]) - delta(REQUESTS[1:])
        return Acceptance(tokens / rounds, round(rounds), {}, "sglang_counters")
    gauge = after.values.get(GAUGE)
    if gauge:
        return Acceptance(gauge, None, {}, "sglang_gauge")
    return Acceptance(None, None, {}, "none")


def tree_facts(before: Snapshot | None, after: Snapshot | None) -> dict[str, float]:
    """Means over an interval of what a tree engine says about itself: nodes a tree, ms to build one."""
    facts: dict[str, float] = {}
    if before is None or after is None:
        return facts
    for metric, name, scale in (
        ("ddtree_tree_nodes", "tree_nodes", 1.0),
        ("ddtree_tree_build_seconds", "build_ms", 1e3),
    ):
        count, total = (after.values.get(metric + end, 0.0) - before.values.get(metric + end, 0.0) for end in _PARTS)
        if count > 0:
            facts[name] = total / count * scale
        elif metric in after.values:
            facts[name] = after.values[metric] * scale
    return facts


def foreign_requests(before: Snapshot | None, after: Snapshot | None, ours: int) -> int | None:
    """Requests that the server counted beyond the `ours` that were sent; None when it does not count."""
    if before is None or after is None or after.first(REQUESTS) is None:
        return None
    return round((after.first(REQUESTS) or 0) - (before.first(REQUESTS) or 0)) - ours


def busy(first: Snapshot, second: Snapshot) -> str | None:
    """Why a server counts as serving somebody, from two readings some seconds apart; None when idle."""
    running, waiting = second.first(RUNNING), second.first(WAITING)
    if running or waiting:
        return f"{round(running or 0)} requests running, {round(waiting or 0)} waiting"
    began = (second.first(REQUESTS) or 0) - (first.first(REQUESTS) or 0)
    if began > 0:
        return f"{round(began)} requests arrived while it was watched"
    if all(second.first(names) is None for names in (RUNNING, WAITING, REQUESTS)):
        return "its metrics carry no request counters, so traffic cannot be ruled out"
    return None
