# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""One measurement as one JSON object, fields named as sglang's bench_serving where both have them.

Lengths are tokens, fields in `_ms` milliseconds, `duration` seconds, throughputs a second. What sglang does
not have: `steady_output_throughput`, `ci`, `accept`, `tree`, `error_kinds`, `foreign_requests`, `requests`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from . import stats
from .client import Outcome
from .metrics import Acceptance

SCHEMA = "ddtree.bench/1"
TEXT_HEAD = 160
"""Characters of each output that are kept: enough to hold two configurations' texts against each other."""


def token_gaps(outcome: Outcome) -> list[float]:
    """Seconds between tokens: the tokens that arrive in one event share its gap evenly.

    A speculating server sends several tokens an event. Where it counts them in each event the count is
    used; otherwise the request's tokens are spread evenly over its events.
    """
    if not outcome.events:
        return []
    counts: list[int] = []
    known = outcome.first_event_tokens
    for dummy, so_far in outcome.events:
        if so_far is None or known is None:
            break
        counts.append(max(1, so_far - known))
        known = max(known, so_far)
    if len(counts) < len(outcome.events):
        later = max(len(outcome.events), outcome.output_tokens - 1)
        share, extra = divmod(later, len(outcome.events))
        counts = [share + (i < extra) for i in range(len(outcome.events))]
    return [gap / count for (gap, dummy), count in zip(outcome.events, counts) for dummy in range(count)]


def _peaks(good: Sequence[Outcome]) -> tuple[float, int]:
    """Most output tokens in one second of the run, and most requests in flight at once."""
    begin = min(o.start for o in good)
    seconds: Counter[int] = Counter()
    marks: list[tuple[float, int]] = []
    for o in good:
        now = o.start - begin + o.ttft
        seconds[int(now)] += o.first_event_tokens or 1
        for gap in token_gaps(o):
            now += gap
            seconds[int(now)] += 1
        marks += [(o.start, 1), (o.start + o.latency, -1)]
    level = peak = 0
    for dummy, step in sorted(marks):
        level += step
        peak = max(peak, level)
    return float(max(seconds.values())), peak


