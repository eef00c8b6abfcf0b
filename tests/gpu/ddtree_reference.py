# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Teacher-forced rounds of the project's own generator (transformers), the other side of the probe's `forced` mode.

usage: ddtree_reference.py PAIR_DIR IN.json OUT.jsonl     IN: {prompts, texts, budget, dtype, device}
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import ddtree.generate as module
import torch
from ddtree.drafter import Drafter
from ddtree.generate import Generator, Sequence
from ddtree.sampling import SamplingParams
from ddtree.target import Target


def recorded(draft: Callable[[torch.Tensor], Any], trees: list[Any], roots: torch.Tensor) -> Any:
    """Draft, and keep the tree."""
    trees.append(draft(roots))
    return trees[-1]


def main(pair: str, spec_path: str, out_path: str) -> None:
    spec = json.loads(Path(spec_path).read_text())
    target = Target.load(Path(pair) / "target", dtype=spec["dtype"], device=spec["device"])
    drafter = Drafter.load(Path(pair) / "draft", dtype=spec["dtype"], device=spec["device"])
    text = torch.zeros(0, dtype=torch.int64)

    def choose(_logits: torch.Tensor, _params: Any, _uniforms: Any, index: torch.Tensor) -> torch.Tensor:
        return text[index.cpu().clamp(max=len(text) - 1)].to(spec["device"])

    module.choose = choose
    with open(out_path, "w", encoding="utf-8") as out:
        for number, (prompt, tokens) in enumerate(zip(spec["prompts"], spec["texts"])):
            text = torch.tensor(tokens)
            generator = Generator(target, drafter, "ddtree", budget=spec["budget"])
            trees: list[Any] = []
            generator._draft = partial(recorded, generator._draft, trees)
            sequence = Sequence(prompt, SamplingParams(temperature=0.0, max_new_tokens=len(tokens)))
            prefill = generator.prefill([sequence])
            while not prefill.step():
                pass
            while generator.running:
                before = len(sequence.output)
                generator.step()
                tree = trees[-1]
                record = {
                    "request": number,
                    "output": before - 1,
                    "accepted": len(sequence.output) - before,
                    "token": tree.tokens[0].tolist(),
                    "parent": tree.parents[0].tolist(),
                }
                out.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
