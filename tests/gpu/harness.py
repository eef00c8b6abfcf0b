# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the GPU sections share: engine processes, prompts, engine arguments, and the comparison of greedy texts."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import distribution

HERE = Path(__file__).resolve().parent
GREEDY = {"temperature": 0, "ignore_eos": True}


class EngineError(RuntimeError):
    """An engine process reported an error or died; the text ends with its log's tail."""


def variant(name: str) -> tuple[str, dict[str, str] | None]:
    """Algorithm and environment of an engine's name: dflash-again, tree32-fallback8 (the chain above 8), tree16-rows (hybrid).

    -rows: SGLang's own kernels and states a row. -states: states a row, for comparison.
    """
    algorithm, dummy, what = name.partition("-")
    if what.startswith("fallback"):
        return algorithm, {"SGLANG_DDTREE_MAX_TREE_BATCH": what[len("fallback") :]}
    known = {
        "rows": {"SGLANG_DDTREE_TREE_RECURRENCE": "0", "SGLANG_DDTREE_TREE_CONV": "0"},
        "states": {"SGLANG_DDTREE_COMPACT_STATES": "0"},
    }
    return algorithm, known.get(what)


class Engine:
    """Handle of one engine process (ddtree_engine.py)."""

    def __init__(self, label: str, stem: Path, args: dict[str, Any], env: dict[str, str]) -> None:
        self.label, self.stem, self.number = label, stem, 0
        self.ready_line: str | None = None
        Path(f"{stem}.spec.json").write_text(json.dumps(args))
        self.log = open(f"{stem}.log", "w", encoding="utf-8")  # noqa: SIM115 - closed by close()
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "ddtree_engine.py"), str(stem)],
            stdin=subprocess.PIPE,
            stdout=self.log,
            stderr=subprocess.STDOUT,
            env=env,
            text=True,
            start_new_session=True,
        )

    def _reply(self, timeout: float) -> dict[str, Any]:
        path = Path(f"{self.stem}.{self.number}.json")
        deadline = time.monotonic() + timeout
        while not path.exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                time.sleep(0.2)
                if not path.exists():
                    raise EngineError(f"{self.label}: no reply {self.number}\n{self.tail()}")
            time.sleep(0.02)
        result = json.loads(path.read_text())
        if "error" in result:
            raise EngineError(f"{self.label}: {result['error']}\n{self.tail()}")
        return result

    def tail(self, characters: int = 4000) -> str:
        return Path(f"{self.stem}.log").read_text(errors="replace")[-characters:]

    def ready(self, timeout: float = 300) -> dict[str, Any]:
        """Wait until the engine is up: seconds it took and the plugin's own start line."""
        result = self._reply(timeout)
        lines = [x for x in Path(f"{self.stem}.log").read_text(errors="replace").splitlines() if "DDTREE ready" in x]
        result["ready_line"] = lines[-1].split("] ", 1)[-1] if lines else None
        return result

    def run(self, kind: str, timeout: float = 240, **job: Any) -> dict[str, Any]:
        self.number += 1
        self.process.stdin.write(json.dumps({"kind": kind, **job}) + "\n")
        self.process.stdin.flush()
        return self._reply(timeout)

    def close(self) -> None:
        """End the process and whatever it started: a scheduler left behind would disturb the next measurement."""
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(20)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.log.close()