def build(
    outcomes: Sequence[Outcome],
    duration: float,
    accept: Acceptance,
    *,
    dataset: str,
    concurrency: int | None,
    request_rate: float | None,
    seed: int,
    sampling: dict[str, Any],
    client: str,
    warmup: int,
    foreign: int | None,
    server: dict[str, Any],
    tree: dict[str, float],
    tag: Any = None,
    details: bool = False,
) -> dict[str, Any]:
    """The result record of one measurement; `details` adds sglang's per-request lists and whole texts."""
    outcomes = sorted(outcomes, key=lambda o: o.start)
    good = [o for o in outcomes if o.ok]
    bad = [o for o in outcomes if not o.ok]
    tokens_in, tokens_out = sum(o.input_tokens for o in good), sum(o.output_tokens for o in good)
    gaps = [token_gaps(o) for o in good]
    per_token = [[(o.latency - o.ttft) / (o.output_tokens - 1)] if o.output_tokens > 1 else [] for o in good]
    busy = sum(o.latency for o in good)
    level = concurrency or (busy / duration if duration else 0.0)
    begin = outcomes[0].start if outcomes else 0.0
    if accept.length is None:
        rounds = sum(o.verify_rounds or 0 for o in good)
        if rounds:
            weighted = sum((o.accept_length or 0.0) * (o.verify_rounds or 0) for o in good)
            accept = Acceptance(weighted / rounds, rounds, {}, "usage")
    record: dict[str, Any] = {
        "schema": SCHEMA,
        "tag": tag,
        "backend": "ddtree-bench",
        "dataset_name": dataset,
        "request_rate": request_rate if request_rate else "inf",
        "max_concurrency": concurrency,
        "server_info": server,
        "duration": duration,
        "completed": len(good),
        "total_input_tokens": tokens_in,
        "total_output_tokens": tokens_out,
        "request_throughput": len(good) / duration if duration else 0.0,
        "input_throughput": tokens_in / duration if duration else 0.0,
        "output_throughput": tokens_out / duration if duration else 0.0,
        "total_throughput": (tokens_in + tokens_out) / duration if duration else 0.0,
    }
    latencies, ttfts = [o.latency for o in good], [o.ttft for o in good]
    for name, values in (
        ("e2e_latency_ms", latencies),
        ("ttft_ms", ttfts),
        ("tpot_ms", [v for g in per_token for v in g]),
        ("itl_ms", [v for g in gaps for v in g]),
    ):
        record |= stats.summary(values, name)
    peak_tokens, peak_requests = _peaks(good) if good else (0.0, 0)
    # sum(tokens) / sum(latency) times the level leaves out the ramp at the end, where fewer than the
    # wanted number of requests are in flight and a short run would look slower than a long one.
    record |= {
        "concurrency": busy / duration if duration else 0.0,
        "accept_length": accept.length,
        "max_output_tokens_per_s": peak_tokens,
        "max_concurrent_requests": peak_requests,
        "steady_output_throughput": level * tokens_out / busy if busy else 0.0,
        "accept": {
            "length": accept.length,
            "rounds": accept.rounds,
            "histogram": {str(k): v for k, v in sorted(accept.histogram.items())},
            "source": accept.source,
        },
        "tree": tree,
        "error_kinds": dict(Counter((o.error or "").split(":", 1)[0] for o in bad)),
        "error_rate": len(bad) / len(outcomes) if outcomes else 0.0,
        "error_samples": sorted({(o.error or "")[:200] for o in bad})[:3],
        "foreign_requests": foreign,
        "ci": _intervals(good, latencies, ttfts, per_token, gaps, level, seed),
        "seed": seed,
        "sampling": sampling,
        "client": client,
        "warmup_requests": warmup,
        "generated": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "requests": [_row(o, begin) for o in outcomes],
    }
    if details:
        record |= {
            "input_lens": [o.input_tokens for o in outcomes],
            "output_lens": [o.output_tokens if o.ok else 0 for o in outcomes],
            "ttfts": [o.ttft for o in outcomes],
            "itls": [token_gaps(o) for o in outcomes],
            "generated_texts": [o.text for o in outcomes],
            "errors": [o.error or "" for o in outcomes],
        }
    return record


def _intervals(
    good: Sequence[Outcome],
    latencies: Sequence[float],
    ttfts: Sequence[float],
    per_token: Sequence[Sequence[float]],
    gaps: Sequence[Sequence[float]],
    level: float,
    seed: int,
) -> dict[str, list[float]]:
    ci = stats.intervals([[v] for v in latencies], "e2e_latency_ms", seed)
    ci |= stats.intervals([[v] for v in ttfts], "ttft_ms", seed)
    ci |= stats.intervals(per_token, "tpot_ms", seed)
    ci |= stats.intervals(gaps, "itl_ms", seed)
    rate = stats.rate_interval([o.output_tokens for o in good], latencies, level, seed)
    return ci | ({"steady_output_throughput": rate} if rate else {})


def _row(o: Outcome, begin: float) -> dict[str, Any]:
    """What is kept of one request: enough to pair it with the same prompt elsewhere."""
    row: dict[str, Any] = {
        "prompt": o.prompt_id,
        "domain": o.domain,
        "start": round(o.start - begin, 6),
        "ttft": round(o.ttft, 6),
        "latency": round(o.latency, 6),
        "tokens": o.output_tokens,
        "head": o.text[:TEXT_HEAD],
    }
    if o.accept_length is not None:
        row |= {"accept_length": o.accept_length, "verify_rounds": o.verify_rounds}
    if o.error:
        row["error"] = o.error[:200]
    return row
