# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The DDTree paper's own generator (github.com/liranringel/ddtree) on a model pair, for comparison: tokens a second, acceptance, stages.

usage: paper_generator.py CHECKOUT PAIR OUT.json [--device cuda] [--limit 8] [--tokens 192] [--budgets 16,32,64]

CHECKOUT is a copy of that repository, used unchanged; both attentions are set to sdpa. Its data sets are not loaded, so a missing
`datasets` package is stood in for by an empty one.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import sys
import types
from pathlib import Path
from typing import Any


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("pair", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--limit", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=192)
    parser.add_argument("--budgets", default="16,32,64")
    args = parser.parse_args()
    if importlib.util.find_spec("datasets") is None:
        stand_in = types.ModuleType("datasets")
        for name in ("load_dataset", "Features", "Sequence", "Value"):
            setattr(stand_in, name, None)
        sys.modules["datasets"] = stand_in
    sys.path.insert(0, str(args.checkout))
    import torch
    import transformers
    from ddtree import ddtree_generate
    from dflash import dflash_generate
    from model import DFlashDraftModel
    from tokenizers import Tokenizer

    if args.device == "cpu":  # its clock waits for the GPU
        torch.cuda.synchronize = lambda *dummy: None
    how = {"dtype": torch.bfloat16 if args.device == "cuda" else torch.float32, "attn_implementation": "sdpa"}
    target = transformers.AutoModelForCausalLM.from_pretrained(args.pair / "target", **how).to(args.device).eval()
    draft = DFlashDraftModel.from_pretrained(args.pair / "draft", **how).to(args.device).eval()
    tokenizer = Tokenizer.from_file(str(args.pair / "target" / "tokenizer.json"))
    texts = json.loads((args.pair / "prompts.json").read_text())
    report: dict[str, Any] = {"transformers": transformers.__version__, "torch": torch.__version__, "table": {}}
    common = {
        "mask_token_id": draft.mask_token_id,
        "max_new_tokens": args.tokens,
        "block_size": draft.block_size,
        "stop_token_ids": None,
    }
    plans: list[tuple[str, Any, dict[str, Any]]] = [("dflash", dflash_generate, {})]
    plans += [(f"tree{b}", ddtree_generate, {"tree_budget": int(b)}) for b in args.budgets.split(",")]
    for name, generate, more in plans:
        for domain, items in texts.items():
            ids = [torch.tensor([tokenizer.encode(t).ids[:64]], device=args.device) for t in items[: args.limit]]
            generate(draft, target, ids[0], **common, **more)
            done = [generate(draft, target, i, **common, **more) for i in ids]
            rounds = [n for d in done for n in d.acceptance_lengths]
            row = {
                "tokens_per_second": 1 / statistics.fmean(d.time_per_output_token for d in done),
                "tokens_per_round": statistics.fmean(rounds),
                "milliseconds_per_round": 1e3
                * sum(d.time_per_output_token * d.num_output_tokens for d in done)
                / len(rounds),
                "milliseconds_by_stage": {
                    k: 1e3 * sum(d.stage_times[k] for d in done) / len(rounds) for k in done[0].stage_times
                },
            }
            report["table"][f"{name}/{domain}/batch1"] = row
            print(name, domain, json.dumps({k: v for k, v in row.items() if k != "milliseconds_by_stage"}), flush=True)
    args.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
