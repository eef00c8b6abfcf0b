# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Acceptance figures from two readings of a server's Prometheus text. Pure; private to this collection."""

from __future__ import annotations

import re
import typing as t

_SAMPLE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)")
_BOUND = re.compile(r'(?:^|,)\s*le="([^"]+)"')


def samples(text: str) -> dict[tuple[str, str | None], float]:
    """(name, ``le`` label or None) to value, summed over all other labels; comments and odd lines are passed over."""
    values: dict[tuple[str, str | None], float] = {}
    for line in text.splitlines():
        match = _SAMPLE.match(line)
        if line.startswith("#") or not match:
            continue
        bound = _BOUND.search(match.group(2) or "")
        key = (match.group(1), bound.group(1) if bound else None)
        try:
            values[key] = values.get(key, 0.0) + float(match.group(3))
        except ValueError:
            continue
    return values


def acceptance(before: str, after: str) -> dict[str, t.Any]:
    """What happened between two readings of ``/metrics``.

    Returns ``rounds`` (int), ``length`` (tokens a verification round, the bonus token included; None without rounds) and ``histogram`` (list;
    its entries count the rounds that emitted 1, 2, 3, ... tokens). A server without speculation gives zero rounds.
    """
    old, new = samples(before), samples(after)

    def difference(name: str) -> float:
        return new.get((name, None), 0.0) - old.get((name, None), 0.0)

    rounds = difference("ddtree_verify_rounds_total")
    tokens = difference("ddtree_accepted_tokens_total")
    bounds = sorted(
        {float(bound) for name, bound in new if name == "ddtree_accept_length_bucket" and bound not in (None, "+Inf")}
    )
    histogram: list[int] = []
    cumulative = 0.0
    for bound in bounds:
        keys = [
            key
            for key in new
            if key[0] == "ddtree_accept_length_bucket" and key[1] not in (None, "+Inf") and float(key[1]) == bound
        ]
        total = sum(new[key] - old.get(key, 0.0) for key in keys)
        while len(histogram) < int(bound) - 1:
            histogram.append(0)
        histogram.append(round(total - cumulative))
        cumulative = total
    return {
        "rounds": int(rounds),
        "length": round(tokens / rounds, 3) if rounds > 0 else None,
        "histogram": histogram if rounds > 0 else [],
    }
