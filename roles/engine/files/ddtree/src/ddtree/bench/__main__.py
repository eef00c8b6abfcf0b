# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""`python -m ddtree.bench`: run (one server), sweep (a plan), collect (its rows), idle (is it serving anybody?)."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import control, metrics, prompts, sweep
from .client import Outcome, Sampling
from .measure import Load, ServerUnusable, measure


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _key(path: str | None) -> str | None:
    """The API key: from a file, or from OPENAI_API_KEY; never an argument, which others on the host can read."""
    if path:
        return Path(path).read_text(encoding="utf-8").strip() or None
    return os.environ.get("OPENAI_API_KEY") or None


def _first_model(url: str, key: str | None) -> str:
    return json.loads(metrics.get(url, "/v1/models", key))["data"][0]["id"]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m ddtree.bench", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)

    run = commands.add_parser("run", help="measure one running server; one JSON line a measurement")
    run.add_argument("--url", required=True, help="base URL, with or without /v1")
    run.add_argument("--model", help="default: the first of /v1/models")
    run.add_argument("--api-key-file", help="default: OPENAI_API_KEY")
    run.add_argument("--prompts", action="append", required=True, help="file or folder; may be repeated")
    run.add_argument("--domain", action="append", help="only these domains")
    run.add_argument("--mix", action="store_true", help="one measurement over all domains instead of one each")
    run.add_argument("--requests", type=int, default=32, help="a measurement")
    run.add_argument("--concurrency", type=int, action="append", help="closed loop; may be repeated (default 1)")
    run.add_argument("--rate", type=float, help="Poisson arrivals a second; --concurrency then is a cap")
    run.add_argument("--warmup", type=int, default=2)
    run.add_argument("--max-tokens", type=int, default=128)
    run.add_argument("--temperature", type=float, default=0.0)
    run.add_argument("--endpoint", choices=("completions", "chat"), default="completions")
    run.add_argument("--respect-eos", action="store_true", help="let outputs end early; lengths then differ")
    run.add_argument("--seed", type=int, default=1)
    run.add_argument("--timeout", type=float, default=300.0, help="seconds a request")
    run.add_argument("--time-limit", type=float, help="seconds after which no request is begun (closed loop)")
    run.add_argument("--client", choices=("raw", "openai"), default="raw")
    run.add_argument("--output", help="JSONL file to append to; default stdout")
    run.add_argument("--output-details", action="store_true", help="sglang's per-request lists and whole texts")
    run.add_argument("--tag")

    for name, text in (("sweep", "do what is missing of a plan"), ("collect", "print a run's rows as one JSON")):
        command = commands.add_parser(name, help=text)
        command.add_argument("--plan", required=True, type=Path)
        command.add_argument("--folder", required=True, type=Path, help="state and rows of this run")
        if name == "sweep":
            command.add_argument("--api-key-file")
            command.add_argument("--max-visits", type=int, help="stop after so many fresh servers")

    idle = commands.add_parser("idle", help="exit 0 when the server serves nobody, 3 with the reason when it does")
    idle.add_argument("--url", required=True)
    idle.add_argument("--api-key-file")
    idle.add_argument("--watch", type=float, default=3.0, help="seconds between the two readings")
    return parser


