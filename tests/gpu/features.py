# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a server does beside greedy texts, with DDTREE on: each checked against plain decoding on the same machine.

Every entry of a report has `holds`. Texts may part from plain decoding's where the target itself is undecided: the distance of its two
best log-probabilities there is given, beside DFLASH's for the same requests, and held against the largest that DFLASH shows in the run.
"""

from __future__ import annotations

import json
import re
from typing import Any

from harness import GREEDY, Bench, Engine, EngineError, first_difference

NAME = r"[a-z]{3,8}_[0-9]{2}"
SCHEMA = (
    '{"type": "object", "properties": {"n": {"type": "integer"}, "ok": {"type": "boolean"}}, "required": ["n", "ok"]}'
)


def against(
    plain: Engine, prompts: list[list[int]], mine: list[list[int]], base: list[list[int]], chain: list[list[int]]
) -> dict[str, Any]:
    """How many texts are equal to plain decoding's, and how undecided the target is where the others part; DFLASH's gap beside it."""

    def parted(outputs: list[list[int]]) -> tuple[int, int, float]:
        ways = [(p, b, first_difference(m, b)) for p, m, b in zip(prompts, outputs, base) if m != b]
        # One text that is the beginning of the other parts nowhere: a length that is wrong.
        lengths = sum(at is None for dummy, dummy, at in ways)
        prefixes = [p + b[:at] for p, b, at in ways if at is not None]
        tops = plain.run("gaps", ids=prefixes)["tops"] if prefixes else []
        return len(ways), lengths, max((t[0][0] - t[1][0] for t in tops), default=0.0)

    number, lengths, gap = parted(mine)
    limit = parted(chain)[2]
    return {
        "equal": len(prompts) - number,
        "of": len(prompts),
        "largest_gap": gap,
        "largest_gap_of_dflash": limit,
        "holds": lengths == 0,
    }


def hold_gaps(bench: Bench, results: dict[str, dict[str, Any]]) -> None:
    """Judge and say the bar of a run: no text parts from plain decoding's at a larger gap than the largest that DFLASH shows anywhere in it."""
    limit = max((entry.get("largest_gap_of_dflash", 0.0) for entry in results.values()), default=0.0)
    for entry in results.values():
        entry["holds"] = entry["holds"] and entry.get("largest_gap", 0.0) <= limit + 1e-6
    bench.say("missed:", [label for label, entry in results.items() if not entry["holds"]])


def texts(engines: dict[str, Engine], prompts: list[list[int]], **sampling: Any) -> dict[str, Any]:
    """The same requests to plain decoding, DFLASH and DDTREE in one batch."""
    job = {"ids": prompts, "sampling": {**GREEDY, "max_new_tokens": 96, **sampling}, "mode": "batch"}
    base, chain, mine = (engines[n].run("generate", **job) for n in ("plain", "dflash", "tree"))
    entry = against(engines["plain"], prompts, mine["outputs"], base["outputs"], chain["outputs"])
    return {**entry, "mine": mine, "base": base}


def public(entry: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in entry.items() if k not in ("mine", "base")}


def prefill(engines: dict[str, Engine], prompts: list[list[int]]) -> dict[str, Any]:
    """Prompts longer than a chunk, twice: in pieces first, from the radix cache then."""
    first = texts(engines, prompts)
    again = texts(engines, prompts)
    hits = sum(c > 0 for c in again["mine"]["cached"])
    return {
        "chunked prefill": public(first),
        "radix cache": {**public(again), "hits": hits, "holds": again["holds"] and hits == len(prompts)},
    }


def stops(engines: dict[str, Engine], prompts: list[list[int]]) -> dict[str, Any]:
    """A stop string, a stop token, and lengths that end within a block."""
    string = texts(engines, prompts, stop=[" the", ")"], max_new_tokens=160)
    ended = [f.get("matched") in (" the", ")") for f in string["mine"]["finish"]]
    clean = all(" the" not in t and ")" not in t for t, e in zip(string["mine"]["texts"], ended) if e)
    entry = {**public(string), "ended_by_it": sum(ended)}
    report = {"stop strings": {**entry, "holds": string["holds"] and clean and any(ended)}}
    # ignore_eos would ignore this token as well.
    token = texts(engines, prompts)["base"]["outputs"][0][5]
    by_token = texts(engines, prompts, stop_token_ids=[token], ignore_eos=False)
    cut = [o.index(token) == len(o) - 1 for o in by_token["mine"]["outputs"] if token in o]
    report["stop token"] = {
        **public(by_token),
        "ended_by_it": len(cut),
        "holds": by_token["holds"] and all(cut) and len(cut) > 0,
    }
    for length in (1, 2, 17):
        short = texts(engines, prompts, max_new_tokens=length)
        exact = all(len(o) == length for o in short["mine"]["outputs"])
        report[f"length {length}"] = {**public(short), "holds": short["holds"] and exact}
    return report


