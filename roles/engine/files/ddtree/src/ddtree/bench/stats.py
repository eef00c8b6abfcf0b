# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""Estimates from a finite number of requests: means, percentiles, rates, and how far to trust them.

Intervals are percentile bootstraps that draw whole requests with replacement: the tokens of one request
share its prompt and its moment, so drawing tokens would make the interval too narrow.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

RESAMPLES = 1000
CONFIDENCE = 0.95


def summary(values: Sequence[float], name: str, scale: float = 1000.0) -> dict[str, float]:
    """mean, median, std, p90, p95, p99 as `mean_<name>` ..., multiplied by `scale` (seconds to ms).

    Empty input gives zeros, as sglang's benchmark writes them.
    """
    data = np.asarray(values if len(values) else [0.0], dtype=float) * scale
    result = {f"mean_{name}": data.mean(), f"median_{name}": np.median(data), f"std_{name}": data.std()}
    result |= {f"p{q}_{name}": np.percentile(data, q) for q in (90, 95, 99)}
    return {key: float(value) for key, value in result.items()}


def _interval(draws: np.ndarray) -> list[float]:
    tail = (1 - CONFIDENCE) / 2 * 100
    low, high = np.percentile(draws, [tail, 100 - tail])
    return [float(low), float(high)]


def _draws(requests: int, seed: int) -> np.ndarray:
    """Row r: how often each request is in resample r."""
    return np.random.default_rng(seed).multinomial(requests, np.full(requests, 1 / requests), size=RESAMPLES)


def weighted_percentiles(values: np.ndarray, weights: np.ndarray, q: float) -> np.ndarray:
    """For each row of `weights`, the smallest of `values` (sorted) with at least q of the weight at or below."""
    cumulated = np.cumsum(weights, axis=1)
    return values[np.argmax(cumulated >= q * cumulated[:, -1:], axis=1)]


def intervals(groups: Sequence[Sequence[float]], name: str, seed: int, scale: float = 1000.0) -> dict[str, list[float]]:
    """Bootstrap intervals of mean, median, p90, p95 and p99; one group of values a request.

    {} with fewer than two requests that have a value.
    """
    groups = [g for g in groups if len(g)]
    if len(groups) < 2:
        return {}
    counts = _draws(len(groups), seed)
    sums, sizes = np.array([sum(g) for g in groups]), np.array([len(g) for g in groups])
    result = {f"mean_{name}": _interval((counts @ sums) / (counts @ sizes) * scale)}
    owner = np.repeat(np.arange(len(groups)), sizes)
    values = np.concatenate([np.asarray(g, dtype=float) for g in groups])
    order = np.argsort(values, kind="stable")
    values, owner = values[order], owner[order]
    # Row blocks bound the memory: 1000 resamples of 100,000 tokens would be 800 MB at once.
    step = max(1, 4_000_000 // len(values))
    for label, q in (("median", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99)):
        draws = [weighted_percentiles(values, counts[i : i + step][:, owner], q) for i in range(0, RESAMPLES, step)]
        result[f"{label}_{name}"] = _interval(np.concatenate(draws) * scale)
    return result


def rate_interval(tokens: Sequence[float], seconds: Sequence[float], factor: float, seed: int) -> list[float] | None:
    """Bootstrap interval of factor * sum(tokens) / sum(seconds) over requests; None with fewer than two."""
    if len(tokens) < 2:
        return None
    counts = _draws(len(tokens), seed)
    return _interval(factor * (counts @ np.asarray(tokens, float)) / (counts @ np.asarray(seconds, float)))