class Bench:
    """Shared state of the sections: folders, prompts, engine arguments."""

    def __init__(self, out: Path, pairs: Path, configs: Path | None, pair: str, dtypes: list[str]) -> None:
        self.out, self.pairs, self.configs, self.pair, self.dtypes = out, pairs, configs, pair, dtypes
        # A fresh folder a run: replies of an earlier run must not be taken for this one's.
        self.work = out / f"work-{os.getpid()}"
        self.work.mkdir(parents=True, exist_ok=True)
        self.serial = 0
        self.chosen: list[str] = []
        self.alive: dict[str, Engine] = {}
        self.report: dict[str, Any] = {}

    def begin(self, **facts: Any) -> dict[str, Any]:
        """The running section's report; what is in it is written even if the section does not end."""
        self.report = facts
        return facts

    def only(self, names: list[str]) -> list[str]:
        """Those of a section's engines that were asked for."""
        return [name for name in names if not self.chosen or name in self.chosen]

    def say(self, *parts: object) -> None:
        print(*parts, flush=True)

    def prompts(self, limit: int = 16, tokens: int = 64) -> dict[str, list[list[int]]]:
        """{domain: [token ids]} of the pair's prompts, each cut to `tokens`."""
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(self.pairs / self.pair / "target" / "tokenizer.json"))
        texts = json.loads((self.pairs / self.pair / "prompts.json").read_text())
        return {domain: [tokenizer.encode(t).ids[:tokens] for t in items[:limit]] for domain, items in texts.items()}

    def engine_args(self, algorithm: str, **extra: Any) -> dict[str, Any]:
        """Engine arguments of one configuration. `algorithm`: plain | dflash | chain | tree<budget>."""
        root = self.pairs / self.pair
        args: dict[str, Any] = {
            "model_path": str(root / "target"),
            "attention_backend": "triton",
            "sampling_backend": "pytorch",
            "grammar_backend": "none",
            "skip_tokenizer_init": True,
            # Engines share the card: a small pool, and a fraction that the others cannot exhaust.
            "mem_fraction_static": 0.85,
            "max_total_tokens": 40000,
            "max_running_requests": 16,
            "cuda_graph_max_bs_decode": 16,
            "context_length": 2048,
            "disable_custom_all_reduce": True,
            "sleep_on_idle": True,
            "log_level": "info",
            "random_seed": 1,
            "disable_radix_cache": True,
            "mm_feature_transport": "cpu",
        }
        if self.pair != "dense":
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

    def environment(self, extra: dict[str, str] | None = None) -> dict[str, str]:
        metadata = self.work / "dist"
        distribution.write_metadata(metadata, "ddtree_probe = ddtree_probe:register\n")
        path = os.pathsep.join([str(distribution.SOURCE), str(metadata), str(HERE), os.environ.get("PYTHONPATH", "")])
        return {**os.environ, "PYTHONPATH": path, **(extra or {})}

    def open(self, label: str, args: dict[str, Any], env: dict[str, str] | None = None) -> Engine:
        self.serial += 1
        return Engine(label, self.work / f"{self.serial:03d}-{label}", args, self.environment(env))

    def engines(self, wanted: dict[str, tuple[dict, dict | None]], timeout: float = 300) -> dict[str, Engine]:
        """Engines of these configurations, started side by side or still up from the section before.

        Engines that are not wanted any more are ended. Those that fail to start are reported and left out.
        """
        started = time.monotonic()
        keys = {name: json.dumps(how, sort_keys=True) for name, how in wanted.items()}
        self.close([key for key in self.alive if key not in keys.values()])
        fresh = {n: k for n, k in keys.items() if k not in self.alive}
        opened = {name: self.open(name, *wanted[name]) for name in fresh}
        self.failures: dict[str, str] = {}
        for name, engine in opened.items():
            try:
                engine.ready_line = engine.ready(timeout)["ready_line"]
                self.alive[keys[name]] = engine
            except EngineError as error:
                self.failures[name] = str(error)[-3000:]
                engine.close()
                self.say(f"{name} FAILED: {str(error)[-1800:]}")
        up = {name: self.alive[key] for name, key in keys.items() if key in self.alive}
        self.ready_lines = {name: engine.ready_line for name, engine in up.items()}
        self.say(f"{len(up)} of {len(wanted)} engines up in {time.monotonic() - started:.0f} s")
        return up

    def close(self, keys: list[str] | None = None) -> None:
        """End these engines, or all."""
        ending = [self.alive.pop(key) for key in list(self.alive if keys is None else keys)]
        with ThreadPoolExecutor(max(1, len(ending))) as pool:
            list(pool.map(Engine.close, ending))


def tokens_per_round(result: dict[str, Any]) -> float | None:
    """Acceptance of a "generate" result; the first token of each output comes from the prefill."""
    rounds = sum(result["rounds"])
    return sum(len(o) - 1 for o in result["outputs"]) / rounds if rounds else None


def first_difference(a: list[int], b: list[int]) -> int | None:
    return next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), None)