def streaming(tree: Engine, prompts: list[list[int]]) -> dict[str, Any]:
    """Streams say what the same requests say without; an aborted one ends early and costs the others nothing."""
    sampling = {**GREEDY, "max_new_tokens": 192}
    whole = tree.run("generate", ids=prompts, sampling=sampling, mode="batch")["outputs"]
    flow = tree.run("stream", ids=prompts, sampling=sampling)["requests"]
    same = sum(r["output"] == w for r, w in zip(flow, whole))
    report: dict[str, Any] = {
        "streaming": {"equal": same, "of": len(prompts), "chunks": sum(r["chunks"] for r in flow)}
    }
    report["streaming"]["holds"] = same >= len(prompts) - 2 and all(r["chunks"] > 5 for r in flow)
    ended = tree.run("abort", ids=prompts, sampling=sampling, after=3)["requests"]
    gone = [r for r in ended if r["aborted"]]
    kept = [(r, w) for r, w in zip(ended, whole) if not r["aborted"]]
    again = tree.run("generate", ids=prompts, sampling=sampling, mode="batch")["outputs"]
    report["abort"] = {
        "aborted": sum(r["finish"] == "abort" and len(r["output"]) < 192 for r in gone),
        "of": len(gone),
        "others_whole": sum(len(r["output"]) == 192 for r, dummy in kept),
        "others": len(kept),
        "same_afterwards": sum(a == w for a, w in zip(again, whole)),
        "holds": all(r["finish"] == "abort" and len(r["output"]) < 192 for r in gone)
        and all(len(r["output"]) == 192 for r, dummy in kept)
        and sum(a == w for a, w in zip(again, whole)) >= len(prompts) - 2,
    }
    return report


def bias(tree: Engine, prompts: list[list[int]]) -> dict[str, Any]:
    """A banned token never comes, a forced one always does; a penalty against repetition lowers repetition."""
    free = tree.run("generate", ids=prompts, sampling={**GREEDY, "max_new_tokens": 64}, mode="batch")["outputs"]
    counts: dict[int, int] = {}
    for output in free:
        for token in output:
            counts[token] = counts.get(token, 0) + 1
    common = max(counts, key=lambda t: counts[t])

    def run(**more: Any) -> list[list[int]]:
        return tree.run("generate", ids=prompts, sampling={**GREEDY, "max_new_tokens": 64, **more}, mode="batch")[
            "outputs"
        ]

    def variety(outputs: list[list[int]]) -> float:
        return sum(len(set(o)) for o in outputs) / sum(len(o) for o in outputs)

    banned, forced = run(logit_bias={str(common): -100.0}), run(logit_bias={str(common): 100.0})
    penalised = run(frequency_penalty=1.5)
    return {
        "logit bias": {
            "token": common,
            "without": counts[common],
            "banned": sum(o.count(common) for o in banned),
            "forced_share": sum(o.count(common) for o in forced) / sum(map(len, forced)),
            "holds": not any(common in o for o in banned) and all(set(o) == {common} for o in forced),
        },
        "frequency penalty": {
            "different_tokens_share": [variety(free), variety(penalised)],
            "holds": variety(penalised) > variety(free),
        },
    }


