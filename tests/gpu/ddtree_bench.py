# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""DDTREE against DFLASH and plain decoding in SGLang, on one GPU: losslessness, acceptance, round time, speed.

usage: ddtree_bench.py --out DIR --pairs DIR [--only smoke,lossless,...]      (needs sglang, a GPU and a model pair)

Every section writes DIR/<section>.json; `merge` (the default last step) joins whatever sections DIR holds into
DIR/ddtree-h200.json and draws DIR/ddtree-h200.svg, so that sections may come from different days.
DIR of --pairs holds `dense/` and `hybrid/`, each with target/, draft/ and prompts.json.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PLUGIN = HERE.parents[1] / "roles/engine/files/ddtree/src"
GREEDY = {"temperature": 0, "ignore_eos": True}


class Bench:
    """Shared state of the sections: folders, prompts, and how an engine process is run."""

    def __init__(self, out: Path, pairs: Path) -> None:
        self.out, self.pairs = out, pairs
        self.work = out / "work"
        self.work.mkdir(parents=True, exist_ok=True)
        self.serial = 0
        self.log: list[str] = []

    def say(self, *parts: object) -> None:
        line = " ".join(str(p) for p in parts)
        self.log.append(line)
        print(line, flush=True)

    # --- inputs -------------------------------------------------------------------------------------------------

    def prompts(self, pair: str, domains: list[str] | None = None, limit: int = 16, tokens: int = 64):
        """{domain: [token ids]} of the pair's prompts, each cut to `tokens`."""
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(self.pairs / pair / "target" / "tokenizer.json"))
        texts = json.loads((self.pairs / pair / "prompts.json").read_text())
        return {
            domain: [tokenizer.encode(text).ids[:tokens] for text in items[:limit]]
            for domain, items in texts.items()
            if domains is None or domain in domains
        }

    def engine_args(self, pair: str, algorithm: str, **extra: Any) -> dict[str, Any]:
        """Engine arguments of one configuration. `algorithm`: plain | dflash | chain | tree<budget>."""
        root = self.pairs / pair
        args: dict[str, Any] = {
            "model_path": str(root / "target"),
            "attention_backend": "triton",
            "sampling_backend": "pytorch",
            "grammar_backend": "none",
            "skip_tokenizer_init": True,
            "mem_fraction_static": 0.3,
            "max_running_requests": 16,
            "cuda_graph_max_bs_decode": 16,
            "context_length": 2048,
            "disable_custom_all_reduce": True,
            "log_level": "info",
            "random_seed": 1,
            "disable_radix_cache": True,
            "mm_feature_transport": "cpu",
        }
        if pair != "dense":
            args["enable_multimodal"] = False
        if algorithm != "plain":
            args["speculative_draft_model_path"] = str(root / "draft")
            args["speculative_algorithm"] = "DFLASH" if algorithm == "dflash" else "DDTREE"
        if algorithm == "chain":
            args.update(speculative_num_draft_tokens=16, speculative_eagle_topk=1)
        elif algorithm.startswith("tree"):
            args["speculative_num_draft_tokens"] = int(algorithm[4:]) + 1
        args.update(extra)
        return args

    # --- engine processes -----------------------------------------------------------------------------------------

    def start(self, label: str, engine: dict[str, Any], jobs: list[dict[str, Any]], env: dict[str, str] | None = None):
        """Start one engine process; `finish` collects it."""
        self.serial += 1
        stem = self.work / f"{self.serial:03d}-{label}"
        spec = {"engine": engine, "jobs": jobs, "out": f"{stem}.json"}
        Path(f"{stem}.spec.json").write_text(json.dumps(spec))
        path = os.pathsep.join([str(PLUGIN), str(self._dist_info()), str(HERE), os.environ.get("PYTHONPATH", "")])
        log = open(f"{stem}.log", "w", encoding="utf-8")  # noqa: SIM115 - closed by finish
        process = subprocess.Popen(
            [sys.executable, str(HERE / "ddtree_engine.py"), f"{stem}.spec.json"],
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONPATH": path, **(env or {})},
        )
        return label, stem, process, log, time.monotonic()

    def finish(self, handle: Any, timeout: float) -> dict[str, Any]:
        """Result of a started engine; {"error": ...} with the end of its log if it died or overran."""
        label, stem, process, log, started = handle
        try:
            process.wait(max(1.0, timeout - (time.monotonic() - started)))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        log.close()
        text = Path(f"{stem}.log").read_text(errors="replace")
        result: dict[str, Any] = {"error": "no result"}
        with contextlib.suppress(OSError, json.JSONDecodeError):
            result = json.loads(Path(f"{stem}.json").read_text())
        if "error" in result:
            result["log_tail"] = text[-6000:]
        ready = [line for line in text.splitlines() if "DDTREE ready" in line]
        result["ready_line"] = ready[-1] if ready else None
        self.say(
            f"[{label}] {time.monotonic() - started:.0f} s,",
            "FAILED" if "error" in result else f"engine up in {result.get('start_seconds', 0):.0f} s",
        )
        return result

    def run_all(self, runs: dict[str, tuple[dict, list, dict | None]], timeout: float = 300, parallel: int = 4):
        """Run engines side by side (correctness only: their timings disturb each other)."""
        results: dict[str, dict[str, Any]] = {}
        waiting = list(runs.items())
        while waiting:
            batch, waiting = waiting[:parallel], waiting[parallel:]
            handles = [(name, self.start(name, *run)) for name, run in batch]
            results.update({name: self.finish(handle, timeout) for name, handle in handles})
        return results

    def _dist_info(self) -> Path:
        """A folder that makes the checkout's plugin an installed distribution with its entry point."""
        root = self.work / "dist"
        info = root / "inferlab_ddtree-1.0.0.dist-info"
        if not info.is_dir():
            info.mkdir(parents=True)
            (info / "METADATA").write_text("Metadata-Version: 2.1\nName: inferlab-ddtree\nVersion: 1.0.0\n")
            (info / "entry_points.txt").write_text(
                "[sglang.srt.plugins]\nddtree = ddtree.sglang.plugin:register\nddtree_probe = ddtree_probe:register\n"
            )
        return root


