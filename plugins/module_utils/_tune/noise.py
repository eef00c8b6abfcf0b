# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How far two configurations can be told apart.

Two things vary that are not the configuration: every visit has a fresh server and its own moment, and the prompts are only some of
those that could come. Visits: configurations x blocks is a randomised block design, so the scatter that remains in log tokens a
second after configuration and block means are taken off, on (configurations - 1) (blocks - 1) degrees of freedom, is the noise of one
visit. Prompts: the scatter of each prompt's own ratio, paired, since every configuration gets the same ones. Both go into one interval,
a normal for the prompts and Student's t for the visits, whose sum has no closed form and is drawn.
"""

from __future__ import annotations

import math
import random
import typing as t

from .samples import Sample, group, rate

DRAWS = 4000


class Noise(t.NamedTuple):
    """Standard deviation of log tokens a second from visit to visit, and its degrees of freedom."""

    sd: float
    freedom: int


class Interval(t.NamedTuple):
    """A ratio of tokens a second, with its interval."""

    ratio: float
    low: float
    high: float


def visit_noise(items: t.Sequence[Sample], concurrency: int) -> Noise | None:
    """Noise of one visit at one concurrency; None with fewer than two blocks or configurations."""
    table = {
        key: {block: math.log(rate(visit, concurrency)) for block, visit in group(mine, lambda s: s.block).items()}
        for key, mine in group([s for s in items if s.concurrency == concurrency], lambda s: s.config).items()
    }
    blocks = sorted({block for cells in table.values() for block in cells})
    full = [cells for cells in table.values() if len(cells) == len(blocks)]
    freedom = (len(full) - 1) * (len(blocks) - 1)
    if freedom < 1:
        return None
    grand = sum(sum(cells.values()) for cells in full) / (len(full) * len(blocks))
    by_block = {b: sum(cells[b] for cells in full) / len(full) for b in blocks}
    rest = 0.0
    for cells in full:
        own = sum(cells.values()) / len(blocks)
        rest += sum((cells[b] - own - by_block[b] + grand) ** 2 for b in blocks)
    return Noise(math.sqrt(rest / freedom), freedom)


def same_visits(noises: t.Iterable[Noise | None]) -> Noise | None:
    """One estimate from several of the same visits (one a concurrency): steadier, but on no more degrees of freedom."""
    known = [n for n in noises if n is not None]
    if not known:
        return None
    return Noise(math.sqrt(sum(n.sd**2 for n in known) / len(known)), max(n.freedom for n in known))


def pool(noises: t.Iterable[Noise | None]) -> Noise | None:
    """One estimate from several of different visits, weighted by degrees of freedom."""
    known = [n for n in noises if n is not None and n.freedom > 0]
    freedom = sum(n.freedom for n in known)
    if not freedom:
        return None
    return Noise(math.sqrt(sum(n.sd**2 * n.freedom for n in known) / freedom), freedom)


def compare(
    first: t.Sequence[Sample], second: t.Sequence[Sample], noise: Noise, confidence: float, seed: int
) -> Interval | None:
    """Tokens a second of ``first`` over ``second``, on the prompts that both have; None when they share none.

    :param first: samples at one concurrency, over all blocks; ``second`` likewise.
    :param confidence: of the two-sided interval, e.g. 0.95; divide the error among the comparisons made.
    """
    one, two = (_by_prompt(items) for items in (first, second))
    prompts = sorted(set(one) & set(two))
    if not prompts:
        return None
    blocks = max(1, min(len({s.block for s in first}), len({s.block for s in second})))
    rng = random.Random(seed)
    (tokens, seconds), (tokens_2, seconds_2) = (
        [sum(side[p][i] for p in prompts) for i in (0, 1)] for side in (one, two)
    )
    middle = math.log(tokens / seconds) - math.log(tokens_2 / seconds_2)
    # What each prompt adds to the log of the ratio, to first order; its scatter is the prompts' part of the error.
    parts = [one[p][0] / tokens - one[p][1] / seconds - two[p][0] / tokens_2 + two[p][1] / seconds_2 for p in prompts]
    by_prompts = math.sqrt(sum(part * part for part in parts) * len(parts) / max(1, len(parts) - 1))
    by_visits = noise.sd * math.sqrt(2 / blocks)
    draws = sorted(
        middle + by_prompts * rng.gauss(0, 1) + by_visits * _student(rng, noise.freedom) for _draw in range(DRAWS)
    )
    tail = (1 - confidence) / 2
    low, high = draws[int(tail * DRAWS)], draws[min(DRAWS - 1, int((1 - tail) * DRAWS))]
    return Interval(math.exp(middle), math.exp(low), math.exp(high))


def rate_interval(
    items: t.Sequence[Sample], concurrency: int, noise: Noise | None, confidence: float, seed: int
) -> tuple[float, float] | None:
    """Interval of the tokens a second of one configuration on these very prompts: the noise of its visits alone."""
    middle = rate(items, concurrency)
    if noise is None or not middle:
        return None
    rng = random.Random(seed)
    spread = noise.sd / math.sqrt(max(1, len({s.block for s in items})))
    draws = sorted(spread * _student(rng, noise.freedom) for _draw in range(DRAWS))
    cut = int((1 - confidence) / 2 * DRAWS)
    return middle * math.exp(draws[cut]), middle * math.exp(draws[DRAWS - 1 - cut])


def _by_prompt(items: t.Sequence[Sample]) -> dict[tuple[str, str], tuple[float, float]]:
    return {
        prompt: (float(sum(s.tokens for s in mine)), sum(s.latency for s in mine))
        for prompt, mine in group(items, lambda s: (s.domain, s.prompt)).items()
    }


def _student(rng: random.Random, freedom: int) -> float:
    """A draw of Student's t: a normal over an estimated standard deviation."""
    return rng.gauss(0, 1) / math.sqrt(rng.gammavariate(freedom / 2, 2) / freedom)
