# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""DDTREE against DFLASH and plain decoding in SGLang, on one GPU: losslessness, acceptance, round time, speed.

usage: ddtree_bench.py --out DIR --pairs DIR [--configs DIR] [--only lossless,acceptance,round,crossover,features,real] [--pair dense|hybrid]

Needs sglang, a GPU and a model pair: DIR of --pairs holds `dense/` and `hybrid/`, each with target/, draft/ and prompts.json;
--configs holds model configurations for dummy weights (section `real`). Every section writes DIR/<section>-<pair>.json;
`ddtree_report.py` merges whatever sections are there, so that they may come from different days.

Engines of one section start side by side, then measure one at a time (the others hold memory but run nothing).
"""

from __future__ import annotations

import argparse
import json
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from features import features, tensor_parallel
from harness import GREEDY, HERE, Bench, Engine, EngineError, first_difference, tokens_per_round, variant

# --- 1: losslessness -------------------------------------------------------------------------------------------------


def lossless(bench: Bench) -> dict[str, Any]:
    """Greedy outputs of every algorithm against plain decoding and DFLASH; the target's logit gap where they part."""
    prompts = [i for items in bench.prompts().values() for i in items]
    sampling = {**GREEDY, "max_new_tokens": 192}
    report = bench.begin(prompts=len(prompts), new_tokens=192, runs={})
    names = ["plain", "dflash", "tree16-rows", "tree16-states", "tree16", "tree32", "tree64"]
    if bench.pair == "dense":
        # Trees at batch 1 to 4, the chain's own graph above.
        names = ["plain", "dflash", "chain", "tree16", "tree64", "tree16-fallback4"]
    names = bench.only(names)
    wanted = {}
    for dtype in bench.dtypes:
        for name in names:
            algorithm, env = variant(name)
            wanted[f"{dtype}.{name}"] = (bench.engine_args(algorithm, dtype=dtype), env)
    up = bench.engines(wanted)
    report["ready"], report["failures"] = bench.ready_lines, bench.failures

    def both(engine: Engine) -> dict[str, Any]:
        return {mode: engine.run("generate", ids=prompts, sampling=sampling, mode=mode) for mode in ("batch", "each")}

    results: dict[str, Any] = {}
    with ThreadPoolExecutor(max(1, len(up))) as pool:
        for name, future in {n: pool.submit(both, e) for n, e in up.items()}.items():
            try:
                results[name] = future.result()
            except EngineError as error:
                report["failures"][name] = str(error)[-3000:]
                bench.say(f"{name} FAILED: {str(error)[-1800:]}")
    for dtype in bench.dtypes:
        mine = {n.split(".")[1]: r for n, r in results.items() if n.startswith(dtype)}
        if "plain" in mine:
            report["runs"][dtype] = compare_runs(bench, up[f"{dtype}.plain"], prompts, mine)
        if f"{dtype}.tree16" in results:
            report["runs"][dtype]["mixed"] = mixed_batch(bench, up[f"{dtype}.tree16"], prompts[:8], mine["tree16"])
    return report


def mixed_batch(bench: Bench, engine: Engine, prompts: list[list[int]], greedy: dict[str, Any]) -> dict[str, Any]:
    """Greedy, sampled and penalised requests in one batch: the greedy ones must come out as they do alone."""
    kinds = [
        {**GREEDY, "max_new_tokens": 192},
        {"temperature": 0.8, "top_p": 0.9, "top_k": 40, "min_p": 0.02, "max_new_tokens": 64},
        {**GREEDY, "frequency_penalty": 1.0, "max_new_tokens": 64},
        {"temperature": 1.0, "max_new_tokens": 64},
    ]
    sampling = [kinds[i % 4] for i in range(len(prompts))]
    result = engine.run("generate", ids=prompts, sampling=sampling, mode="batch")
    alone = range(0, len(prompts), 4)
    report = {
        "greedy_requests": len(alone),
        "greedy_as_alone": sum(result["outputs"][i] == greedy["each"]["outputs"][i] for i in alone),
        "tokens_per_round": [round((len(o) - 1) / max(r, 1), 2) for o, r in zip(result["outputs"], result["rounds"])],
    }
    bench.say("mixed", json.dumps(report))
    return report


