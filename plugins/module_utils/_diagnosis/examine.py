# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a unit to a verdict: what both modules do, and what a wait for readiness adds to the evidence."""

from __future__ import annotations

from typing import Any

from . import catalogue, history, readiness, render
from .classify import diagnose, summary
from .engine_parsers import stage_cause

# Verdicts of the wait for which systemd itself refuses the unit, and what they are called in the evidence.
_REFUSED = {"unit_missing": "not-found", "unit_masked": "masked", "unit_bad": "bad-setting"}


def judge(channels: dict[str, Any], unit: str, records: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    """The verdict on collected channels, with the memory of what was tried and a block to read."""
    return finish(diagnose(channels), unit, records or [])


def finish(verdict: dict[str, Any], unit: str, records: list[dict[str, Any]]) -> dict[str, Any]:
    """A verdict with its history, summary and block."""
    verdict = history.reconsider(verdict, records, unit)
    verdict["summary"] = summary(verdict)
    verdict["block"] = render.block(verdict, unit)
    return verdict


def of_wait(
    channels: dict[str, Any],
    state: readiness.State,
    outcome: str,
    sentence: str,
    unit: str,
    records: list[dict[str, Any]],
) -> dict[str, Any]:
    """The verdict on a wait that did not end in readiness.

    The channels decide; where they name nothing, the way the wait ended still does.
    """
    verdict = diagnose({**channels, **_probe(state)})
    if outcome == "collapsed":
        length = state.acceptance_length
        line = f"acceptance length {length:.2f} over {len(state.generations)} requests"
        verdict = _as(
            verdict,
            "spec_acceptance_collapsed",
            None if verdict["code"] != "spec_acceptance_collapsed" else verdict["cause"],
            line,
        )
        verdict["parsed"]["accept_len"] = length
    elif verdict["code"] in ("unknown", "no_fault") and verdict["cause"] != "requested_stop":
        verdict = _by_outcome(verdict, channels, state, outcome, sentence)
    return finish(verdict, unit, records)


def _by_outcome(
    verdict: dict[str, Any], channels: dict[str, Any], state: readiness.State, outcome: str, sentence: str
) -> dict[str, Any]:
    if outcome in _REFUSED:
        return _as(verdict, "unknown", outcome, f"LoadState={_REFUSED[outcome]}")
    if outcome in ("stalled", "timeout") and state.health_seconds is not None and state.failed_generations:
        return _as(
            verdict,
            "ready_but_not_serving",
            "hang",
            f"health answered, {state.failed_generations} generations did not: {state.last_error}",
        )
    if outcome == "stalled":
        line = f"no sign of progress for {state.now - state.last_progress:.0f} s in stage {state.stage}"
        return _as(verdict, "engine_stalled", stage_cause(str(channels.get("unit_journal") or "")), line)
    return _as(verdict, "unknown", outcome, sentence)


def _as(verdict: dict[str, Any], code: str, cause: str | None, line: str) -> dict[str, Any]:
    entry = catalogue.CODES[code]
    others = [
        item for item in (verdict["code"], *verdict["secondary_codes"]) if item not in (code, "unknown", "no_fault")
    ]
    return {
        **verdict,
        "code": code,
        "cause": cause,
        "secondary_codes": others,
        "evidence": [line, *verdict["evidence"]],
        "remedy": catalogue.remedy(code, cause) if code != "unknown" else verdict["remedy"],
        "must_not": list(entry.must_not),
        "meaning": entry.meaning,
        "lower_profile_helps": entry.lower_profile_helps,
    }


def _probe(state: readiness.State) -> dict[str, Any]:
    """What the polls saw over HTTP, as the channel that the rules read."""
    lines = []
    if state.health_seconds is not None:
        lines.append(f"t={state.health_seconds:.0f} GET /health 200")
    if state.failed_generations:
        lines.append(f"t={state.elapsed:.0f} POST /v1/completions {state.last_error}")
    elif state.generations:
        lines.append(f"t={state.elapsed:.0f} POST /v1/completions 200")
    return {"http_probe": "".join(f"{line}\n" for line in lines)} if lines else {}
