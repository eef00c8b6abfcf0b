# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rows of a sweep as the other parts need them."""

from __future__ import annotations

import math
import typing as t

ORDER = {"none": 0, "dflash": 1, "ddtree": 2}


class Config(t.NamedTuple):
    """A configuration. Sorted from the simplest to the largest: plain, chain, trees by budget."""

    rank: int
    budget: int
    key: str
    algorithm: str

    @property
    def label(self) -> str:
        """How a person reads it."""
        return {"none": "plain", "dflash": "chain"}.get(self.algorithm, f"tree {self.budget}")


class Sample(t.NamedTuple):
    """One request that succeeded. Times are seconds; ``age`` is the server's, since it was ready."""

    config: str
    concurrency: int
    block: int
    half: int
    domain: str
    prompt: str
    tokens: int
    latency: float
    ttft: float
    age: float
    head: str

    @property
    def decode(self) -> float:
        """Seconds a token after the first one; nan for an output of one token."""
        return (self.latency - self.ttft) / (self.tokens - 1) if self.tokens > 1 else math.nan


def config_of(row: t.Mapping[str, t.Any]) -> Config:
    """The configuration of a row (or of any mapping with configuration, algorithm and budget)."""
    algorithm = str(row.get("algorithm"))
    return Config(ORDER.get(algorithm, 9), int(row.get("budget") or 0), str(row["configuration"]), algorithm)


def configs(rows: t.Sequence[t.Mapping[str, t.Any]]) -> list[Config]:
    """All configurations of a sweep, the simplest first."""
    return sorted({config_of(row) for row in rows})


def whole(rows: t.Sequence[t.Mapping[str, t.Any]], blocks: t.Collection[int]) -> list[t.Mapping[str, t.Any]]:
    """Rows of complete blocks: a block that was cut off compares configurations at different times."""
    return [row for row in rows if row["block"] in blocks]


def measured(rows: t.Sequence[t.Mapping[str, t.Any]]) -> list[t.Mapping[str, t.Any]]:
    """Rows of servers that started."""
    return [row for row in rows if "start_failed" not in row]


def samples(rows: t.Sequence[t.Mapping[str, t.Any]]) -> list[Sample]:
    """Every successful request of the rows."""
    result = []
    for row in measured(rows):
        for request in row.get("requests", ()):
            if request.get("error") or not request.get("tokens") or request["latency"] <= 0:
                continue
            result.append(
                Sample(
                    row["configuration"],
                    int(row["concurrency_wanted"]),
                    row["block"],
                    row.get("half", 0),
                    request.get("domain", ""),
                    request["prompt"],
                    request["tokens"],
                    request["latency"],
                    request["ttft"],
                    row.get("since_start", 0.0) + request["start"] + request["latency"] / 2,
                    request.get("head", ""),
                )
            )
    return result


def group(items: t.Iterable[t.Any], key: t.Callable[[t.Any], t.Any]) -> dict[t.Any, list[t.Any]]:
    """Items by key, in order of first appearance."""
    result: dict[t.Any, list[t.Any]] = {}
    for item in items:
        result.setdefault(key(item), []).append(item)
    return result


def rate(items: t.Sequence[Sample], concurrency: int) -> float:
    """Output tokens a second that ``concurrency`` users in closed loop get together; 0 without samples."""
    seconds = sum(s.latency for s in items)
    return concurrency * sum(s.tokens for s in items) / seconds if seconds else 0.0


def percentile(values: t.Sequence[float], q: float) -> float:
    """Linear percentile, q in 0..100; nan without values."""
    data = sorted(v for v in values if not math.isnan(v))
    if not data:
        return math.nan
    place = (len(data) - 1) * q / 100
    low = math.floor(place)
    high = min(low + 1, len(data) - 1)
    return data[low] + (data[high] - data[low]) * (place - low)
