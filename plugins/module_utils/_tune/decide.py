# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The decision rule: which configuration to serve, from the rows of a sweep. A pure function, the same for the same rows.

1. A fault (see ``faults``) anywhere in the sweep: no winner.
2. A configuration that did not start, or is slower than the latency bound, is not admissible.
3. The fastest admissible configuration leads. What cannot be told from it, or is slower by no more than ``tie_margin``, is tied with it.
4. Of the tied, the simplest that is faster than the current configuration by more than noise and ``min_gain`` wins: plain before chain
   before tree, a small budget before a large one.
5. None is: the current configuration stays ("no gain"), unless it is not admissible itself.

Comparisons share the error: with k candidates each is held to 1 - (1 - confidence) / k.
"""

from __future__ import annotations

import math
import typing as t

from . import faults
from .noise import Interval, Noise, compare, pool, same_visits, visit_noise
from .samples import Config, Sample, config_of, configs, percentile, rate, samples, whole

LATENCIES: dict[str, t.Callable[[Sample], float]] = {
    "ttft": lambda s: s.ttft,
    "tpot": lambda s: s.decode,
    "e2e": lambda s: s.latency,
}


class RuleError(ValueError):
    """An option of the rule that makes no sense; names the option and its value."""


class Rule(t.NamedTuple):
    """Options of the decision. ``latency_metric`` is p50, p90, p95 or p99 of ttft, tpot or e2e, e.g. ``p95_tpot``."""

    latency_metric: str = "p95_tpot"
    latency_bound_ms: float | None = None
    min_gain: float = 0.02
    tie_margin: float = 0.03
    confidence: float = 0.95
    seed: int = 1

    def check(self) -> None:
        """Raise RuleError for an unknown metric or a number out of range."""
        quantile, _separator, name = self.latency_metric.partition("_")
        if quantile not in ("p50", "p90", "p95", "p99") or name not in LATENCIES:
            raise RuleError(
                f"latency metric {self.latency_metric!r}: use p50, p90, p95 or p99 of ttft, tpot or e2e, as p95_tpot"
            )
        if not 0.5 <= self.confidence < 1:
            raise RuleError(f"confidence {self.confidence!r}: a number from 0.5 to below 1 is needed")
        for name in ("min_gain", "tie_margin"):
            if not 0 <= getattr(self, name) < 1:
                raise RuleError(f"{name} {getattr(self, name)!r}: a share from 0 to below 1 is needed")


def latency_ms(items: t.Sequence[Sample], metric: str) -> float:
    """The latency that the bound is held against, in ms; nan without samples."""
    quantile, _separator, name = metric.partition("_")
    return percentile([LATENCIES[name](s) for s in items], float(quantile[1:])) * 1000


def decide(
    rows: t.Sequence[t.Mapping[str, t.Any]],
    complete_blocks: t.Collection[int],
    current: str,
    rule: Rule,
    target_concurrency: int | None = None,
) -> dict[str, t.Any]:
    """The verdict of a sweep.

    :param current: key of the configuration that is served now; it must be among the measured ones.
    :param target_concurrency: the concurrency whose choice is to be deployed; default the lowest measured.
    :returns: ``status`` (winner, no_gain, no_winner), ``reasons``, ``choice`` ({configuration, algorithm, budget} or null), ``gain``,
        ``faults``, and ``by_concurrency``, one verdict each with its candidates.
    """
    rule.check()
    kept = whole(rows, complete_blocks)
    known = {c.key: c for c in configs(rows)}
    if current not in known:
        raise RuleError(
            f"current configuration {current!r} was not measured; measured are {', '.join(known) or 'none'}"
        )
    found = faults.find(rows, complete_blocks)
    items = samples(kept)
    levels = sorted({s.concurrency for s in items})
    noise = same_visits(visit_noise(items, c) for c in levels)
    verdicts = [
        _at(level, [s for s in items if s.concurrency == level], known, kept, current, rule, noise, bool(found))
        for level in levels
    ]
    target = next((v for v in verdicts if v["concurrency"] == target_concurrency), verdicts[0] if verdicts else None)
    if target_concurrency is not None and (target is None or target["concurrency"] != target_concurrency):
        raise RuleError(f"concurrency {target_concurrency} was not measured; measured are {levels}")
    status = "no_winner" if found or target is None else target["status"]
    reasons = [f"{f.code}: {f.message}" for f in found] or (target["reasons"] if target else ["nothing was measured"])
    return {
        "status": status,
        "reasons": reasons,
        "current": current,
        "choice": target["choice"] if target and status == "winner" else None,
        "gain": target["gain"] if target and status == "winner" else None,
        "concurrency": target["concurrency"] if target else None,
        "faults": [f._asdict() for f in found],
        "noise": noise._asdict() if noise else None,
        "rule": rule._asdict(),
        "by_concurrency": verdicts,
    }


def _at(
    level: int,
    items: t.Sequence[Sample],
    known: t.Mapping[str, Config],
    rows: t.Sequence[t.Mapping[str, t.Any]],
    current: str,
    rule: Rule,
    noise: Noise | None,
    faulty: bool,
) -> dict[str, t.Any]:
    """The verdict at one concurrency."""
    candidates = []
    for config in sorted(known.values()):
        mine = [s for s in items if s.config == config.key]
        failed = [r for r in rows if config_of(r) == config and "start_failed" in r]
        latency = latency_ms(mine, rule.latency_metric)
        why = None
        if failed or not mine:
            why = (
                "did not start: " + (str(failed[0]["start_failed"]).splitlines() or [""])[-1]
                if failed
                else "no samples"
            )
        elif rule.latency_bound_ms is not None and latency > rule.latency_bound_ms:
            why = f"{rule.latency_metric} {latency:.1f} ms is above the bound of {rule.latency_bound_ms:g} ms"
        candidates.append(
            {
                "configuration": config.key,
                "algorithm": config.algorithm,
                "budget": config.budget or None,
                "tokens_per_second": rate(mine, level),
                "latency_ms": None if math.isnan(latency) else latency,
                "admissible": why is None,
                "why_not": why,
            }
        )
    verdict: dict[str, t.Any] = {"concurrency": level, "candidates": candidates, "choice": None, "gain": None}
    if faulty or noise is None:
        return verdict | {"status": "no_winner", "reasons": ["the sweep has faults"]}
    admissible = [c for c in candidates if c["admissible"]]
    if not admissible:
        return verdict | {"status": "no_winner", "reasons": ["no configuration is admissible"]}
    confidence = 1 - (1 - rule.confidence) / max(1, len(candidates) - 1)

    def against(one: str, two: str) -> Interval | None:
        first, second = ([s for s in items if s.config == key] for key in (one, two))
        return compare(first, second, noise, confidence, rule.seed)

    for candidate in candidates:
        if candidate["tokens_per_second"] and candidate["configuration"] != current:
            versus = against(candidate["configuration"], current)
            candidate["versus_current"] = versus._asdict() if versus else None
    lead = max(admissible, key=lambda c: c["tokens_per_second"])
    tied = [c for c in admissible if c is lead or _tied(against(lead["configuration"], c["configuration"]), rule)]
    for candidate in tied:
        candidate["tied_with_fastest"] = True
    return verdict | _choose(tied, lead, candidates, current, rule)


def _tied(versus: Interval | None, rule: Rule) -> bool:
    """Whether the leader's advantage over another is within noise or too small to matter."""
    return versus is not None and (versus.low <= 1.0 or versus.ratio <= 1 + rule.tie_margin)


