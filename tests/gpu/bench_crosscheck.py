# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hold ddtree.bench against sglang's own benchmark on one running server, and sweep budgets on a GPU.

    python3 tests/gpu/bench_crosscheck.py OUT --pair DIR [--only crosscheck|sweep|standing] [--sglang DIR] [--seconds 520] [--visits N]

DIR of --pair holds target/, draft/ and prompts.json ({domain: [text]}). --sglang adds a folder with sglang/benchmark to a runtime that
comes without it. `crosscheck` (about 2 minutes) writes OUT/crosscheck.json: both clients, forwards and backwards, and their ratios; exit
status 1 when tokens a second or request latency differ by more than 5 %. `sweep` writes OUT/sweep.json and goes on where it was cut off, as
long as OUT stays: a fresh server a visit, as the playbook has it, of which most is start. `standing` writes the same file for machines lent by
the minute: all servers start side by side once, and the blocks visit them in turn while the others sleep, so that there is time for
more blocks; what differs from start to start of one configuration is not seen that way.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import distribution

REPO = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(distribution.SOURCE))

from ddtree.bench import control, sweep  # noqa: E402

STANDING_BLOCKS = 4
PORT = 38111
URL = f"http://127.0.0.1:{PORT}"
MODEL = "pocket"
BUDGETS = (15, 16, 24, 32, 48, 64)
TOKENS = 128
COMPARED = (
    "output_throughput",
    "request_throughput",
    "mean_e2e_latency_ms",
    "mean_tpot_ms",
    "mean_ttft_ms",
    "mean_itl_ms",
)
BOUND = ("output_throughput", "mean_e2e_latency_ms")
TOLERANCE = 0.05


def collection(name: str) -> Any:
    """A module of the collection, imported from the checkout without Ansible."""
    for part in ("ansible_collections", "ansible_collections.inferlab", "ansible_collections.inferlab.dflash"):
        sys.modules.setdefault(part, types.ModuleType(part)).__path__ = [str(REPO)]
    return __import__(f"ansible_collections.inferlab.dflash.plugins.module_utils.{name}", fromlist=["x"])


def command(pair: Path, algorithm: str, budget: int | None, port: int = PORT) -> list[str]:
    """A text server of the pair, small enough to share a card."""
    words = [sys.executable, "-m", "sglang.launch_server", "--model-path", str(pair / "target")]
    words += ["--served-model-name", MODEL, "--host", "127.0.0.1", "--port", str(port), "--enable-metrics"]
    words += ["--attention-backend", "triton", "--sampling-backend", "pytorch", "--grammar-backend", "none"]
    words += ["--mem-fraction-static", "0.3", "--max-running-requests", "16", "--cuda-graph-max-bs-decode", "16"]
    words += ["--context-length", "2048", "--random-seed", "1", "--disable-radix-cache", "--disable-custom-all-reduce"]
    words += ["--mm-feature-transport", "cpu"]
    if algorithm != "none":
        words += ["--speculative-algorithm", algorithm.upper(), "--speculative-draft-model-path", str(pair / "draft")]
    if algorithm == "ddtree":
        words += ["--speculative-ddtree-budget", str(budget)]
    return words


def environment(folder: Path, extra: list[str]) -> dict[str, str]:
    """Python's path with ``extra`` first, then the checkout's package."""
    distribution.write_metadata(folder / "dist")
    path = [*extra, str(distribution.SOURCE), str(folder / "dist"), os.environ.get("PYTHONPATH", "")]
    return {"PYTHONPATH": os.pathsep.join(p for p in path if p)}


def benchmark_on_path(folder: Path, source: Path | None) -> list[str]:
    """Where sglang.benchmark and what it needs are importable from; a runtime without it gets a package that joins both."""
    if source is None:
        return []
    installed = importlib.util.find_spec("sglang")
    joined = folder / "joined" / "sglang"
    joined.mkdir(parents=True, exist_ok=True)
    for entry in Path(next(iter(installed.submodule_search_locations))).iterdir():
        link = joined / entry.name
        if not link.exists() and entry.name not in ("benchmark", "bench_serving.py", "__pycache__"):
            link.symlink_to(entry)
    if not (joined / "benchmark").exists():
        (joined / "benchmark").symlink_to(source / "sglang" / "benchmark")
    return [str(joined.parent), str(source.resolve())]


