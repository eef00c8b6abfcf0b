# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The loop that polls a unit and its HTTP port until readiness.py reaches a verdict."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from . import probe, readiness
from .evidence import Host


def wait(
    host: Host,
    client: probe.Client,
    settings: readiness.Settings,
    model: str | None = None,
    interval: float = 1.0,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> tuple[readiness.State, str, str]:
    """Poll until a verdict other than "wait": (state, verdict, sentence)."""
    state = readiness.begin(clock())
    while True:
        seen = _observe(host, client, state, settings, model, clock)
        readiness.step(state, seen)
        verdict, sentence = readiness.verdict(state, settings)
        if verdict != "wait":
            return state, verdict, sentence
        sleep(interval)


def _observe(
    host: Host,
    client: probe.Client,
    state: readiness.State,
    settings: readiness.Settings,
    model: str | None,
    clock: Callable[[], float],
) -> dict[str, Any]:
    unit = host.show()
    seen: dict[str, Any] = {
        "unit": unit,
        "lines": host.new_lines(),
        "activity": host.activity(unit),
        "health": None,
        "generation": None,
    }
    if unit is not None and unit.get("ActiveState") in ("active", "activating", "reloading"):
        seen["health"] = client.request("/health").status
        if readiness.wants_generation(seen):
            seen["generation"] = _generation(client, state, settings, model, clock)
    seen["now"] = clock()
    return seen


def _generation(
    client: probe.Client,
    state: readiness.State,
    settings: readiness.Settings,
    model: str | None,
    clock: Callable[[], float],
) -> dict[str, Any]:
    left = settings.timeout - (clock() - state.started)
    name = model or client.model() or "default"
    speculative = settings.min_acceptance_length > 0
    # One token proves that it serves; acceptance needs a few dozen to say anything.
    tokens = 32 if speculative and state.generations else 1
    prompt = probe.PROMPTS[len(state.generations) % len(probe.PROMPTS)]
    before = client.speculation() if speculative else {}
    result = probe.generation(client.generate(name, prompt, tokens, timeout=max(1.0, min(60.0, left))))
    if speculative and tokens == 1:
        # The only token of this answer came from the prompt's own pass.
        result["acceptance_length"] = None
    elif speculative and result["ok"] and result["acceptance_length"] is None:
        result["acceptance_length"] = probe.acceptance(before, client.speculation())
    return result