def compare_runs(bench: Bench, plain: Engine, prompts: list[list[int]], results: dict[str, Any]) -> dict[str, Any]:
    """First differences of every run against plain (and DFLASH, if there) and the gaps of the target there."""
    pairs, prefixes = [], {}
    for name, modes in results.items():
        for mode, result in modes.items():
            for base in ("plain", "dflash"):
                if name == base or base not in results:
                    continue
                for i, (a, b) in enumerate(zip(result["outputs"], results[base][mode]["outputs"])):
                    at = first_difference(a, b)
                    if at is not None:
                        prefix = tuple(prompts[i] + a[:at])
                        prefixes.setdefault(prefix, None)
                        pairs.append((name, mode, base, i, at, prefix, a[at], b[at]))
    keys = list(prefixes)
    tops = plain.run("gaps", ids=[list(k) for k in keys], timeout=300)["tops"] if keys else []
    top_of = dict(zip(keys, tops))
    table: dict[str, Any] = {}
    for name, modes in results.items():
        for mode, result in modes.items():
            entry: dict[str, Any] = {"acceptance": tokens_per_round(result)}
            for base in ("plain", "dflash"):
                if name == base or base not in results:
                    continue
                mine = [p for p in pairs if p[0] == name and p[1] == mode and p[2] == base]
                found = [top_of[p[5]] for p in mine]
                gap = [t[0][0] - t[1][0] for t in found]
                outside = 0
                for p, t in zip(mine, found):
                    best_two = {t[0][1], t[1][1]}
                    outside += not {p[6], p[7]} <= best_two
                entry[f"against_{base}"] = {
                    "equal": len(prompts) - len(mine),
                    "parted": len(mine),
                    "largest_gap": max(gap, default=0.0),
                    "median_gap": statistics.median(gap) if gap else 0.0,
                    "not_the_best_two": outside,
                }
                if base == "dflash" and (name == "chain" or "fallback" in name):
                    same = [x == y for x, y in zip(result["rounds"], results[base][mode]["rounds"])]
                    entry["rounds_equal_dflash"] = sum(same)
            table[f"{name}/{mode}"] = entry
            bench.say(name, mode, json.dumps(entry))
    return table


# --- 2: agreement with the reference -----------------------------------------------------------------------------------