async def _run(args: argparse.Namespace) -> int:
    key = _key(args.api_key_file)
    model = args.model or _first_model(args.url, key)
    pool = prompts.load_all(args.prompts)
    groups = prompts.by_domain(pool)
    if args.domain:
        absent = sorted(set(args.domain) - set(groups))
        if absent:
            raise prompts.PromptError(f"no prompts of domain {', '.join(absent)}; there are {', '.join(groups)}")
        groups = {name: groups[name] for name in args.domain}
    if args.mix:
        groups = {"mix": [p for group in groups.values() for p in group]}
    sampling = Sampling(args.max_tokens, args.temperature, args.seed, not args.respect_eos, args.endpoint)
    failed = 0

    def progress(done: int, total: int, outcome: Outcome) -> None:
        if done == total or done % 8 == 0:
            _say(f"  {done}/{total}" + (f" ({outcome.error})" if outcome.error else ""))

    for concurrency in args.concurrency or ([None] if args.rate else [1]):
        for domain, group in groups.items():
            _say(f"{domain}: {args.requests} requests, " + (f"{args.rate}/s" if args.rate else f"x{concurrency}"))
            load = Load(args.requests, concurrency, args.rate, args.warmup, args.seed, args.timeout, args.time_limit)
            if args.warmup and concurrency and concurrency > 1:
                load = dataclasses.replace(load, warmup_together=concurrency)
            row = await measure(
                args.url,
                model,
                group,
                sampling,
                load,
                dataset=domain,
                api_key=key,
                client=args.client,
                tag=args.tag,
                details=args.output_details,
                progress=progress,
            )
            line = json.dumps(row | {"domain": domain, "model": model})
            if args.output:
                with open(args.output, "a", encoding="utf-8") as out:
                    out.write(line + "\n")
            else:
                print(line, flush=True)
            _say(_line(row))
            failed += bool(row["error_kinds"])
    return 1 if failed else 0


def _line(row: dict[str, Any]) -> str:
    low, high = row["ci"].get("steady_output_throughput", (row["steady_output_throughput"],) * 2)
    accept = f", acceptance {row['accept_length']:.2f}" if row["accept_length"] else ""
    return (
        f"  {row['output_throughput']:.1f} tok/s"
        f" (steady {row['steady_output_throughput']:.1f}, {low:.1f} to {high:.1f})"
        f", TTFT {row['median_ttft_ms']:.1f} ms, ITL {row['mean_itl_ms']:.2f} ms{accept}, errors {row['error_kinds']}"
    )


def _plan(path: Path) -> dict[str, Any]:
    """The plan, checked; prompt paths that are not absolute are taken from beside it."""
    plan = json.loads(path.read_text(encoding="utf-8"))
    sweep.check_plan(plan)
    return plan | {"prompts": [str(path.parent / name) for name in plan["prompts"]]}


async def _sweep(args: argparse.Namespace) -> int:
    plan = _plan(args.plan)
    how = plan.get("server", {})
    args.folder.mkdir(parents=True, exist_ok=True)
    server: control.Server = (
        control.TransientUnit(how["unit"], how.get("properties", []))
        if how.get("control") == "systemd"
        else control.ProcessServer(args.folder / "server.log")
    )
    result = await sweep.run(plan, args.folder, server, _key(args.api_key_file), _say, args.max_visits)
    print(json.dumps(result))
    return 0


def _idle(args: argparse.Namespace) -> int:
    key = _key(args.api_key_file)
    readings = []
    for pause in (args.watch, 0.0):
        reading = metrics.snapshot(args.url, key)
        if reading is None:
            print(
                json.dumps({"idle": False, "reason": f"{args.url} exports no metrics, so traffic cannot be ruled out"})
            )
            return 3
        readings.append(reading)
        time.sleep(pause)
    reason = metrics.busy(*readings)
    print(json.dumps({"idle": reason is None, "reason": reason}))
    return 3 if reason else 0


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status: 0 done, 1 requests failed, 2 bad input or unusable server, 3 the server is busy."""
    args = _parser().parse_args(argv)
    try:
        if args.command == "run":
            return asyncio.run(_run(args))
        if args.command == "sweep":
            return asyncio.run(_sweep(args))
        if args.command == "idle":
            return _idle(args)
        print(json.dumps(sweep.collect(_plan(args.plan), args.folder)))
        return 0
    except (prompts.PromptError, sweep.PlanError, ServerUnusable, control.PortTaken, OSError, ValueError) as exc:
        _say(f"ddtree.bench: {exc}")
        return 2


if __name__ == "__main__":
    sys.exit(main())
