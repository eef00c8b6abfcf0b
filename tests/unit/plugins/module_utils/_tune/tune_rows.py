# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows as a sweep writes them, from a model with known speeds, noise and faults."""

from __future__ import annotations

import math
import random

DOMAINS = ("code", "math")
BLOCK_SECONDS = 60.0


def key_parts(key):
    algorithm, dummy, budget = key.partition("-")
    return algorithm, int(budget) if budget else None


def rows(
    speeds,
    concurrencies=(1, 4),
    blocks=2,
    prompts=8,
    visit_sd=0.01,
    prompt_sd=0.15,
    request_sd=0.01,
    seed=1,
    slower=0.0,
    block_trend=0.0,
    errors=None,
    simulated=None,
    foreign=None,
    start_failed=None,
    tokens=64,
    temperature=0.0,
):
    """Rows of a sweep in which configuration k gives speeds[k] tokens a second and user.

    slower: share by which a server slows down each second of its life. block_trend: log of the slow-down a block.
    errors, foreign, start_failed: {configuration: count, count, text}. simulated: configurations whose acceptance is made up.
    """
    rng = random.Random(seed)
    factors = {}
    result = []
    for block in range(blocks):
        for key in list(speeds) if block % 2 == 0 else list(reversed(list(speeds))):
            algorithm, budget = key_parts(key)
            base = {"configuration": key, "algorithm": algorithm, "budget": budget, "block": block}
            if start_failed and key in start_failed:
                result.append({**base, "start_failed": start_failed[key]})
                continue
            visit = math.exp(rng.gauss(0, visit_sd) - block_trend * block)
            age = 0.0
            cells = [(c, d) for c in concurrencies for d in DOMAINS]
            order = [(0, *cell) for cell in cells] + [(1, *cell) for cell in reversed(cells)]
            for half, concurrency, domain in order:
                requests, now, busy = [], 0.0, 0.0
                for number in range(prompts):
                    name = f"{domain}-{number}"
                    common = factors.setdefault(name, math.exp(rng.gauss(0, prompt_sd)))
                    factor = common * factors.setdefault((name, algorithm), math.exp(rng.gauss(0, prompt_sd / 4)))
                    rate = speeds[key] * visit * factor * math.exp(rng.gauss(0, request_sd))
                    rate /= 1 + slower * (age + now)
                    latency = tokens / rate + 0.01
                    fake = key in (simulated or ())
                    requests.append(
                        {
                            "prompt": name,
                            "domain": domain,
                            "start": now,
                            "ttft": 0.01,
                            "latency": latency,
                            "tokens": tokens,
                            "head": f"{key if fake else ''} the text of {name} goes on and on and on",
                        }
                    )
                    now += latency / concurrency
                    busy += latency
                mean = 1.0 if algorithm == "none" else 3.0
                row = {
                    **base,
                    "half": half,
                    "concurrency_wanted": concurrency,
                    "domain": domain,
                    "since_start": age,
                    "requests": requests,
                    "completed": prompts,
                    "total_output_tokens": tokens * prompts,
                    "error_kinds": {},
                    "foreign_requests": 0,
                    "sampling": {"temperature": temperature},
                    "server_info": {},
                    "accept": accept(algorithm, fake, (tokens - 1) * prompts, mean),
                }
                result.append(row)
                age += now
            for name, table in (("errors", errors), ("foreign", foreign)):
                if table and key in table:
                    if name == "errors":
                        result[-1]["error_kinds"] = {"http_500": table[key]}
                        result[-1]["error_samples"] = ["http_500: planted"]
                    else:
                        result[-1]["foreign_requests"] = table[key]
    return result


def accept(algorithm, fake, total, mean):
    """The acceptance part of a row whose verify rounds yielded `total` tokens."""
    if algorithm == "none":
        return {"length": None, "rounds": None, "histogram": {}, "source": "none"}
    rounds = round(total / mean)
    shares = {3: 1.0} if fake else {1: 0.3, 2: 0.2, 3: 0.15, 4: 0.15, 6: 0.2}
    shape = {str(length): round(rounds * share) for length, share in shares.items()}
    return {"length": total / rounds, "rounds": rounds, "histogram": shape, "source": "histogram"}
