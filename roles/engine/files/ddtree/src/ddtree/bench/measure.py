# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""One measurement of one server: warm up, read its counters, load it, read them again."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from . import metrics, record
from .client import Outcome, Sampling, ask, make_client
from .load import Progress, closed_loop, open_loop
from .prompts import Prompt, schedule


@dataclass(frozen=True)
class Load:
    """How requests arrive. `rate` (a second) makes it Poisson; otherwise `concurrency` closed-loop users."""

    requests: int
    concurrency: int | None = 1
    rate: float | None = None
    warmup: int = 1
    seed: int = 1
    timeout: float = 120.0
    time_limit: float | None = None
    warmup_together: int = 0
    """Further warm-up requests, all at once: a server may compile and allocate again at its first full batch."""


class ServerUnusable(RuntimeError):
    """The server answered no warm-up request; the message says what it answered."""


def server_facts(url: str, api_key: str | None) -> dict[str, Any]:
    """The part of /server_info that says what was measured; never more, it may hold secrets."""
    info = metrics.server_info(url, api_key)
    wanted = (
        "algorithm",
        "budget",
        "block_size",
        "dtype",
        "device",
        "version",
        "speculative_algorithm",
        "speculative_num_draft_tokens",
        "speculative_ddtree_budget",
        "speculative_dflash_block_size",
        "tp_size",
        "attention_backend",
    )
    facts = {key: info[key] for key in wanted if key in info}
    facts["simulated_acceptance"] = metrics.simulated(info)
    return facts


async def measure(
    url: str,
    model: str,
    prompts: Sequence[Prompt],
    sampling: Sampling,
    load: Load,
    *,
    dataset: str,
    api_key: str | None = None,
    client: str = "raw",
    tag: Any = None,
    details: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Measure and return the record. Raises ServerUnusable when every warm-up request fails."""
    connection = make_client(client, url, api_key)
    try:
        warm: list[Outcome] = []
        for prompt in schedule(prompts, load.warmup, load.seed + 1_000_003):
            warm.append(await ask(connection, model, prompt, sampling, load.timeout))
        together = schedule(prompts, load.warmup_together, load.seed + 1_000_004)
        warm += await asyncio.gather(*(ask(connection, model, p, sampling, load.timeout) for p in together))
        if warm and not any(o.ok for o in warm):
            raise ServerUnusable(f"{url}: {warm[-1].error}")
        before = metrics.settled(url, api_key)
        order = schedule(prompts, load.requests, load.seed)
        if load.rate:
            outcomes, seconds = await open_loop(
                connection, model, order, sampling, load.rate, load.seed, load.timeout, load.concurrency, progress
            )
        else:
            outcomes, seconds = await closed_loop(
                connection, model, order, sampling, load.concurrency or 1, load.timeout, load.time_limit, progress
            )
        after = metrics.settled(url, api_key)
    finally:
        await connection.close()
    return record.build(
        outcomes,
        seconds,
        metrics.acceptance(before, after),
        dataset=dataset,
        concurrency=load.concurrency,
        request_rate=load.rate,
        seed=load.seed,
        sampling=dataclasses.asdict(sampling),
        client=client,
        warmup=load.warmup + load.warmup_together,
        foreign=metrics.foreign_requests(before, after, len(outcomes)),
        server=server_facts(url, api_key),
        tree=metrics.tree_facts(before, after),
        tag=tag,
        details=details,
    )