def acceptance(bench: Bench) -> dict[str, Any]:
    """Teacher-forced rounds along plain decoding's texts: SGLang's trees and acceptance against the project's own."""
    prompts = [i for items in bench.prompts(limit=8).values() for i in items]
    budget = 16
    common = measuring_args(bench)
    up = bench.engines({"plain": (bench.engine_args("plain", **common), None)})
    texts = up["plain"].run("generate", ids=prompts, sampling={**GREEDY, "max_new_tokens": 160})["outputs"]
    trace = bench.work / "forced.jsonl"
    Path(f"{trace}.texts.json").write_text(json.dumps(texts))
    env = {"DDTREE_PROBE": f"forced:{trace}"}
    engine = bench.open("forced", bench.engine_args(f"tree{budget}", disable_cuda_graph=True), env)
    report = bench.begin(budget=budget, texts=len(texts), dtype="bfloat16")
    references = {}
    for dtype in ("bfloat16", "float32"):
        spec = bench.work / f"reference-{dtype}.in.json"
        spec.write_text(
            json.dumps({"prompts": prompts, "texts": texts, "budget": budget, "dtype": dtype, "device": "cuda"})
        )
        out = bench.work / f"reference-{dtype}.jsonl"
        log = open(bench.work / f"reference-{dtype}.log", "w", encoding="utf-8")  # noqa: SIM115
        references[dtype] = (
            subprocess.Popen(
                [sys.executable, str(HERE / "ddtree_reference.py"), str(bench.pairs / bench.pair), str(spec), str(out)],
                env=bench.environment(),
                stdout=log,
                stderr=subprocess.STDOUT,
            ),
            out,
        )
    try:
        engine.ready()
        engine.run("generate", ids=prompts, sampling={**GREEDY, "max_new_tokens": 160})
    except EngineError as error:
        report["error"] = str(error)[-3000:]
    finally:
        engine.close()
    rounds = [json.loads(x) for x in trace.read_text().splitlines()] if trace.exists() else []
    clear = [r for r in rounds if r["gap"] > 1e-3]
    report["same_logits"] = {
        "rounds": len(rounds),
        "rounds_without_near_ties": len(clear),
        "equal_without_near_ties": sum(r["equal"] for r in clear),
        "equal_of_all": sum(r["equal"] for r in rounds),
    }
    report["mean_accepted_sglang"] = statistics.mean(r["accepted"] for r in rounds) if rounds else None
    for dtype, (process, out) in references.items():
        try:
            process.wait(120)
        except subprocess.TimeoutExpired:
            process.kill()
        if process.returncode != 0:
            report[f"reference_{dtype}"] = {"error": (bench.work / f"reference-{dtype}.log").read_text()[-2000:]}
            continue
        other = {(r["request"], r["output"]): r for r in map(json.loads, out.read_text().splitlines())}
        room = {i: len(t) - 17 for i, t in enumerate(texts)}
        common = [
            (r, other[r["request"], r["output"]])
            for r in rounds
            if (r["request"], r["output"]) in other and r["output"] < room.get(r["request"], 0)
        ]
        report[f"reference_{dtype}"] = {
            "common_rounds": len(common),
            "equal_trees": sum(a["token"] == b["token"] and a["parent"] == b["parent"] for a, b in common),
            "mean_accepted_sglang": statistics.mean(a["accepted"] for a, dummy in common) if common else None,
            "mean_accepted_reference": statistics.mean(b["accepted"] for dummy, b in common) if common else None,
        }
    bench.say(json.dumps(report, indent=1))
    return report


# --- 3, 4 and 6: round time, tokens a second, batch sizes ------------------------------------------------------------------------------------


def decode_seconds(engine: Engine, ids: list[list[int]], new_tokens: int, mode: str, repeat: int) -> dict[str, Any]:
    """Seconds of decoding alone: a run of `new_tokens` less a run of one token."""
    long = {**GREEDY, "max_new_tokens": new_tokens}
    short = {**GREEDY, "max_new_tokens": 1}
    warm = int(mode == "batch")
    prefill = engine.run("generate", ids=ids, sampling=short, mode=mode, warm=warm, repeat=repeat)
    full = engine.run("generate", ids=ids, sampling=long, mode=mode, warm=warm, repeat=repeat)
    # The faster of repetitions of the same work: what disturbs a run only makes it slower.
    seconds = min(full["seconds"]) - min(prefill["seconds"])
    tokens = sum(len(o) - 1 for o in full["outputs"])
    rounds = sum(full["rounds"])
    per_request = rounds / len(ids) if rounds else tokens / len(ids)
    steps = sum(full["rounds"]) if mode == "each" else max(full["rounds"])
    if not rounds:
        steps = tokens if mode == "each" else tokens // len(ids)
    return {
        "tokens_per_second": tokens / seconds,
        "tokens_per_round": tokens / rounds if rounds else 1.0,
        "milliseconds_per_round": 1e3 * seconds / steps,
        "rounds_per_request": per_request,
        "seconds": full["seconds"],
    }


BATCH_SIZES = [1, 2, 4, 8, 16, 24, 32]


