# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""The arrival of requests: closed loop (N users who never pause) and open loop (Poisson)."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence

from .client import Client, Outcome, Sampling, ask
from .prompts import Prompt

Progress = Callable[[int, int, Outcome], None]
"""Called after each request with (done, total, outcome)."""


def poisson_offsets(count: int, rate: float, seed: int) -> list[float]:
    """Seconds after the start at which each of `count` requests is sent, `rate` a second on average.

    The first is sent at once, as sglang's benchmark does.
    """
    if rate <= 0:
        raise ValueError(f"the request rate must be above 0, is {rate}")
    rng = random.Random(seed)
    offsets, now = [], 0.0
    for dummy in range(count):
        offsets.append(now)
        now += rng.expovariate(rate)
    return offsets


async def closed_loop(
    client: Client,
    model: str,
    prompts: Sequence[Prompt],
    sampling: Sampling,
    concurrency: int,
    timeout: float,
    time_limit: float | None = None,
    progress: Progress | None = None,
) -> tuple[list[Outcome], float]:
    """Keep `concurrency` requests in flight until `prompts` are used up; (outcomes, seconds).

    After `time_limit` seconds no further request is begun; those in flight are finished and counted.
    """
    if concurrency < 1:
        raise ValueError(f"the concurrency must be at least 1, is {concurrency}")
    waiting = list(reversed(prompts))
    outcomes: list[Outcome] = []
    begin = time.perf_counter()

    async def user() -> None:
        while waiting and (time_limit is None or time.perf_counter() - begin < time_limit):
            outcome = await ask(client, model, waiting.pop(), sampling, timeout)
            outcomes.append(outcome)
            if progress:
                progress(len(outcomes), len(prompts), outcome)

    await asyncio.gather(*(user() for dummy in range(min(concurrency, len(prompts)))))
    return outcomes, time.perf_counter() - begin


async def open_loop(
    client: Client,
    model: str,
    prompts: Sequence[Prompt],
    sampling: Sampling,
    rate: float,
    seed: int,
    timeout: float,
    max_concurrency: int | None = None,
    progress: Progress | None = None,
) -> tuple[list[Outcome], float]:
    """Send `prompts` at Poisson times whatever the server does; (outcomes, seconds).

    `max_concurrency` caps what is in flight, as sglang's benchmark can; a request held back by it is
    sent as soon as one ends.
    """
    gate = asyncio.Semaphore(max_concurrency or max(1, len(prompts)))
    outcomes: list[Outcome] = []
    begin = time.perf_counter()

    async def one(prompt: Prompt, offset: float) -> None:
        await asyncio.sleep(max(0.0, begin + offset - time.perf_counter()))
        async with gate:
            outcome = await ask(client, model, prompt, sampling, timeout)
        outcomes.append(outcome)
        if progress:
            progress(len(outcomes), len(prompts), outcome)

    await asyncio.gather(*map(one, prompts, poisson_offsets(len(prompts), rate, seed)))
    return outcomes, time.perf_counter() - begin
