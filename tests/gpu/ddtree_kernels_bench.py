# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""GPU times of the plugin's kernels by CUDA events around graph replays: ddtree_kernels_bench.py OUT.json"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial

import torch
from ddtree.sglang import kernels
from ddtree.sglang.buffers import Round
from ddtree.tree import build_tree

DEPTH, K, BLOCK = 15, 16, 16


def microseconds(*functions: Callable[[], object], inner: int = 20, repeats: int = 50) -> float:
    """Median GPU time of one call of each function, in order."""
    for function in functions:
        function()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for dummy in range(inner):
            for function in functions:
                function()
    times = []
    for dummy in range(repeats):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(1e3 * start.elapsed_time(end) / inner)
    return sorted(times)[repeats // 2]


def main(out: str) -> None:
    device, report = "cuda", {"device": torch.cuda.get_device_name(), "microseconds": {}, "equal_to_reference": {}}
    times = report["microseconds"]
    for bs in (1, 4, 16):
        for vocab in (4096, 151936):
            n = bs * DEPTH
            logits = torch.randn(n, vocab, device=device, dtype=torch.bfloat16) * 3
            splits = kernels.topk_splits(vocab)
            part = {
                "value": torch.empty(n * splits * K, device=device),
                "index": torch.empty(n * splits * K, device=device, dtype=torch.int32),
                "part_max": torch.empty(n * splits, device=device),
                "part_sum": torch.empty(n * splits, device=device),
            }
            merged = {
                "logprob": torch.empty(bs, DEPTH, K, device=device),
                "ids": torch.empty(bs, DEPTH, K, device=device, dtype=torch.int32),
                "lse": torch.empty(n, device=device),
            }

            partial_pass = partial(kernels.topk_partial, logits, index_start=0, k=K, **part)
            how = {"rows": n, "splits": splits, "k": K, "split_major": False, "normalise": True}
            merge_pass = partial(kernels.topk_merge, **part, **how, **merged)
            times[f"topk16/vocab{vocab}/batch{bs}"] = microseconds(partial_pass, merge_pass)
            times[f"torch.topk+logsumexp/vocab{vocab}/batch{bs}"] = microseconds(
                lambda logits=logits: (logits.float().topk(K), logits.float().logsumexp(-1))
            )
        bonus = torch.zeros(bs, dtype=torch.int64, device=device)
        for budget in (16, 32, 64, 127):
            rows = budget + 1
            tree = {
                "token": torch.empty(bs, rows, device=device, dtype=torch.int64),
                "parent": torch.empty(bs, rows, device=device, dtype=torch.int32),
                "depth": torch.empty(bs, rows, device=device, dtype=torch.int32),
                "next_token": torch.empty(bs, rows, device=device, dtype=torch.int64),
                "next_sibling": torch.empty(bs, rows, device=device, dtype=torch.int64),
            }

            build = partial(kernels.build_tree, merged["logprob"], merged["ids"], bonus, force_spine=False, **tree)
            times[f"build/budget{budget}/batch{bs}"] = microseconds(build)
            expected = build_tree(bonus, merged["logprob"], merged["ids"].long(), budget)
            report["equal_to_reference"][f"budget{budget}/batch{bs}"] = bool(
                torch.equal(tree["token"], expected.tokens)
                and torch.equal(tree["parent"].long(), expected.parents)
                and torch.equal(tree["next_sibling"], expected.next_sibling)
            )
            seq_lens = torch.full((bs,), 1000, device=device, dtype=torch.int64)
            table = torch.randint(1, 9999, (bs, 2048), device=device, dtype=torch.int32)
            tensors = Round.create(bs, BLOCK, device)
            positions, cache_loc = (torch.zeros((bs, rows), device=device, dtype=torch.int64) for dummy in range(2))
            mask = torch.zeros(bs * rows * (1000 + rows), device=device, dtype=torch.uint8)
            pool = torch.arange(bs, device=device)

            prepare = partial(
                kernels.prepare_verify,
                tree["parent"],
                tree["depth"],
                seq_lens,
                pool,
                table,
                max_depth=DEPTH,
                positions=positions,
                cache_loc=cache_loc,
                mask=mask,
            )
            times[f"prepare/budget{budget}/batch{bs}"] = microseconds(prepare)
            predict = tree["token"].roll(-1, 1).contiguous()

            accept = partial(
                kernels.accept,
                tree["token"],
                tree["parent"],
                predict,
                cache_loc,
                seq_lens,
                accept_index=tensors.accept_index,
                out_token=tensors.out_token,
                src_loc=tensors.src_loc,
                tgt_loc=tensors.tgt_loc,
                hidden_index=tensors.hidden_index,
                commit_loc=tensors.commit_loc,
                commit_positions=tensors.commit_positions,
                accept_lens=tensors.accept_lens,
                bonus=tensors.bonus,
                new_seq_lens=tensors.new_seq_lens,
            )
            times[f"walk/budget{budget}/batch{bs}"] = microseconds(accept)
    with open(out, "w", encoding="utf-8") as file:
        json.dump(report, file, indent=1)


if __name__ == "__main__":
    main(sys.argv[1])
