# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""A comparison of configurations that drift cannot decide.

Every block visits every configuration once, each time on a fresh server; every second block goes
backwards (A B C, C B A), so that whatever rises or falls steadily over the run weighs on all alike.
Within a visit the cells go forwards and then backwards. A visit's rows are written whole when it ends, and a run that was cut off goes on with the visits that
are missing. Blocks that time does not allow are left out as blocks, never as single configurations.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import control, prompts
from .client import Sampling
from .measure import Load, ServerUnusable, measure

Say = Callable[[str], None]


class PlanError(ValueError):
    """A plan that cannot be run; names the key."""


@dataclass(frozen=True)
class Visit:
    """One fresh server in one configuration."""

    block: int
    key: str

    @property
    def name(self) -> str:
        return f"block{self.block}-{self.key}"


REQUIRED = {
    "configurations": list,
    "concurrencies": list,
    "blocks": int,
    "prompts": list,
    "requests": int,
    "model": str,
    "url": str,
}


def check_plan(plan: dict[str, Any]) -> None:
    """Refuse a plan with a missing or mistyped key, a repeated configuration or an impossible number."""
    for key, kind in REQUIRED.items():
        if not isinstance(plan.get(key), kind):
            raise PlanError(f"plan key {key!r}: a {kind.__name__} is needed, found {plan.get(key)!r}")
    keys = [c.get("key") for c in plan["configurations"]]
    if not keys or len(set(keys)) != len(keys):
        raise PlanError(f"configurations need one distinct key each, found {keys}")
    for entry in plan["configurations"]:
        if not isinstance(entry.get("argv"), list) or not entry["argv"]:
            raise PlanError(f"configuration {entry.get('key')!r}: argv is missing")
    if plan["blocks"] < 1 or plan["requests"] < 1 or any(int(c) < 1 for c in plan["concurrencies"]):
        raise PlanError("blocks, requests and concurrencies must be at least 1")


def visits(plan: dict[str, Any]) -> list[Visit]:
    """The order of visits: forwards in even blocks, backwards in odd ones."""
    keys = [c["key"] for c in plan["configurations"]]
    return [Visit(b, k) for b in range(plan["blocks"]) for k in (keys if b % 2 == 0 else reversed(keys))]


def cells(concurrencies: list[int], domains: list[str]) -> list[tuple[int, int, str]]:
    """(half, concurrency, domain) in the order of a visit: forwards, then backwards.

    Each cell is measured early and late on the same server, so that a server that slows down shows itself
    and weighs on all cells alike.
    """
    order = [(c, d) for c in concurrencies for d in domains]
    return [(0, c, d) for c, d in order] + [(1, c, d) for c, d in reversed(order)]


def fingerprint(plan: dict[str, Any]) -> str:
    """What makes two runs the same run: everything of the plan except how long it may take."""
    kept = {k: v for k, v in plan.items() if k != "time_limit"}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()[:16]


class State:
    """The folder of a run: state.json and one file of rows a finished visit. Every write is atomic."""

    def __init__(self, folder: Path, plan: dict[str, Any]) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._file = folder / "state.json"
        self.data: dict[str, Any] = {"plan": fingerprint(plan), "spent": 0.0, "visits": {}}
        if self._file.exists():
            found = json.loads(self._file.read_text())
            if found.get("plan") != self.data["plan"]:
                raise PlanError(f"{folder} holds a run of another plan; choose another folder or remove this one")
            self.data = found

    def rows_file(self, visit: Visit) -> Path:
        return self.folder / f"{visit.name}.jsonl"

    def done(self, visit: Visit) -> bool:
        return visit.name in self.data["visits"]

    def finish(self, visit: Visit, rows: list[dict[str, Any]], seconds: float) -> None:
        """Rows first, then the note that they are complete."""
        write_atomically(self.rows_file(visit), "".join(json.dumps(r) + "\n" for r in rows))
        self.data["visits"][visit.name] = {"seconds": round(seconds, 3), "key": visit.key}
        self.spend(seconds)

    def spend(self, seconds: float) -> None:
        self.data["spent"] += seconds
        write_atomically(self._file, json.dumps(self.data, indent=1))

    def estimate(self, key: str) -> float:
        """Seconds the next visit of `key` may take: the longest of its own so far, else of any."""
        done = self.data["visits"].values()
        own = [v["seconds"] for v in done if v["key"] == key]
        return max(own or [v["seconds"] for v in done] or [0.0])


def write_atomically(path: Path, text: str) -> None:
    temporary = path.with_name(path.name + ".part")
    temporary.write_text(text)
    os.replace(temporary, path)


