# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One SGLang engine process of the benchmark: starts an engine, runs the jobs of a specification, writes JSON.

usage: ddtree_engine.py SPEC.json      keys: engine (Engine arguments), jobs (list), out (result file)

A job is {"name", "kind", ...}. Kinds:
* "generate": `ids` (list of prompts), `sampling` (one dict or one per prompt), `mode` "each" (one after the other, batch 1)
  or "batch" (all at once), `repeat` (timed repetitions; outputs are the first's). `warm` untimed repetitions go before.
* "gaps": `ids`: for each, the log-probabilities of the 20 most likely next tokens.
"""

from __future__ import annotations

import json
import sys
import time
import traceback
from typing import Any


def generate(engine: Any, job: dict[str, Any]) -> dict[str, Any]:
    """Outputs, verify rounds and seconds of one job. Seconds cover the job's prompts, prefill included."""
    ids, sampling = job["ids"], job["sampling"]
    each = job.get("mode", "each") == "each"
    per_prompt = sampling if isinstance(sampling, list) else [sampling] * len(ids)

    def once() -> list[dict[str, Any]]:
        if each:
            return [engine.generate(input_ids=i, sampling_params=s) for i, s in zip(ids, per_prompt)]
        return engine.generate(input_ids=ids, sampling_params=per_prompt)

    for _ in range(job.get("warm", 0)):
        once()
    seconds, first = [], None
    for _ in range(job.get("repeat", 1)):
        start = time.perf_counter()
        result = once()
        seconds.append(time.perf_counter() - start)
        first = first or result
    meta = [r["meta_info"] for r in first]
    return {
        "outputs": [r["output_ids"] for r in first],
        "rounds": [m.get("spec_verify_ct") for m in meta],
        "histograms": [
            m.get("spec_correct_drafts_histogram") or m.get("spec_accept_histogram") for m in meta
        ],
        "finish": [m.get("finish_reason") for m in meta],
        "seconds": seconds,
    }


def gaps(engine: Any, job: dict[str, Any]) -> dict[str, Any]:
    """Next-token candidates of each prefix, [[log-probability, token], ...] from best to worst."""
    tops = []
    for prefix in job["ids"]:
        result = engine.generate(
            input_ids=prefix,
            sampling_params={"temperature": 0, "max_new_tokens": 1, "ignore_eos": True},
            return_logprob=True,
            top_logprobs_num=20,
        )
        tops.append([[float(lp), int(token)] for lp, token, *_ in result["meta_info"]["output_top_logprobs"][0]])
    return {"tops": tops}


KINDS = {"generate": generate, "gaps": gaps}


def main(spec_path: str) -> int:
    with open(spec_path, encoding="utf-8") as file:
        spec = json.load(file)
    result: dict[str, Any] = {"jobs": {}}
    code = 0
    engine = None
    try:
        import sglang

        start = time.perf_counter()
        engine = sglang.Engine(**spec["engine"])
        result["start_seconds"] = time.perf_counter() - start
        for job in spec["jobs"]:
            result["jobs"][job["name"]] = KINDS[job["kind"]](engine, job)
    except Exception:
        result["error"] = traceback.format_exc()
        code = 1
    with open(spec["out"], "w", encoding="utf-8") as file:
        json.dump(result, file)
    if engine is not None:
        engine.shutdown()
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