def write_prompts(pair: Path, folder: Path) -> tuple[Path, Path]:
    """The same prompts for both: ddtree.bench's JSONL, and sglang's `custom` conversations."""
    texts = json.loads((pair / "prompts.json").read_text())
    rows = [(f"{domain}-{i}", domain, text[:300]) for domain, items in texts.items() for i, text in enumerate(items)]
    ours, theirs = folder / "prompts.jsonl", folder / "custom.jsonl"
    ours.write_text("".join(json.dumps({"id": i, "domain": d, "prompt": p}) + "\n" for i, d, p in rows))
    theirs.write_text(
        "".join(
            json.dumps({"conversations": [{"content": p}, {"content": "an answer of some words"}]}) + "\n"
            for dummy, dummy, p in rows
        )
    )
    return ours, theirs


def run_ours(prompts: Path, concurrency: int, count: int, env: dict[str, str], out: Path) -> dict[str, Any]:
    words = [
        sys.executable,
        "-m",
        "ddtree.bench",
        "run",
        "--url",
        URL,
        "--model",
        MODEL,
        "--prompts",
        str(prompts),
        "--mix",
    ]
    words += [
        "--requests",
        str(count),
        "--concurrency",
        str(concurrency),
        "--max-tokens",
        str(TOKENS),
        "--output",
        str(out),
    ]
    subprocess.run([*words, "--warmup", "2"], check=True, env={**os.environ, **env})
    return json.loads(out.read_text().splitlines()[-1])


def run_theirs(
    prompts: Path, concurrency: int, count: int, env: dict[str, str], out: Path, pair: Path
) -> dict[str, Any]:
    words = [
        sys.executable,
        "-m",
        "sglang.benchmark.serving",
        "--backend",
        "sglang-oai",
        "--base-url",
        URL,
        "--model",
        MODEL,
    ]
    words += ["--tokenizer", str(pair / "target"), "--dataset-name", "custom", "--dataset-path", str(prompts)]
    words += ["--num-prompts", str(count), "--sharegpt-output-len", str(TOKENS), "--max-concurrency", str(concurrency)]
    words += ["--warmup-requests", "2", "--disable-tqdm", "--output-file", str(out)]
    subprocess.run(words, check=True, env={**os.environ, **env})
    return json.loads(out.read_text().splitlines()[-1])


def crosscheck(pair: Path, out: Path, source: Path | None, algorithm: str) -> bool:
    """Both clients on one server, ours first and last, theirs in between, at 1 and 8 requests at once."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        env = environment(folder, benchmark_on_path(folder, source))
        prompts, custom = write_prompts(pair, folder)
        count = len(prompts.read_text().splitlines())
        server = control.ProcessServer(out / "crosscheck-server.log")
        seconds = control.start_ready(server, command(pair, algorithm, None), env, URL, MODEL, None, 240)
        print(f"server up in {seconds:.0f} s", flush=True)
        result: dict[str, Any] = {"algorithm": algorithm, "requests": count, "tokens": TOKENS, "levels": {}}
        try:
            for level in (1, 8):
                runs: dict[str, list[dict[str, Any]]] = {"ours": [], "theirs": []}
                for turn, which in enumerate(("ours", "theirs", "theirs", "ours")):
                    file = folder / f"{which}-{level}-{turn}.jsonl"
                    row = (
                        run_ours(prompts, level, count, env, file)
                        if which == "ours"
                        else run_theirs(custom, level, count, env, file, pair)
                    )
                    runs[which].append(
                        {key: row[key] for key in (*COMPARED, "completed", "total_output_tokens", "duration")}
                    )
                means = {w: {k: statistics.fmean(r[k] for r in rows) for k in COMPARED} for w, rows in runs.items()}
                ratio = {k: means["ours"][k] / means["theirs"][k] for k in COMPARED if means["theirs"][k]}
                result["levels"][str(level)] = {"runs": runs, "ratio": ratio}
                print(level, json.dumps({k: round(v, 4) for k, v in ratio.items()}), flush=True)
        finally:
            server.stop()
    ratios = [level["ratio"] for level in result["levels"].values()]
    result["agree"] = all(abs(r[k] - 1) <= TOLERANCE for r in ratios for k in BOUND)
    (out / "crosscheck.json").write_text(json.dumps(result, indent=1) + "\n")
    return result["agree"]


def sweep_plan(pair: Path, out: Path, blocks: int) -> dict[str, Any]:
    """Plain, chain and trees at 1 and 8 requests at once; a port each, counted up from PORT."""
    prompts, dummy = write_prompts(pair, out)
    env = environment(out, [])
    wanted = [("none", None), ("dflash", None), *(("ddtree", budget) for budget in BUDGETS)]
    return {
        "url": URL,
        "model": MODEL,
        "configurations": [
            {
                "key": f"ddtree-{budget}" if budget else algorithm,
                "algorithm": algorithm,
                "budget": budget,
                "argv": command(pair, algorithm, budget),
                "env": env,
            }
            for algorithm, budget in wanted
        ],
        "concurrencies": [1, 8],
        "blocks": blocks,
        "prompts": [str(prompts)],
        "requests": 16,
        "warmup": 2,
        "start_timeout": 240,
        "sampling": {"max_tokens": TOKENS},
    }


def report(out: Path, rows: list[dict[str, Any]], blocks: list[int], progress: dict[str, Any]) -> None:
    """OUT/sweep.json with the verdict of the collection's own rule, and the verdict on standard output."""
    decide, summary = collection("_tune.decide"), collection("_tune.summary")
    verdict = decide.decide(rows, blocks, "dflash", decide.Rule())
    entry = summary.host_report("pocket-dense", rows, blocks, verdict, {"engine": "sglang"})
    found = {"progress": progress, "verdict": verdict, "entry": entry}
    (out / "sweep.json").write_text(json.dumps(found, indent=1) + "\n")
    print(verdict["status"], *verdict["reasons"], *entry["splits"], sep="\n  ", flush=True)


