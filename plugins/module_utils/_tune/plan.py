# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of a sweep, as ``ddtree.bench sweep`` reads it, from one instance and the wishes."""

from __future__ import annotations

import hashlib
import json
import typing as t

from ansible_collections.inferlab.dflash.plugins.module_utils._instance import launch

ALGORITHMS = ("none", "dflash", "ddtree")


class PlanError(ValueError):
    """Wishes that make no sweep; names the value, the reason and the way out."""


def key_of(algorithm: str, budget: t.Any) -> str:
    """Name of a configuration: ``none``, ``dflash``, ``ddtree-16``."""
    return f"ddtree-{int(budget or launch.DEFAULT_BUDGET)}" if algorithm == "ddtree" else algorithm


def configurations(
    algorithms: t.Sequence[str], budgets: t.Sequence[t.Any], current: t.Mapping[str, t.Any]
) -> list[dict[str, t.Any]]:
    """What is compared, the simplest first: always the current configuration too, each one once.

    :param current: the instance as it is served (``algorithm``, ``budget``).
    """
    unknown = [a for a in algorithms if a not in ALGORITHMS]
    if unknown:
        raise PlanError(f"algorithms: {', '.join(map(repr, unknown))} is not known; use {', '.join(ALGORITHMS)}")
    numbers = []
    for budget in budgets:
        try:
            number = int(budget)
        except (TypeError, ValueError):
            number = 0
        if number < 1:
            raise PlanError(f"budgets: {budget!r} is no number of tree nodes; use whole numbers from 1")
        numbers.append(number)
    if "ddtree" in algorithms and not numbers:
        raise PlanError("budgets: ddtree is to be measured but no budget is named")
    wanted = [(a, b) for a in ALGORITHMS if a in algorithms for b in (sorted(numbers) if a == "ddtree" else [None])]
    served = str(current.get("algorithm"))
    wanted.append((served, int(current.get("budget") or launch.DEFAULT_BUDGET) if served == "ddtree" else None))
    ordered = sorted(set(wanted), key=lambda c: (ALGORITHMS.index(c[0]), c[1] or 0))
    return [{"key": key_of(a, b), "algorithm": a, "budget": b} for a, b in ordered]


def build(
    instance: t.Mapping[str, t.Any],
    model_path: str,
    drafter_path: str | None,
    chosen: t.Sequence[t.Mapping[str, t.Any]],
    *,
    port: int,
    concurrencies: t.Sequence[t.Any],
    blocks: int,
    requests: int,
    max_tokens: int,
    prompts: str,
    prompt_set: t.Sequence[str] = (),
    time_limit: float,
    start_timeout: float = 900.0,
    warmup: int = 2,
    endpoint: str = "completions",
    temperature: float = 0.0,
    seed: int = 1,
    properties: t.Sequence[str] = (),
    python: str | None = None,
) -> dict[str, t.Any]:
    """The plan: one command line a configuration, on a port of its own that only the host itself can reach.

    :param prompts: file or folder, from beside the plan when it is not absolute; ``prompt_set`` names what is in it, so that another set
        makes another run.
    :param chosen: from :func:`configurations`; those that draft are left out with a PlanError when there is no drafter.
    :raises PlanError: numbers out of range, or an instance that cannot be started in one of the configurations.
    """
    levels = sorted({_positive("concurrencies", c) for c in concurrencies})
    if not levels:
        raise PlanError("concurrencies: name at least one")
    if _positive("requests", requests) < 2:
        raise PlanError(f"requests: {requests!r}; at least 2 are needed, each cell is measured in two halves")
    if port == instance.get("port"):
        raise PlanError(f"port: {port} is the instance's own; a benchmark there would meet its clients, choose another")
    entries = []
    for config in chosen:
        item = {**instance, "algorithm": config["algorithm"], "budget": config["budget"], "port": port}
        try:
            argv = launch.argv(item, model_path, drafter_path or None, host="127.0.0.1", python=python)
        except launch.LaunchError as error:
            raise PlanError(str(error)) from error
        entries.append({**config, "argv": argv})
    plan: dict[str, t.Any] = {
        "instance": instance["name"],
        "url": f"http://127.0.0.1:{port}",
        "model": launch.served_name(instance),
        "configurations": entries,
        "concurrencies": levels,
        "blocks": _positive("blocks", blocks),
        "prompts": [prompts],
        "prompt_set": list(prompt_set),
        "requests": int(requests),
        "warmup": int(warmup),
        "seed": int(seed),
        "start_timeout": float(start_timeout),
        "sampling": {
            "max_tokens": _positive("max_tokens", max_tokens),
            "temperature": float(temperature),
            "seed": int(seed),
            "endpoint": endpoint,
        },
        "server": {
            "control": "systemd",
            "unit": f"dflash-bench-{instance['name']}",
            "properties": list(properties),
        },
    }
    plan["id"] = hashlib.sha256(json.dumps(plan, sort_keys=True).encode()).hexdigest()[:12]
    # After the id: a run that is given more time is still the same run.
    plan["time_limit"] = float(time_limit)
    return plan


def visit_names(plan: t.Mapping[str, t.Any]) -> list[str]:
    """What each step of the sweep is about, for those who watch it."""
    keys = [c["key"] for c in plan["configurations"]]
    order = [(b, k) for b in range(plan["blocks"]) for k in (keys if b % 2 == 0 else reversed(keys))]
    return [f"{number}/{len(order)} {key}, block {block + 1}" for number, (block, key) in enumerate(order, 1)]


def _positive(name: str, value: t.Any) -> int:
    try:
        number = int(value)
    except (TypeError, ValueError):
        number = 0
    if number < 1:
        raise PlanError(f"{name}: {value!r} is not a whole number from 1")
    return number
