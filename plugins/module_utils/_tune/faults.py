# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reasons not to believe a sweep. Each finding has a code, a sentence, and the figures that prove it.

* ``errors``: requests failed. What failed fast looks like speed.
* ``drift``: servers get slower (or faster) as they run, or from block to block, by more than the order of visits cancels.
* ``simulated_acceptance``: the acceptance is not the drafter's: the server says so, its histogram has one shape only, its counters do
  not explain the tokens, or at temperature 0 it writes another text than plain decoding does.
* ``foreign_traffic``: the server answered requests that were not ours.
* ``incomplete``: too few whole blocks to tell noise from difference.
"""

from __future__ import annotations

import math
import statistics
import typing as t

from .samples import Sample, config_of, group, measured, samples, whole

DRIFT = math.log(1.10)
"""A change of ten percent over the life of a server is drift, if it is no accident."""
BLOCK_DRIFT = math.log(1.20)
"""From the first block to the last; a steady change this small is cancelled by the order of visits."""
STRENGTH = 4.0
"""Slope over its standard error beyond which a trend is no accident."""
FEW_CELLS = 4
"""Below so many cells a trend is judged by prompts."""
SAME_HEAD = 24
"""Characters that must agree. Near ties flip late; a simulated acceptance is wrong within the first rounds."""


class Fault(t.NamedTuple):
    """One reason not to declare a winner."""

    code: str
    message: str
    figures: dict[str, t.Any]


def find(rows: t.Sequence[t.Mapping[str, t.Any]], complete_blocks: t.Collection[int]) -> list[Fault]:
    """All faults of a sweep, in the order of the list above."""
    kept = whole(rows, complete_blocks)
    found = [*errors(rows), *drift(kept), *simulated(kept), *foreign(rows)]
    if len(set(complete_blocks)) < 2:
        text = f"{len(set(complete_blocks))} complete blocks; two are needed to tell noise from difference: allow more time"
        found.append(Fault("incomplete", text, {"complete_blocks": sorted(complete_blocks)}))
    return found


def errors(rows: t.Sequence[t.Mapping[str, t.Any]]) -> list[Fault]:
    """A finding a configuration with failed requests."""
    found = []
    for key, mine in group(measured(rows), lambda r: r["configuration"]).items():
        kinds: dict[str, int] = {}
        for row in mine:
            for kind, count in row.get("error_kinds", {}).items():
                kinds[kind] = kinds.get(kind, 0) + count
        if kinds:
            total = sum(row.get("completed", 0) for row in mine) + sum(kinds.values())
            listed = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
            sample = next((text for row in mine for text in row.get("error_samples", ())), "")
            text = f"{key}: {sum(kinds.values())} of {total} requests failed ({listed}): {sample}"
            found.append(Fault("errors", text, {"configuration": key, "kinds": kinds, "total": total}))
    return found


def slope(pairs: t.Sequence[tuple[float, float]]) -> tuple[float, float]:
    """(slope, strength) of a line through the origin; strength is the slope over its standard error."""
    weight = sum(x * x for x, _y in pairs)
    if len(pairs) < 3 or weight == 0:
        return 0.0, 0.0
    value = sum(x * y for x, y in pairs) / weight
    rest = sum((y - value * x) ** 2 for x, y in pairs) / (len(pairs) - 1)
    error = math.sqrt(rest / weight)
    return value, value / error if error else math.copysign(math.inf, value) if value else 0.0


def drift(rows: t.Sequence[t.Mapping[str, t.Any]]) -> list[Fault]:
    """Within a server's life, from the early and the late half of each cell; and from block to block."""
    found = []
    everything = [s for s in samples(rows) if not math.isnan(s.decode)]
    for key, mine in group(everything, lambda s: s.config).items():
        cells = group(mine, lambda s: (s.block, s.concurrency, s.domain)).values()
        changes = [
            [c for two in group(cell, lambda s: s.prompt).values() for c in [_change(two)] if c] for cell in cells
        ]
        # A cell is one moment of the machine, so it counts once; a sweep of very few cells has to be judged by its prompts.
        pairs = [_middle(some) for some in changes if some]
        if len(pairs) < FEW_CELLS:
            pairs = [change for some in changes for change in some]
        per_second, strength = slope(pairs)
        life = max(s.age for s in mine)
        if abs(per_second) * life > DRIFT and abs(strength) > STRENGTH:
            percent = (math.exp(per_second * life) - 1) * 100
            what = "slower" if percent > 0 else "faster"
            text = f"{key}: its servers get {what} as they run, {abs(percent):.0f} % a token over {life:.0f} s"
            figures = {"configuration": key, "percent": percent, "seconds": life, "strength": round(strength, 1)}
            found.append(Fault("drift", text, figures))
    return found + _between_blocks(everything)


def _middle(changes: t.Sequence[tuple[float, float]]) -> tuple[float, float]:
    return statistics.fmean(c[0] for c in changes), statistics.fmean(c[1] for c in changes)


def _change(pair: t.Sequence[Sample]) -> tuple[float, float] | None:
    """(seconds between, log of the change of the time a token) from the early to the late half of one prompt."""
    early, late = [s for s in pair if s.half == 0], [s for s in pair if s.half == 1]
    if not early or not late:
        return None
    apart = statistics.fmean(s.age for s in late) - statistics.fmean(s.age for s in early)
    return apart, math.log(statistics.fmean(s.decode for s in late) / statistics.fmean(s.decode for s in early))