def grammar(tree: Engine, prompts: list[list[int]]) -> dict[str, Any]:
    """Constrained and free requests in one batch: each constrained text matches, each free one is what it is alone."""
    kinds = [{"regex": NAME}, {"json_schema": SCHEMA}, {}, {}]
    sampling = [{"temperature": 0, "max_new_tokens": 64, **kinds[i % 4]} for i in range(len(prompts))]
    mixed = tree.run("generate", ids=prompts, sampling=sampling, mode="batch")
    alone = tree.run("generate", ids=prompts, sampling={"temperature": 0, "max_new_tokens": 64}, mode="batch")
    names = [t for i, t in enumerate(mixed["texts"]) if i % 4 == 0]
    objects = [(t, f) for i, (t, f) in enumerate(zip(mixed["texts"], mixed["finish"])) if i % 4 == 1]
    free = [(a, b) for i, (a, b) in enumerate(zip(mixed["outputs"], alone["outputs"])) if i % 4 > 1]

    def is_object(text: str) -> bool:
        try:
            return set(json.loads(text)) == {"n", "ok"}
        except ValueError:
            return False

    # An integer of any length is a valid beginning when the text ends by its length.
    finished = [t for t, f in objects if f.get("type") == "stop"]
    sampled = [{"temperature": 1.0, "max_new_tokens": 64, "regex": NAME}] * len(prompts)
    drawn = tree.run("generate", ids=prompts, sampling=sampled, mode="batch")
    matched = sum(bool(re.fullmatch(NAME, t)) for t in names)
    matched_drawn = sum(bool(re.fullmatch(NAME, t)) for t in drawn["texts"])
    rounds = sum(mixed["rounds"][::4]) + sum(drawn["rounds"])
    tokens = sum(len(o) - 1 for o in mixed["outputs"][::4]) + sum(len(o) - 1 for o in drawn["outputs"])
    return {
        "grammar": {
            "regex_matched": [matched, len(names)],
            "regex_matched_sampled": [matched_drawn, len(prompts)],
            "objects_valid": [sum(map(is_object, finished)), len(finished)],
            "free_as_alone": [sum(a == b for a, b in free), len(free)],
            "tokens_per_round": tokens / max(rounds, 1),
            "examples": [*names[:2], *drawn["texts"][:2], *finished[:1]],
            "holds": matched == len(names)
            and matched_drawn == len(prompts)
            and all(map(is_object, finished))
            and sum(a == b for a, b in free) >= len(free) - 2,
        }
    }


def law(plain: Engine, tree: Engine, prompt: list[int], draws: int = 4000) -> dict[str, Any]:
    """Sampled texts of three tokens from both engines: two-sample chi-square of the joint law.

    The first token comes from the prefill, the second and third from trees.
    """
    from scipy.stats import chi2_contingency

    sampling = {"temperature": 1.2, "top_k": 12, "top_p": 0.98, "max_new_tokens": 3, "ignore_eos": True}
    counts: list[dict[tuple[int, ...], int]] = []
    for engine in (plain, tree):
        result = engine.run("generate", ids=[prompt] * draws, sampling=sampling, mode="batch")
        table: dict[tuple[int, ...], int] = {}
        for output in result["outputs"]:
            table[tuple(output)] = table.get(tuple(output), 0) + 1
        counts.append(table)
    keys = sorted(set(counts[0]) | set(counts[1]), key=lambda k: -(counts[0].get(k, 0) + counts[1].get(k, 0)))
    frequent = [k for k in keys if counts[0].get(k, 0) + counts[1].get(k, 0) >= 20]
    rows = [[c.get(k, 0) for k in frequent] for c in counts]
    for row in rows:
        row.append(draws - sum(row))
    test = chi2_contingency([r for r in zip(*rows) if sum(r) > 0])
    return {
        "sampling law": {
            "draws": draws,
            "texts": len(frequent),
            "p_value": float(test.pvalue),
            "holds": bool(test.pvalue > 1e-3),
        }
    }


def tight(bench: Bench) -> tuple[dict[str, Any], dict[str, str]]:
    """An engine whose pool is too small: 16 requests of 64 + 400 tokens need 7424 slots."""
    args = bench.engine_args("tree16", max_total_tokens=4200, schedule_conservativeness=0.1)
    return args, {"SGLANG_TEST_RETRACT": "1", "SGLANG_TEST_RETRACT_INTERVAL": "40"}


def retraction(engines: dict[str, Engine], prompts: list[list[int]]) -> dict[str, Any]:
    """A pool too small for the batch: requests are taken back, and come out as they would have."""
    sampling = {**GREEDY, "max_new_tokens": 400}
    base, chain, mine = (
        engines[n].run("generate", ids=prompts, sampling=sampling, mode="batch")["outputs"]
        for n in ("plain", "dflash", "tight")
    )
    taken_back = len(re.findall(r"Retract requests|Testing retraction", engines["tight"].tail(10**7)))
    entry = against(engines["plain"], prompts, mine, base, chain)
    return {"retraction": {**entry, "retractions": taken_back, "holds": entry["holds"] and taken_back > 0}}