def _choose(
    tied: t.Sequence[dict[str, t.Any]],
    lead: dict[str, t.Any],
    candidates: t.Sequence[dict[str, t.Any]],
    current: str,
    rule: Rule,
) -> dict[str, t.Any]:
    """Rules 4 and 5; ``tied`` comes with the simplest first."""
    now = next(c for c in candidates if c["configuration"] == current)
    for candidate in tied:
        if candidate["configuration"] == current:
            break
        versus = candidate.get("versus_current")
        gains = versus is not None and versus["low"] > 1.0 and versus["ratio"] >= 1 + rule.min_gain
        if gains or not now["admissible"]:
            chosen = {key: candidate[key] for key in ("configuration", "algorithm", "budget")}
            if gains:
                text = (
                    f"{candidate['configuration']} gives {_percent(versus['ratio'])} tokens a second against {current}"
                    f" ({_percent(versus['low'])} to {_percent(versus['high'])})"
                )
            else:
                text = f"{candidate['configuration']} is the fastest that is admissible; {current} is not: {now['why_not']}"
            if candidate is not lead:
                text += f"; {lead['configuration']} is not better by more than noise, so the smaller one is taken"
            return {"status": "winner", "choice": chosen, "gain": versus, "reasons": [text]}
    best = lead.get("versus_current")
    if lead["configuration"] == current or best is None:
        text = f"{current} is the fastest already"
    else:
        text = (
            f"the best, {lead['configuration']}, gives {_percent(best['ratio'])} against {current}, which is within the noise"
            f" ({_percent(best['low'])} to {_percent(best['high'])}): no gain"
        )
    return {"status": "no_gain", "choice": None, "gain": None, "reasons": [text]}


def _percent(ratio: float) -> str:
    return f"{(ratio - 1) * 100:+.1f} %"


def confirm(
    rows: t.Sequence[t.Mapping[str, t.Any]],
    complete_blocks: t.Collection[int],
    verdict: t.Mapping[str, t.Any],
    rule: Rule,
) -> dict[str, t.Any]:
    """Whether a second sweep, of the current and the chosen configuration, bears the verdict out.

    A verdict that claimed a gain must show one again. One that only found the current configuration inadmissible must be admissible.

    :param verdict: what :func:`decide` returned, with a choice. Its noise is used too: two configurations alone say little of it.
    :returns: ``confirmed``, ``reasons`` and ``gain``.
    """
    rule.check()
    previous, chosen, level = verdict["current"], verdict["choice"]["configuration"], verdict["concurrency"]
    found = faults.find(rows, complete_blocks)
    if found:
        return {"confirmed": False, "gain": None, "reasons": [f"{f.code}: {f.message}" for f in found]}
    items = [s for s in samples(whole(rows, complete_blocks)) if s.concurrency == level]
    noise = pool([visit_noise(items, level), Noise(**verdict["noise"]) if verdict.get("noise") else None])
    first, second = ([s for s in items if s.config == key] for key in (chosen, previous))
    versus = compare(first, second, noise, rule.confidence, rule.seed) if noise and first and second else None
    if versus is None:
        return {"confirmed": False, "gain": None, "reasons": ["the two configurations could not be compared"]}
    latency = latency_ms(first, rule.latency_metric)
    within = rule.latency_bound_ms is None or latency <= rule.latency_bound_ms
    text = (
        f"{chosen} against {previous}, measured again: {_percent(versus.ratio)}"
        f" ({_percent(versus.low)} to {_percent(versus.high)}), {rule.latency_metric} {latency:.1f} ms"
    )
    gains = versus.low > 1.0 or not verdict.get("gain")
    return {"confirmed": within and gains, "gain": versus._asdict(), "reasons": [text]}