def _between_blocks(everything: t.Sequence[Sample]) -> list[Fault]:
    blocks = sorted({s.block for s in everything})
    if len(blocks) < 2:
        return []
    changes = []
    for mine in group(everything, lambda s: (s.config, s.concurrency, s.domain)).values():
        first, last = [s for s in mine if s.block == blocks[0]], [s for s in mine if s.block == blocks[-1]]
        if first and last:
            changes.append(
                math.log(statistics.fmean(s.decode for s in last) / statistics.fmean(s.decode for s in first))
            )
    middle = statistics.median(changes) if changes else 0.0
    if abs(middle) <= BLOCK_DRIFT:
        return []
    percent = (math.exp(middle) - 1) * 100
    what = "slower" if percent > 0 else "faster"
    text = f"everything got {what} from the first block to the last, {abs(percent):.0f} % a token: the machine is not steady"
    return [Fault("drift", text, {"configuration": None, "percent": percent, "blocks": [blocks[0], blocks[-1]]})]


def simulated(rows: t.Sequence[t.Mapping[str, t.Any]]) -> list[Fault]:
    """Acceptance that cannot be the drafter's, by four independent signs; one finding a configuration."""
    found = []
    texts = _agreement(rows)
    for key, mine in group(measured(rows), lambda r: r["configuration"]).items():
        speculates = config_of(mine[0]).algorithm != "none"
        signs = []
        if any(row.get("server_info", {}).get("simulated_acceptance") for row in mine):
            signs.append("the server says that its acceptance is simulated")
        if speculates:
            signs += [sign for sign in (_one_shape(mine), _unexplained(mine)) if sign]
        if speculates and key in texts and texts[key] < 0.5:
            signs.append(f"at temperature 0 only {texts[key]:.0%} of its outputs begin as plain decoding's do")
        if signs:
            text = f"{key}: " + "; ".join(signs)
            found.append(Fault("simulated_acceptance", text, {"configuration": key, "signs": signs}))
    return found


def histogram(rows: t.Sequence[t.Mapping[str, t.Any]]) -> dict[int, int]:
    """Verify rounds by tokens they yielded, over rows."""
    total: dict[int, int] = {}
    for row in rows:
        for length, count in row.get("accept", {}).get("histogram", {}).items():
            total[int(length)] = total.get(int(length), 0) + count
    return dict(sorted(total.items()))


def _one_shape(rows: t.Sequence[t.Mapping[str, t.Any]]) -> str | None:
    """A drafter's rounds scatter; simulated ones are one length or two neighbouring ones.

    Rounds that accept the whole block are a drafter that is always right, which happens on easy text.
    """
    counts = histogram(rows)
    rounds = sum(counts.values())
    if rounds < 50:
        return None
    block = max([16] + [int(r.get("server_info", {}).get("block_size") or 0) for r in rows])
    pair = max(counts, key=lambda n: counts[n] + counts.get(n + 1, 0))
    share = (counts[pair] + counts.get(pair + 1, 0)) / rounds
    if share < 0.95 or pair == 1 or pair + 1 >= block:
        return None
    return f"{share:.0%} of {rounds} verify rounds yielded {pair} or {pair + 1} tokens"


def _unexplained(rows: t.Sequence[t.Mapping[str, t.Any]]) -> str | None:
    """Tokens counted by verify rounds against tokens received (less one a request, from its prefill)."""
    counted = received = requests = 0.0
    block = 16
    for row in rows:
        accept = row.get("accept", {})
        if accept.get("source") not in ("histogram", "counters") or row.get("foreign_requests"):
            continue
        counted += accept["length"] * accept["rounds"]
        received += row["total_output_tokens"] - row["completed"]
        requests += row["completed"]
        block = max(block, int(row.get("server_info", {}).get("block_size") or 0))
    # The last round of a request may count tokens beyond its limit, up to a block.
    if received < 50 or 0.9 * received <= counted <= 1.1 * received + requests * block:
        return None
    return f"its counters claim {counted:.0f} tokens from verify rounds, {received:.0f} were received"


def _agreement(rows: t.Sequence[t.Mapping[str, t.Any]]) -> dict[str, float]:
    """Share of prompts whose output begins as plain decoding's does, by configuration.

    {} when the sweep samples (temperature above 0), has no plain configuration, or plain decoding does not agree with itself.
    """
    if any(row.get("sampling", {}).get("temperature", 0) > 0 for row in rows):
        return {}
    heads: dict[str, dict[str, set[str]]] = {}
    plain = {row["configuration"] for row in rows if config_of(row).algorithm == "none"}
    for s in samples(rows):
        heads.setdefault(s.config, {}).setdefault(s.prompt, set()).add(s.head[:SAME_HEAD])
    reference: dict[str, set[str]] = {}
    for key in plain & set(heads):
        for prompt, texts in heads[key].items():
            reference.setdefault(prompt, set()).update(texts)
    # Several requests at once may flip a near tie in plain decoding too; a prompt it writes in many ways decides nothing.
    reference = {prompt: texts for prompt, texts in reference.items() if len(texts) <= 2}
    result = {}
    for key in set(heads) - plain:
        shared = [prompt for prompt in heads[key] if prompt in reference]
        if len(shared) >= 4:
            result[key] = sum(bool(heads[key][p] & reference[p]) for p in shared) / len(shared)
    return result


def foreign(rows: t.Sequence[t.Mapping[str, t.Any]]) -> list[Fault]:
    """Requests on the server that the benchmark did not send."""
    hit = [row for row in measured(rows) if (row.get("foreign_requests") or 0) > 0]
    if not hit:
        return []
    count = sum(row["foreign_requests"] for row in hit)
    keys = sorted({row["configuration"] for row in hit})
    text = f"{count} requests of others reached the servers under test ({', '.join(keys)})"
    return [Fault("foreign_traffic", text, {"requests": count, "configurations": keys})]