def measuring_args(bench: Bench) -> dict[str, Any]:
    limit = 32 if bench.pair == "dense" else 16
    sizes = [s for s in BATCH_SIZES if s <= limit]
    return {"max_running_requests": limit, "cuda_graph_max_bs_decode": limit, "cuda_graph_bs_decode": sizes}


def speed(bench: Bench) -> dict[str, Any]:
    """Tokens a second by domain at batch 1 and 16, and by batch size; one engine alive at a time, DFLASH first and last.

    Idle engines beside the measured one cost up to a third of a round. The two runs of DFLASH show what the machine's drift is.
    """
    common = measuring_args(bench)
    sizes = common["cuda_graph_bs_decode"]
    names = ["dflash", "tree16", "tree32", "tree64", "tree32-fallback8", "plain", "dflash-again"]
    if bench.pair != "dense":
        names = ["dflash", "tree16", "tree32", "tree64", "tree16-rows", "plain", "dflash-again"]
    names = bench.only(names)
    report = bench.begin(new_tokens=192, table={}, by_batch={"new_tokens": 128, "sizes": sizes, "table": {}}, ready={})
    report["failures"] = {}
    domains = bench.prompts()
    pool = [i for pair in zip(domains["code"], domains["prose"]) for i in pair]
    bench.close()
    for name in names:
        algorithm, env = variant(name)
        up = bench.engines({name: (bench.engine_args(algorithm, **common), env)})
        report["ready"].update(bench.ready_lines)
        report["failures"].update(bench.failures)
        for engine in up.values():
            engine.run("generate", ids=domains["code"][:4], sampling={**GREEDY, "max_new_tokens": 64}, mode="each")
            if "fallback" not in name:
                for domain, ids in domains.items():
                    row = decode_seconds(engine, ids[:8], 192, "each", 3)
                    row16 = decode_seconds(engine, ids, 192, "batch", 3)
                    report["table"][f"{name}/{domain}/batch1"], report["table"][f"{name}/{domain}/batch16"] = row, row16
                    bench.say(
                        f"{name:12s} {domain:6s} batch 1: {row['tokens_per_second']:7.0f} tok/s, "
                        f"{row['tokens_per_round']:.2f} tok/round, {row['milliseconds_per_round']:.3f} ms/round; "
                        f"batch 16: {row16['tokens_per_second']:7.0f} tok/s, {row16['milliseconds_per_round']:.3f} ms/round"
                    )
            for size in sizes:
                report["by_batch"]["table"][f"{name}/{size}"] = decode_seconds(engine, pool[:size], 128, "batch", 4)
            rates = [f"{report['by_batch']['table'][f'{name}/{s}']['tokens_per_second']:.0f}" for s in sizes]
            bench.say(f"{name:12s} tok/s at {sizes}: {' '.join(rates)}")
        bench.close()
    return report


def builder(bench: Bench) -> dict[str, Any]:
    """CUDA-event times of the plugin's own kernels, without an engine."""
    out = bench.work / "kernels.json"
    subprocess.run(
        [sys.executable, str(HERE / "ddtree_kernels_bench.py"), str(out)],
        env=bench.environment(),
        check=True,
        timeout=200,
    )
    report = json.loads(out.read_text())
    bench.say(json.dumps(report))
    return report


