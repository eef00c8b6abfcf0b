# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Is a server ready, still starting, or never going to be? A pure state machine over observations.

An observation is what one poll saw: C(now) (s, monotonic), C(unit) (systemctl show as a dict, or None), C(lines)
(journal lines since the last poll), C(activity) (evidence.Host.activity), C(health) (HTTP status or None), and
C(generation) (probe.generation, or None when none was asked). C(step) folds it into the state; C(verdict) reads the
state through a table of predicates.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

# What a start goes through, in the words of SGLang, vLLM and ddtree. The last match is shown as the stage.
STAGES: tuple[tuple[str, re.Pattern], ...] = tuple(
    (name, re.compile("|".join(words), re.I))
    for name, words in (
        ("process start", (r"\b(?:Started|Starting) .*(?:service|server)", r"server_args=", r"Namespace\(")),
        (
            "distributed init",
            (r"Init torch distributed begin", r"using nccl==", r"backend=nccl", r"Initializing a V1 LLM engine"),
        ),
        (
            "weights",
            (
                r"Load weight begin",
                r"Loading (?:safetensors|pt) checkpoint",
                r"Loading checkpoint shards",
                r"loading (?:target|drafter)",
                r"Starting to load model",
                r"Multi-thread loading",
            ),
        ),
        ("weights loaded", (r"Load weight end", r"Loading weights took", r"Model loading took", r"model loaded")),
        (
            "cache allocation",
            (
                r"KV Cache is allocated",
                r"Memory pool end",
                r"GPU KV cache size",
                r"Available KV cache memory",
                r"mamba cache",
            ),
        ),
        (
            "compilation",
            (
                r"\bJIT\b.*(?:compil|build)",
                r"torch\.compile",
                r"Compiling",
                r"Dynamo bytecode",
                r"autotun",
                r"Building extension",
                r"\[\d+/\d+\] (?:nvcc|c\+\+|/)",
            ),
        ),
        (
            "graph capture",
            (r"Capture (?:draft |target |draft extend )?cuda graph", r"Capturing (?:batches|CUDA graph)"),
        ),
        ("warm-up", (r"warm-?up", r"Application startup complete", r"Uvicorn running", r"max_total_num_tokens=")),
        ("serving", (r"fired up and ready to roll", r"serving on", r"Starting vLLM API server")),
    )
)
# Lines that appear whether or not anything moves: our own probes, and heartbeats.
_NOT_PROGRESS = re.compile(
    r"(?:GET|POST|HEAD) /\S* HTTP|waiting for|heartbeat|not ready|No available shared memory broadcast block", re.I
)
_ACCEPT = re.compile(r"(?<!block )accept len: (\d+(?:\.\d+)?)")
_NUMBERS = re.compile(r"0x[0-9a-f]+|\d+")
_PERCENT = re.compile(r"(\d{1,3})\s?%|\b(\d+)/(\d+)\b")
_SEEN_LIMIT = 4096
_READ_STEP = 1 << 20


@dataclass(frozen=True)
class Settings:
    """What the caller wants. Times in seconds."""

    timeout: float = 1800.0
    stall_timeout: float = 300.0
    max_restarts: int = 1
    min_acceptance_length: float = 0.0
    requests: int = 1


@dataclass
class State:
    """What all polls so far have shown."""

    started: float
    now: float
    last_progress: float
    stage: str = "not started"
    detail: str = ""
    unit: dict[str, str] = field(default_factory=dict)
    baseline_restarts: int | None = None
    restarts: int = 0
    was_up: bool = False
    health_seconds: float | None = None
    generations: list[dict[str, Any]] = field(default_factory=list)
    failed_generations: int = 0
    last_error: str = ""
    read_bytes: int = 0
    seen: set[str] = field(default_factory=set)
    logged_lengths: list[float] = field(default_factory=list)
    progress: list[dict[str, Any]] = field(default_factory=list)

    @property
    def acceptance_length(self) -> float | None:
        """Mean tokens per verify round over the generations that told it, else over the log's lines."""
        told = [
            g["acceptance_length"] for g in self.generations if isinstance(g.get("acceptance_length"), (int, float))
        ]
        told = told or (self.logged_lengths if self.generations else [])
        return sum(told) / len(told) if told else None

    @property
    def elapsed(self) -> float:
        """Seconds since the wait began."""
        return self.now - self.started


def begin(now: float) -> State:
    """The state before the first poll."""
    return State(started=now, now=now, last_progress=now)


