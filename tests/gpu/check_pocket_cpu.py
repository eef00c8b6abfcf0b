# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hold the reference generator against transformers and against known acceptance lengths. Run by hand; a CPU is enough.

    python tests/gpu/check_pocket_cpu.py --pair DIR --prompts prompts.json [--expect table.json] [--state progress.json]

DIR has `target` and `draft` (or `drafter`). prompts.json maps a kind of text to a list of prompts. Each prompt is cut to 64 tokens
and continued for 192 tokens, greedily, in float32 and without a stop token: by transformers' own `generate`, and with every
algorithm and budget. Reported are the prompts whose tokens differ (must be none) and the acceptance length per kind: tokens per
verify round, bonus included, the last round cut at the end. `--expect` is a table {kind: {"chain": x, "16": y, ...}}; a length
that is off by more than 0.1 fails. Finished parts are kept in `--state`, so that an interrupted run goes on where it was.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "roles/engine/files/ddtree/src"))

from ddtree.drafter import Drafter
from ddtree.generate import Generator, generate
from ddtree.sampling import SamplingParams
from ddtree.target import Target
from transformers import AutoTokenizer

PROMPT, NEW, TOLERANCE = 64, 192, 0.1
RUNS = [("none", 0), ("chain", 0), ("16", 16), ("15", 15), ("32", 32), ("64", 64), ("128", 128)]


def reference(target: Target, prompts: list[list[int]]) -> list[list[int]]:
    """transformers' own continuations."""
    ids = torch.tensor(prompts, device=target.device)
    out = target.model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=NEW,
        do_sample=False,
        eos_token_id=None,
        pad_token_id=0,
    )
    return out[:, ids.shape[1] :].tolist()


def run(target: Target, drafter: Drafter, name: str, budget: int, prompts: list[list[int]]) -> dict:
    """One algorithm over the prompts of one kind: outputs, and the numbers of tokens and rounds."""
    algorithm = {"none": "none", "chain": "dflash"}.get(name, "ddtree")
    generator = Generator(target, drafter, algorithm, budget or 1)
    done = generate(generator, prompts, SamplingParams(max_new_tokens=NEW))
    return {
        "outputs": [sequence.output for sequence in done],
        "tokens": sum(sum(sequence.rounds) for sequence in done),
        "rounds": sum(len(sequence.rounds) for sequence in done),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pair", type=Path, required=True)
    parser.add_argument("--prompts", type=Path, required=True)
    parser.add_argument("--expect", type=Path, help="known acceptance lengths, JSON")
    parser.add_argument("--state", type=Path, help="file for finished parts")
    parser.add_argument("--device", default="cpu", help="cpu, or cuda (then without TF32, torch's default)")
    parser.add_argument("--limit", type=int, help="prompts per kind; default: all")
    options = parser.parse_args()

    tokenizer = AutoTokenizer.from_pretrained(options.pair / "target", local_files_only=True)
    target = Target.load(options.pair / "target", device=options.device)
    where = next(path for name in ("draft", "drafter") if (path := options.pair / name).is_dir())
    drafter = Drafter.load(where, device=options.device)
    state = json.loads(options.state.read_text()) if options.state and options.state.exists() else {}
    expected = json.loads(options.expect.read_text()) if options.expect else {}
    texts = {
        kind: [tokenizer(prompt, verbose=False).input_ids[:PROMPT] for prompt in prompts[: options.limit]]
        for kind, prompts in json.loads(options.prompts.read_text(encoding="utf-8")).items()
    }
    failures = []
    # Small budgets first, over all kinds: the most is known soonest.
    for (name, budget), (kind, ids) in itertools.product([("reference", 0), *RUNS], texts.items()):
        key = f"{kind}/{name}/{len(ids)}"
        if key not in state:
            started = time.monotonic()
            part = (
                {"outputs": reference(target, ids)} if name == "reference" else run(target, drafter, name, budget, ids)
            )
            state[key] = {**part, "seconds": round(time.monotonic() - started, 1)}
            if options.state:
                options.state.write_text(json.dumps(state))
        part, wanted = state[key], state[f"{kind}/reference/{len(ids)}"]["outputs"]
        if name == "reference":
            print(f"{kind:6} transformers: {len(ids)} prompts  [{part['seconds']} s]", flush=True)
            continue
        differ = [number for number, pair in enumerate(zip(part["outputs"], wanted)) if pair[0] != pair[1]]
        length = part["tokens"] / part["rounds"]
        known = expected.get(kind, {}).get(name)
        wrong = bool(differ) or (known is not None and abs(length - known) > TOLERANCE)
        if wrong:
            failures.append(key)
        print(
            f"{kind:6} {name:>5}: {len(ids)} prompts, {len(differ)} differ {differ or ''}, acceptance {length:.2f}"
            f"{'' if known is None else f' (known {known})'}{'  FAILED' if wrong else ''}  [{part['seconds']} s]",
            flush=True,
        )
    print(f"{'FAILED: ' + ', '.join(failures) if failures else 'all as expected'}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