def round_stages(bench: Bench) -> dict[str, Any]:
    """GPU time of a round by stage, and decode rounds under torch.cuda.set_sync_debug_mode("error")."""
    names = ["dflash", "tree16", "tree64"] if bench.pair == "dense" else ["dflash", "tree16", "tree32"]
    report = bench.begin(stages={}, no_sync={})
    prompts = bench.prompts(limit=8)["code"]
    files = {n: bench.work / f"stages-{bench.pair}-{n}.json" for n in names}
    wanted = {n: (bench.engine_args(n), {"DDTREE_PROBE": f"stages:{files[n]}"}) for n in names}
    wanted["no_sync"] = (bench.engine_args("tree16"), {"DDTREE_PROBE": "sync"})
    up = bench.engines(wanted)
    report["failures"] = bench.failures
    for name in names:
        for ids, mode in ((prompts, "each"), (prompts * 2, "batch")):
            if name in up:
                up[name].run("generate", ids=ids, sampling={**GREEDY, "max_new_tokens": 192}, mode=mode, repeat=2)
    for label, sampling in (
        ("greedy", {**GREEDY, "max_new_tokens": 160}),
        ("sampled", {"temperature": 0.8, "top_p": 0.9, "top_k": 40, "min_p": 0.02, "max_new_tokens": 160}),
    ):
        try:
            result = up["no_sync"].run("generate", ids=prompts, sampling=sampling, mode="batch")
            report["no_sync"][label] = {"rounds": sum(result["rounds"]), "synchronisations": 0}
        except (EngineError, KeyError) as error:
            report["no_sync"][label] = {"error": str(error)[-2500:]}
            break
    for name, path in files.items():
        if path.exists():
            report["stages"][name] = stage_medians(path)
            bench.say(name, json.dumps(report["stages"][name]))
    bench.say(json.dumps(report["no_sync"]))
    return report


def stage_medians(path: Path) -> dict[str, dict[str, float]]:
    raw = json.loads(path.read_text())
    return {
        f"batch{bs}": {c: statistics.median(r[i] for r in rounds) for i, c in enumerate(raw["columns"])}
        for bs, rounds in raw["rounds"].items()
        if len(rounds) >= 5
    }


# --- 5: real-size layers -------------------------------------------------------------------------------------------------------


def real(bench: Bench, model: str, accept: dict[str, float], parallel: int) -> dict[str, Any]:
    """Dummy weights, forced acceptance: milliseconds a round by stage, batch size and tree size."""
    report = bench.begin(model=model, forced_acceptance=accept, table={}, failures={})
    ids = [[(17 * i + 3 * j) % 1000 + 10 for j in range(512)] for i in range(16)]
    plan = {
        "plain": [1, 4, 16],
        "dflash": [1, 4, 16],
        "tree16": [1, 4, 16],
        "tree32": [1, 4],
        "tree64": [1, 4],
    }
    if model == HYBRID:
        # 16 requests of 65 rows fit where no row keeps a state.
        plan["tree32"] = plan["tree64"] = [1, 4, 16]
        for what in ("rows", "states"):
            plan |= {f"tree16-{what}": [1, 4, 16], f"tree32-{what}": [1, 4], f"tree64-{what}": [1, 4]}
    waiting = [(name, plan[name]) for name in bench.only(list(plan))]
    while waiting:
        group, waiting = waiting[:parallel], waiting[parallel:]
        wanted, files = {}, {}
        for name, sizes in group:
            algorithm, extra = variant(name)
            args = bench.engine_args(
                algorithm,
                model_path=str(bench.configs / f"{model}-target"),
                load_format="dummy",
                context_length=4096,
                max_total_tokens=24000,
                max_running_requests=max(sizes),
                cuda_graph_max_bs_decode=max(sizes),
                cuda_graph_bs_decode=sizes,
                enable_multimodal=False,
                disable_prefill_cuda_graph=True,
                mem_fraction_static=0.9,
            )
            env = {"SGLANG_SIMULATE_ACC_METHOD": "match-expected", **(extra or {})}
            if name != "plain":
                args["speculative_draft_model_path"] = str(bench.configs / f"{model}-draft")
                args["speculative_draft_load_format"] = "dummy"
                files[name] = bench.work / f"real-{model}-{name}.json"
                env["DDTREE_PROBE"] = f"stages:{files[name]}"
                env["SGLANG_SIMULATE_ACC_LEN"] = str(accept[algorithm])
            wanted[name] = (args, env)
        up = bench.engines(wanted, timeout=400)
        report["failures"].update(bench.failures)
        for name, engine in up.items():
            for size in plan[name]:
                row = decode_seconds(engine, ids[:size], 640, "batch", 2)
                report["table"][f"{name}/batch{size}"] = row
                bench.say(f"{model} {name} batch {size}: {row['milliseconds_per_round']:.3f} ms/round")
        bench.close()
        for name, path in files.items():
            if path.exists():
                for size, row in stage_medians(path).items():
                    report["table"].setdefault(f"{name}/{size}", {})["stages"] = row
                bench.say(name, json.dumps(stage_medians(path)))
    return report