def features(bench: Bench) -> dict[str, Any]:
    """Radix cache, chunked prefill, stop strings, lengths, streams, aborts, bias, penalties, grammar, sampling law, retraction."""
    report = bench.begin(results={}, failures={})
    common: dict[str, Any] = {
        "skip_tokenizer_init": False,
        "disable_radix_cache": False,
        "chunked_prefill_size": 64,
        "sleep_on_idle": False,
        "mem_fraction_static": 0.3,
    }
    wanted = {
        "plain": (bench.engine_args("plain", **common), None),
        "dflash": (bench.engine_args("dflash", **common), None),
        "tree": (bench.engine_args("tree16", **{**common, "grammar_backend": "xgrammar"}), None),
    }
    if bench.only(["retraction"]):
        wanted["tight"] = tight(bench)
    engines = bench.engines(wanted)
    report["failures"].update(bench.failures)
    long = [i for items in bench.prompts(limit=6, tokens=230).values() for i in items]
    short = [i for items in bench.prompts(limit=6).values() for i in items][:16]
    steps: dict[str, Any] = {
        "prefill": lambda: prefill(engines, long),
        "stops": lambda: stops(engines, short),
        "streaming": lambda: streaming(engines["tree"], short),
        "bias": lambda: bias(engines["tree"], short),
        "law": lambda: law(engines["plain"], engines["tree"], short[8]),
        "grammar": lambda: grammar(engines["tree"], short),
        "retraction": lambda: retraction(engines, short),
    }
    for name in bench.only(list(steps)):
        step = steps[name]
        try:
            for label, entry in step().items():
                report["results"][label] = entry
                bench.say(label, entry)
        except (EngineError, KeyError, IndexError, TypeError, AttributeError) as error:
            report["failures"][name] = repr(error)[-3000:]
            bench.say(f"{name} FAILED: {error!r}"[-1800:])
            if isinstance(error, EngineError) and any(e.process.poll() is not None for e in engines.values()):
                bench.close()
                engines.update(bench.engines(wanted))
    hold_gaps(bench, report["results"])
    bench.close()
    return report


def tensor_parallel(bench: Bench) -> dict[str, Any]:
    """Two GPUs: greedy texts of DFLASH and DDTREE against plain decoding, each at tensor parallel 2, and sampled ones in the law."""
    report = bench.begin(results={}, failures={})
    names = ["plain", "dflash", "chain", "tree16", "tree64"]
    up = bench.engines({n: (bench.engine_args(n, tp_size=2, mem_fraction_static=0.15), None) for n in names})
    report["failures"], report["ready"] = bench.failures, bench.ready_lines
    prompts = [i for items in bench.prompts().values() for i in items]
    outputs: dict[str, Any] = {}
    for name, engine in up.items():
        job = {"ids": prompts, "sampling": {**GREEDY, "max_new_tokens": 192}, "mode": "batch", "repeat": 2}
        outputs[name] = engine.run("generate", **job)
    for name in outputs:
        if name != "plain" and {"plain", "dflash"} <= set(outputs):
            mine, base, chain = (outputs[n]["outputs"] for n in (name, "plain", "dflash"))
            entry = against(up["plain"], prompts, mine, base, chain)
            rounds = sum(outputs[name]["rounds"])
            entry["tokens_per_round"] = sum(len(o) - 1 for o in outputs[name]["outputs"]) / max(rounds, 1)
            entry["seconds"] = outputs[name]["seconds"]
            report["results"][name] = entry
            bench.say(name, entry)
    hold_gaps(bench, report["results"])
    if {"dflash", "chain"} <= set(outputs):
        same = [a == b for a, b in zip(outputs["dflash"]["outputs"], outputs["chain"]["outputs"])]
        report["results"]["width 1 equals DFLASH"] = {"equal": sum(same), "of": len(same), "holds": all(same)}
        bench.say("width 1 equals DFLASH", sum(same), "of", len(same))
    if {"plain", "tree16"} <= set(up):
        report["results"].update(law(up["plain"], up["tree16"], prompts[0], draws=2000))
        bench.say(report["results"]["sampling law"])
    bench.close()
    return report