def say(text: str) -> None:
    print(text, flush=True)


def sweep_budgets(pair: Path, out: Path, seconds: float, most: int | None) -> bool:
    """Two blocks, a fresh server a visit."""
    plan = {**sweep_plan(pair, out, 2), "time_limit": seconds}
    server = control.ProcessServer(out / "sweep-server.log")
    done = asyncio.run(sweep.run(plan, out / "sweep", server, None, say, most))
    got = sweep.collect(plan, out / "sweep")
    print(json.dumps(done), flush=True)
    if not got["complete_blocks"]:
        return False
    report(out, got["rows"], got["complete_blocks"], done)
    return done["stopped"] == "done"


def sweep_standing(pair: Path, out: Path, seconds: float) -> bool:
    """All servers up at once and asleep but one; as many blocks as the time allows, up to STANDING_BLOCKS."""
    plan = sweep_plan(pair, out, STANDING_BLOCKS)
    begin = time.monotonic()
    servers, rows, blocks = {}, [], []
    for number, entry in enumerate(plan["configurations"]):
        port = PORT + 1 + number
        entry["argv"] = command(pair, entry["algorithm"], entry["budget"], port)
        entry["argv"] += ["--max-total-tokens", "40000", "--sleep-on-idle"]
        entry["url"] = f"http://127.0.0.1:{port}"
        servers[entry["key"]] = control.ProcessServer(out / f"server-{entry['key']}.log")

    def start(entry: dict[str, Any]) -> float:
        server = servers[entry["key"]]
        return control.start_ready(server, entry["argv"], entry["env"], entry["url"], MODEL, None, 240)

    try:
        with ThreadPoolExecutor(len(servers)) as pool:
            ready = dict(zip(servers, pool.map(start, plan["configurations"])))
        say(f"{len(ready)} servers up in {time.monotonic() - begin:.0f} s")
        longest = 0.0
        for block in range(STANDING_BLOCKS):
            started = time.monotonic()
            if started - begin + longest > seconds:
                say(f"block {block} needs about {longest:.0f} s more than there are")
                break
            for visit in [v for v in sweep.visits(plan) if v.block == block]:
                entry = next(c for c in plan["configurations"] if c["key"] == visit.key)
                base = {"configuration": visit.key, "block": block, **{k: entry[k] for k in ("algorithm", "budget")}}
                rows += asyncio.run(sweep.measure_cells(plan, base, entry["url"], None, ready[visit.key], say))
            blocks.append(block)
            longest = max(longest, time.monotonic() - started)
            progress = {"blocks": len(blocks), "of": STANDING_BLOCKS, "seconds": round(time.monotonic() - begin, 1)}
            report(out, rows, blocks, {**progress, "servers": "standing"})
    finally:
        for server in servers.values():
            server.stop()
    return len(blocks) > 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--pair", type=Path, required=True)
    parser.add_argument("--only", choices=("crosscheck", "sweep", "standing"))
    parser.add_argument("--sglang", type=Path, help="folder that holds sglang/benchmark")
    parser.add_argument("--algorithm", choices=("none", "dflash"), default="dflash", help="of the crosscheck's server")
    parser.add_argument("--seconds", type=float, default=520.0, help="for the sweep, all calls together")
    parser.add_argument("--visits", type=int, help="of the sweep, in this call at most")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    ok = True
    if args.only in (None, "crosscheck"):
        ok &= crosscheck(args.pair, args.out, args.sglang, args.algorithm)
    if args.only == "standing":
        ok &= sweep_standing(args.pair, args.out, args.seconds)
    if args.only in (None, "sweep"):
        ok &= sweep_budgets(args.pair, args.out, args.seconds, args.visits)
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