def collect(plan: dict[str, Any], folder: Path) -> dict[str, Any]:
    """All rows of finished visits in the order they were taken, and how far the run is."""
    state = State(folder, plan)
    order = visits(plan)
    rows = [
        json.loads(line)
        for visit in order
        if state.done(visit)
        for line in state.rows_file(visit).read_text().splitlines()
    ]
    complete = [b for b in range(plan["blocks"]) if all(state.done(v) for v in order if v.block == b)]
    return {
        "done": sum(map(state.done, order)),
        "total": len(order),
        "complete_blocks": complete,
        "seconds": round(state.data["spent"], 3),
        "rows": rows,
    }


async def measure_cells(
    plan: dict[str, Any], base: dict[str, Any], url: str, api_key: str | None, ready: float, say: Say
) -> list[dict[str, Any]]:
    """A server that is up, measured at every concurrency and domain, twice; one row a cell.

    Args:
        base: what every row carries: configuration, algorithm, budget and block.
        ready: seconds the server's start took.
    """
    sampling = Sampling(**plan.get("sampling", {}))
    domains = prompts.by_domain(prompts.load_all(plan["prompts"]))
    begin, rows = time.time(), []
    for half, concurrency, domain in cells(plan["concurrencies"], list(domains)):
        cell = base | {
            "half": half,
            "concurrency_wanted": concurrency,
            "domain": domain,
            "ready_seconds": round(ready, 3),
        }
        widest = max((row["concurrency_wanted"] for row in rows), default=1)
        # The same seed in every configuration of a cell: measurements are paired by prompt.
        load = Load(
            requests=max(1, plan["requests"] // 2),
            concurrency=concurrency,
            # Only a fresh server is cold, and at a batch size that it has not seen.
            warmup=0 if rows else plan.get("warmup", 1),
            warmup_together=concurrency if concurrency > widest else 0,
            seed=plan.get("seed", 1) + 2 * base["block"] + half,
            timeout=plan.get("request_timeout", 120.0),
        )
        started = time.time()
        try:
            row = await measure(url, plan["model"], domains[domain], sampling, load, dataset=domain, api_key=api_key)
        except ServerUnusable as exc:
            row = {"completed": 0, "error_rate": 1.0, "error_kinds": {"unusable": 1}, "requests": []}
            row["error_samples"] = [str(exc)[:200]]
        rows.append(row | cell | {"since_start": round(started - begin, 3), "at": round(started, 3)})
        rate, length = row.get("steady_output_throughput", 0.0), row.get("accept_length")
        say(
            f"block{base['block']}-{base['configuration']}: {domain} x{concurrency}: {rate:.1f} tok/s"
            + (f", acceptance {length:.2f}" if length else "")
            + (f", errors {row['error_kinds']}" if row["error_kinds"] else "")
        )
    return rows


async def run_visit(plan: dict[str, Any], visit: Visit, server: control.Server, api_key: str | None, say: Say) -> list:
    """A fresh server in the visit's configuration, measured and stopped again; its rows."""
    entry = next(c for c in plan["configurations"] if c["key"] == visit.key)
    base = {
        "configuration": visit.key,
        "algorithm": entry.get("algorithm"),
        "budget": entry.get("budget"),
        "block": visit.block,
    }
    try:
        ready = control.start_ready(
            server,
            entry["argv"],
            entry.get("env", {}),
            plan["url"],
            plan["model"],
            api_key,
            plan.get("start_timeout", 300.0),
        )
    except control.StartFailed as exc:
        say(f"{visit.name}: did not start")
        return [base | {"start_failed": str(exc)[-2000:]}]
    try:
        return await measure_cells(plan, base, plan["url"], api_key, ready, say)
    finally:
        server.stop()


async def run(
    plan: dict[str, Any],
    folder: Path,
    server: control.Server,
    api_key: str | None,
    say: Say,
    max_visits: int | None = None,
) -> dict[str, Any]:
    """Do what is missing of the plan, at most `max_visits` visits; `stopped` is done, time or visits."""
    check_plan(plan)
    state = State(folder, plan)
    order = visits(plan)
    limit = plan.get("time_limit")
    taken = 0
    stopped = "done"
    for number, visit in enumerate(order, 1):
        if state.done(visit):
            continue
        if max_visits is not None and taken >= max_visits:
            stopped = "visits"
            break
        left = [v for v in order if v.block == visit.block and not state.done(v)]
        needed = sum(state.estimate(v.key) for v in left)
        if limit is not None and state.data["spent"] + needed > limit:
            say(f"block {visit.block} needs about {needed:.0f} s more, {limit - state.data['spent']:.0f} s are left")
            stopped = "time"
            break
        say(f"[{number}/{len(order)}] {visit.name}, {state.data['spent']:.0f} s so far")
        begin = time.monotonic()
        try:
            rows = await run_visit(plan, visit, server, api_key, say)
        except BaseException:
            state.spend(time.monotonic() - begin)
            raise
        state.finish(visit, rows, time.monotonic() - begin)
        taken += 1
    result = collect(plan, folder)
    return {key: value for key, value in result.items() if key != "rows"} | {"stopped": stopped}