def acceptance(result: dict[str, Any]) -> float:
    """Tokens a verify round of a "generate" result (first token of each output comes from the prefill)."""
    rounds = sum(result["rounds"])
    return sum(len(o) - 1 for o in result["outputs"]) / rounds if rounds else 1.0


def first_difference(a: list[int], b: list[int]) -> int | None:
    return next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), None)


def smoke(bench: Bench) -> dict[str, Any]:
    """Does it come up and agree? Few prompts, every mode, engines side by side."""
    ids = [i for items in bench.prompts("dense", limit=2).values() for i in items]
    job = [
        {"name": "one", "kind": "generate", "ids": ids, "sampling": {**GREEDY, "max_new_tokens": 96}},
        {"name": "all", "kind": "generate", "ids": ids, "sampling": {**GREEDY, "max_new_tokens": 96}, "mode": "batch"},
        {
            "name": "sampled",
            "kind": "generate",
            "ids": ids,
            "mode": "batch",
            "sampling": {"temperature": 0.8, "top_p": 0.9, "top_k": 40, "min_p": 0.02, "max_new_tokens": 64},
        },
        {
            "name": "penalised",
            "kind": "generate",
            "ids": ids[:2],
            "mode": "batch",
            "sampling": {**GREEDY, "frequency_penalty": 1.5, "repetition_penalty": 1.2, "max_new_tokens": 64},
        },
    ]
    plain_jobs = [j for j in job]
    dense = {
        "plain": (bench.engine_args("dense", "plain"), plain_jobs, None),
        "dflash": (bench.engine_args("dense", "dflash"), job[:2], None),
        "chain": (bench.engine_args("dense", "chain"), job, None),
        "tree16": (bench.engine_args("dense", "tree16"), job, None),
        "tree16-eager": (bench.engine_args("dense", "tree16", disable_cuda_graph=True), job, None),
        "tree64": (bench.engine_args("dense", "tree64"), job, None),
        "tree16-fallback": (
            bench.engine_args("dense", "tree16"),
            job,
            {"SGLANG_DDTREE_MAX_TREE_BATCH": "2"},
        ),
        "tree16-sync": (bench.engine_args("dense", "tree16", disable_overlap_schedule=True), job, None),
    }
    results = bench.run_all(dense, timeout=240, parallel=8)
    report: dict[str, Any] = {}
    for name, result in results.items():
        if "error" in result:
            report[name] = {"error": result["error"], "log_tail": result["log_tail"]}
            bench.say(name, "ERROR", result["error"][-1500:], "\n--- log:\n", result["log_tail"][-3500:])
            continue
        report[name] = {"ready": result["ready_line"], "start_seconds": result["start_seconds"]}
        for j in result["jobs"]:
            r = result["jobs"][j]
            entry = {"acceptance": round(acceptance(r), 3), "seconds": r["seconds"], "rounds": r["rounds"]}
            for other in ("plain", "dflash"):
                base = results.get(other, {}).get("jobs", {}).get(j)
                if base:
                    entry[f"same_as_{other}"] = sum(x == y for x, y in zip(r["outputs"], base["outputs"]))
                    entry[f"first_diff_{other}"] = [
                        first_difference(x, y) for x, y in zip(r["outputs"], base["outputs"])
                    ]
            entry["of"] = len(r["outputs"])
            report[name][j] = entry
            bench.say(name, j, json.dumps(entry))
        bench.say(name, result["ready_line"])
    return report


SECTIONS: dict[str, Callable[[Bench], dict[str, Any]]] = {"smoke": smoke}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--pairs", type=Path, required=True)
    parser.add_argument("--only", default=",".join(SECTIONS))
    args = parser.parse_args()
    bench = Bench(args.out, args.pairs)
    for name in args.only.split(","):
        start = time.monotonic()
        result = SECTIONS[name](bench)
        (args.out / f"{name}.json").write_text(json.dumps(result, indent=1))
        bench.say(f"section {name}: {time.monotonic() - start:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
