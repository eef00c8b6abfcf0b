# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One SGLang engine process of the benchmark: starts an engine, then runs one job per line of standard input.

usage: ddtree_engine.py STEM        STEM.spec.json holds Engine arguments; replies go to STEM.<n>.json, n = 0 (start), 1, ...

A job is {"kind", ...}. Kinds:
* "generate": `ids` (list of prompts), `sampling` (one dict, or one per prompt), `mode` "each" (one after the other, batch 1)
  or "batch" (all at once), `repeat` (timed repetitions; outputs are the first's), `warm` (untimed ones before).
* "gaps": `ids`: for each, the log-probabilities of the 20 most likely next tokens.
* "stream": `ids`, `sampling`: every prompt streamed, all at once; the last chunk's tokens and the number of chunks.
* "abort": `ids`, `sampling`, `after`: as "stream", and every second request is aborted after that many chunks.
"""

from __future__ import annotations

import asyncio
import json
import os
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

    for dummy in range(job.get("warm", 0)):
        once()
    seconds, first = [], None
    for dummy in range(job.get("repeat", 1)):
        start = time.perf_counter()
        result = once()
        seconds.append(time.perf_counter() - start)
        first = first or result
    return {
        "outputs": [r["output_ids"] for r in first],
        "rounds": [r["meta_info"].get("spec_verify_ct") or 0 for r in first],
        "finish": [r["meta_info"].get("finish_reason") for r in first],
        "texts": [r.get("text") for r in first],
        "cached": [r["meta_info"].get("cached_tokens") for r in first],
        "seconds": seconds,
    }


def gaps(engine: Any, job: dict[str, Any]) -> dict[str, Any]:
    """Next-token candidates after each prefix, [[log-probability, token], ...] from best to worst."""
    tops = []
    for prefix in job["ids"]:
        result = engine.generate(
            input_ids=prefix,
            sampling_params={"temperature": 0, "max_new_tokens": 1, "ignore_eos": True},
            return_logprob=True,
            top_logprobs_num=20,
        )
        tops.append([[float(lp), int(token)] for lp, token, *dummy in result["meta_info"]["output_top_logprobs"][0]])
    return {"tops": tops}


def stream(engine: Any, job: dict[str, Any]) -> dict[str, Any]:
    """Every prompt streamed at once. With `after`, every second request is aborted once it has sent so many chunks."""
    after = job.get("after")

    async def one(number: int, ids: list[int]) -> dict[str, Any]:
        name, chunks, last = f"{job['kind']}-{os.getpid()}-{job.get('turn', 0)}-{number}", 0, {}
        aborted = after is not None and number % 2 == 0
        generator = await engine.async_generate(input_ids=ids, sampling_params=job["sampling"], stream=True, rid=name)
        try:
            async for chunk in generator:
                last, chunks = {**chunk, "output_ids": list(chunk["output_ids"])}, chunks + 1
                if aborted and chunks == after:
                    engine.tokenizer_manager.abort_request(rid=name)
            finish = (last["meta_info"].get("finish_reason") or {}).get("type")
        except ValueError as error:  # how some aborts reach the caller
            finish = "abort" if "abort" in str(error).lower() else repr(error)
        return {"output": last["output_ids"], "chunks": chunks, "finish": finish, "aborted": aborted}

    async def every() -> list[dict[str, Any]]:
        return await asyncio.gather(*(one(i, ids) for i, ids in enumerate(job["ids"])))

    return {"requests": engine.loop.run_until_complete(every())}


KINDS = {"generate": generate, "gaps": gaps, "stream": stream, "abort": stream}


def main(stem: str) -> int:
    def reply(number: int, result: dict[str, Any]) -> None:
        with open(f"{stem}.part", "w", encoding="utf-8") as file:
            json.dump(result, file)
        os.replace(f"{stem}.part", f"{stem}.{number}.json")

    engine = None
    try:
        with open(f"{stem}.spec.json", encoding="utf-8") as file:
            spec = json.load(file)
        import sglang

        start = time.perf_counter()
        engine = sglang.Engine(**spec)
        reply(0, {"start_seconds": time.perf_counter() - start})
        for number, line in enumerate(sys.stdin, start=1):
            job = json.loads(line)
            reply(number, KINDS[job["kind"]](engine, job))
    except Exception:
        for number in range(1000):
            if not os.path.exists(f"{stem}.{number}.json"):
                reply(number, {"error": traceback.format_exc()})
                break
    if engine is not None:
        engine.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
