# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measuring plugin of the benchmark: a second entry point that watches the speculative worker where DDTREE_PROBE asks it to.

* `sync`: every decode round runs under torch.cuda.set_sync_debug_mode("error"), so that a host synchronisation kills it.
* `stages:FILE`: GPU time of a round split into draft, verify and the rest, for DFLASH and DDTREE alike.
* `forced:FILE`: teacher forcing. FILE.texts.json lists output texts (token ids), one per request in order; the target's
  choice at a row becomes the text's token, so that every round starts from a prefix of the text. Rounds go to FILE: the
  tree, whether it equals the reference tree of the same draft logits, the smallest distance of two scores, tokens accepted.
  Needs CUDA graphs off and one request at a time.
"""

from __future__ import annotations

import atexit
import json
import os
from typing import Any


def register() -> None:
    """Entry point; does nothing unless DDTREE_PROBE is set."""
    if not os.environ.get("DDTREE_PROBE"):
        return
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    HookRegistry.register("sglang.srt.speculative.dflash_worker_v2.DFlashWorkerV2.__init__", watch, HookType.AFTER)


def watch(_result: None, worker: Any, *_args: Any, **_kwargs: Any) -> None:
    mode, dummy, path = os.environ["DDTREE_PROBE"].partition(":")
    {"sync": no_sync, "stages": stages, "forced": forced}[mode](worker, path)


def is_decode(batch: Any) -> bool:
    return not (batch.forward_mode.is_extend() or batch.is_extend_in_batch or batch.forward_mode.is_idle())


def no_sync(worker: Any, _path: str) -> None:
    import torch

    inner = worker.forward_batch_generation
    seen = {"rounds": 0}

    def forward_batch_generation(batch: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_decode(batch):
            return inner(batch, *args, **kwargs)
        seen["rounds"] += 1
        # The first rounds of a shape load and tune kernels.
        if seen["rounds"] <= 20:
            return inner(batch, *args, **kwargs)
        torch.cuda.set_sync_debug_mode("error")
        try:
            return inner(batch, *args, **kwargs)
        finally:
            torch.cuda.set_sync_debug_mode("default")

    worker.forward_batch_generation = forward_batch_generation


def stages(worker: Any, path: str) -> None:
    import torch

    marks: list[Any] = []
    rounds: list[tuple[int, list[Any]]] = []

    def mark() -> None:
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        marks.append(event)

    def around(owner: Any, name: str) -> None:
        inner = getattr(owner, name)

        def timed(*args: Any, **kwargs: Any) -> Any:
            if not state["decode"]:
                return inner(*args, **kwargs)
            mark()
            out = inner(*args, **kwargs)
            mark()
            return out

        setattr(owner, name, timed)

    state = {"decode": False}
    whole = worker.forward_batch_generation

    def forward_batch_generation(batch: Any, *args: Any, **kwargs: Any) -> Any:
        state["decode"] = is_decode(batch)
        if not state["decode"]:
            return whole(batch, *args, **kwargs)
        marks.clear()
        mark()
        out = whole(batch, *args, **kwargs)
        mark()
        state["decode"] = False
        rounds.append((len(batch.seq_lens), list(marks)))
        return out

    worker.forward_batch_generation = forward_batch_generation
    around(worker.draft_model_runner, "forward")
    around(worker.target_worker, "forward_batch_generation")

    def write() -> None:
        torch.cuda.synchronize()
        table: dict[int, list[list[float]]] = {}
        for (bs, events), (dummy, later) in zip(rounds, rounds[1:]):
            # start, draft begin, draft end, verify begin, verify end, end; then the next round's start.
            times = [a.elapsed_time(b) for a, b in zip(events, events[1:])] + [events[-1].elapsed_time(later[0])]
            table.setdefault(bs, []).append(times)
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"columns": ["prepare", "draft", "between", "verify", "commit", "gap"], "rounds": table}, file)

    # Schedulers are ended by signal: write as we go, outside the measured part.
    inner = worker.on_verify_complete_cpu

    def on_verify_complete_cpu(*args: Any, **kwargs: Any) -> None:
        inner(*args, **kwargs)
        if len(rounds) % 50 == 0:
            write()

    worker.on_verify_complete_cpu = on_verify_complete_cpu
    atexit.register(write)


def forced(worker: Any, path: str) -> None:
    import torch
    from ddtree.sglang import worker as module
    from ddtree.tree import build_tree, top_candidates

    with open(f"{path}.texts.json", encoding="utf-8") as file:
        texts = json.load(file)
    device = worker.device
    state: dict[str, Any] = {"request": -1, "prompt": 0, "text": None}
    log = open(path, "w", encoding="utf-8")  # noqa: SIM115 - lives as long as the process
    whole = worker.forward_batch_generation

    def choose(_logits: Any, _sampling: Any, positions: torch.Tensor) -> torch.Tensor:
        return state["text"][(positions + 1 - state["prompt"]).clamp(max=len(state["text"]) - 1)]

    def forward_batch_generation(batch: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_decode(batch):
            if batch.forward_mode.is_extend():
                state["request"] += 1
                state["prompt"] = int(batch.prefix_lens[0] + batch.extend_lens[0])
                state["text"] = torch.tensor(texts[state["request"] % len(texts)], device=device)
            return whole(batch, *args, **kwargs)
        prefix = int(batch.seq_lens[0])
        out = whole(batch, *args, **kwargs)
        sampler = worker._draft_sampler
        config = sampler.config
        log_probs, ids = top_candidates(state["logits"][None], config.budget)
        expected = build_tree(sampler.token[:1, 0], log_probs, ids, config.budget + 1)
        rows = config.rows
        token, parent = sampler.token[0], sampler.parent[0].long()
        scores = expected.scores[0].sort(descending=True).values
        record = {
            "request": state["request"],
            "output": prefix - state["prompt"],
            "accepted": int(out.accept_lens[0]),
            "equal": bool(
                torch.equal(token, expected.tokens[0, :rows]) and torch.equal(parent, expected.parents[0, :rows])
            ),
            "gap": float((scores[:-1] - scores[1:]).min()),
            "token": token.tolist(),
            "parent": parent.tolist(),
        }
        log.write(json.dumps(record) + "\n")
        log.flush()
        return out

    build = module.DDTreeDraftSampler.__call__

    def call(sampler: Any, hidden_states: torch.Tensor, input_ids: torch.Tensor) -> None:
        hidden = hidden_states.view(-1, sampler.config.block_size, hidden_states.shape[-1])[0, 1:]
        state["logits"] = torch.matmul(hidden.to(sampler.weight.dtype), sampler.weight.T)
        build(sampler, hidden_states, input_ids)

    module.choose = choose
    module.DDTreeDraftSampler.__call__ = call
    worker.forward_batch_generation = forward_batch_generation