def step(state: State, seen: dict[str, Any]) -> State:
    """Fold one observation into I(state), in place, and return it."""
    state.now = seen["now"]
    if _progressed(state, seen):
        state.last_progress = state.now
    unit = seen.get("unit")
    if unit is not None:
        _note_unit(state, unit)
    if seen.get("health") == 200 and state.health_seconds is None:
        state.health_seconds = state.elapsed
    generation = seen.get("generation")
    if generation is not None:
        if generation["ok"]:
            state.generations.append(generation)
            state.last_progress = state.now
        else:
            state.failed_generations += 1
            state.last_error = generation["error"]
    return state


def _note_unit(state: State, unit: dict[str, str]) -> None:
    state.unit = unit
    restarts = int(unit.get("NRestarts") or 0)
    starting = unit.get("ActiveState") == "activating"
    if state.baseline_restarts is None:
        # A unit that is being started has had its counter reset by that start; one that runs may carry old restarts.
        state.baseline_restarts = 0 if starting else restarts
    if restarts < state.baseline_restarts:
        state.baseline_restarts = 0
    grown = restarts - state.baseline_restarts
    if grown > state.restarts:
        # A new process: what the dead one answered, read or logged counts no more.
        state.generations.clear()
        state.logged_lengths.clear()
        state.read_bytes = 0
    state.restarts = grown
    state.was_up = state.was_up or unit.get("ActiveState") in ("active", "activating", "reloading")


def _progressed(state: State, seen: dict[str, Any]) -> bool:
    moved = False
    for line in seen.get("lines") or ():
        for name, pattern in STAGES:
            if pattern.search(line):
                share = _PERCENT.search(line)
                _enter(state, name, share.group(0) if share else "", seen["now"])
        accepted = _ACCEPT.search(line)
        if accepted:
            state.logged_lengths.append(float(accepted.group(1)))
        if _NOT_PROGRESS.search(line):
            continue
        share = _PERCENT.search(line)
        # A repeated line is no progress unless the share it prints moves.
        key = _NUMBERS.sub("#", line)[-160:] + (share.group(0) if share else "")
        if key not in state.seen:
            moved = True
            if len(state.seen) < _SEEN_LIMIT:
                state.seen.add(key)
    activity = seen.get("activity") or {}
    if activity.get("read_bytes", 0) >= state.read_bytes + _READ_STEP:
        state.read_bytes = activity["read_bytes"]
        moved = True
    if activity.get("compilers"):
        _enter(state, "compilation", " ".join(activity["compilers"]), seen["now"])
        moved = True
    return moved


def _enter(state: State, stage: str, detail: str, now: float) -> None:
    if stage != state.stage:
        state.progress.append({"stage": stage, "seconds": round(now - state.started, 1)})
    state.stage, state.detail = stage, detail


def wants_generation(seen: dict[str, Any]) -> bool:
    """A generation is worth asking for as soon as anything answers HTTP that is not "starting" (503)."""
    return seen.get("health") is not None and seen["health"] != 503


def _is(state: State, **wanted: str) -> bool:
    return all(state.unit.get(key) == value for key, value in wanted.items())


def _enough(state: State, settings: Settings) -> bool:
    return len(state.generations) >= max(1, settings.requests)


def _collapsed(state: State, settings: Settings) -> bool:
    length = state.acceptance_length
    return _enough(state, settings) and length is not None and length < settings.min_acceptance_length


# verdict, sentence, predicate. The first that holds wins; none holding means: keep waiting.
VERDICTS: tuple[tuple[str, str, Callable[[State, Settings], bool]], ...] = (
    ("unit_missing", "the unit does not exist", lambda s, c: _is(s, LoadState="not-found")),
    ("unit_masked", "the unit is masked", lambda s, c: _is(s, LoadState="masked")),
    ("unit_bad", "systemd refuses the unit file", lambda s, c: s.unit.get("LoadState") in ("bad-setting", "error")),
    ("dead", "the unit has failed", lambda s, c: _is(s, ActiveState="failed")),
    ("dead", "the unit has stopped", lambda s, c: s.unit.get("ActiveState") in ("inactive", "deactivating")),
    ("crash_loop", "the unit keeps dying and being restarted", lambda s, c: s.restarts > c.max_restarts),
    ("collapsed", "speculation runs but accepts almost nothing", _collapsed),
    ("ready", "a real generation was answered", _enough),
    ("timeout", "not ready within the time allowed", lambda s, c: s.elapsed >= c.timeout),
    ("stalled", "no sign of progress", lambda s, c: s.now - s.last_progress >= c.stall_timeout),
)


def verdict(state: State, settings: Settings) -> tuple[str, str]:
    """(verdict, sentence); ("wait", "") as long as the outcome is open."""
    for name, sentence, holds in VERDICTS:
        if holds(state, settings):
            return name, sentence
    return "wait", ""