# Acceptance of Qwen3-8B on MATH-500 at temperature 0 by budget, as the paper's curve gives it; the chain's beside it.
PAPER_ACCEPTANCE = {"dflash": 7.79, "tree16": 8.61, "tree32": 9.27, "tree64": 9.75}
HYBRID = "qwen3.6-27b"


def real_dense(bench: Bench) -> dict[str, Any]:
    return real(bench, "qwen3-8b", PAPER_ACCEPTANCE, parallel=5)


def real_hybrid(bench: Bench) -> dict[str, Any]:
    return real(bench, HYBRID, PAPER_ACCEPTANCE, parallel=1)


SECTIONS: dict[str, Callable[[Bench], dict[str, Any]]] = {
    "lossless": lossless,
    "acceptance": acceptance,
    "builder": builder,
    "stages": round_stages,
    "speed": speed,
    "features": features,
    "tensor_parallel": tensor_parallel,
    "real_dense": real_dense,
    "real_hybrid": real_hybrid,
}


GROUPS = {"round": ["builder", "stages", "speed"], "crossover": ["speed"], "real": ["real_dense", "real_hybrid"]}
"""Names of --only that stand for several sections."""


class Stopped(BaseException):
    """The time limit of a surrounding `timeout` was reached."""


def stop(_signal: int, _frame: object) -> None:
    # `timeout` signals its child and then the child's whole group: the second one must not cost the report.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Stopped


def main() -> int:
    signal.signal(signal.SIGTERM, stop)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--pairs", type=Path, required=True)
    parser.add_argument("--configs", type=Path)
    parser.add_argument("--pair", default="dense", choices=["dense", "hybrid"])
    # The hybrid pair's convolution states are bfloat16 in SGLang 0.5.17 whatever the model's type: float16 fails there.
    parser.add_argument("--dtypes", default="bfloat16", help="of section lossless; dense: bfloat16,float16")
    parser.add_argument("--only", default=",".join(SECTIONS))
    parser.add_argument("--steps", default="", help="of section features: these only, e.g. grammar,retraction")
    parser.add_argument(
        "--engines", default="", help="of sections lossless, speed and real_*: these only, e.g. dflash,tree32"
    )
    args = parser.parse_args()
    bench = Bench(args.out, args.pairs, args.configs, args.pair, args.dtypes.split(","))
    bench.chosen = [name for name in (args.engines or args.steps).split(",") if name]
    code = 0
    wanted = [s for name in args.only.split(",") for s in GROUPS.get(name, [name])]
    for name in wanted:
        start = time.monotonic()
        try:
            result = SECTIONS[name](bench)
        except (Exception, Stopped) as error:  # a section's failure must not cost the following ones
            result, code = {**bench.report, "error": repr(error)[-3000:]}, 1
            bench.say(f"section {name} failed: {error!r}"[-2500:])
        result["section_seconds"] = round(time.monotonic() - start, 1)
        result["date"] = time.strftime("%Y-%m-%d")
        (args.out / f"{name}-{args.pair}.json").write_text(json.dumps(result, indent=1))
        bench.say(f"=== section {name} ({args.pair}): {result['section_seconds']} s")
        if "Stopped" in result.get("error", ""):
            break
    bench.close()
    return code


if __name__ == "__main__":
    sys.exit(main())
