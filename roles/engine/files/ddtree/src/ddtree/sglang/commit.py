# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""The commit of a round: target KV rows, drafter KV rows. Eagerly, or captured at the end of the verify graph.

An all-greedy round needs nothing from the host between the target's logits and the next draft: its argmax, walk, KV
move and drafter update are recorded into the target's verify graphs. A device counter says how many requests the
recorded walk decides; 0 (a sampled, penalised or grammar-constrained round, a warm-up, padding) makes it accept
nothing and move nothing, and the eager path decides instead.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from ddtree.sglang import kernels
from ddtree.sglang.buffers import Draft, Round

if TYPE_CHECKING:
    from ddtree.sglang.simulate import ForcedAcceptance
    from ddtree.sglang.worker import DDTreeWorker


def walk(draft: Draft, chosen: torch.Tensor, seq_lens: torch.Tensor, out: Round, live: torch.Tensor | None) -> None:
    """Accepted path of every request into ``out``."""
    kernels.accept(
        draft.token,
        draft.parent,
        chosen,
        draft.cache_loc,
        seq_lens,
        accept_index=out.accept_index,
        out_token=out.out_token,
        src_loc=out.src_loc,
        tgt_loc=out.tgt_loc,
        hidden_index=out.hidden_index,
        commit_loc=out.commit_loc,
        commit_positions=out.commit_positions,
        accept_lens=out.accept_lens,
        bonus=out.bonus,
        new_seq_lens=out.new_seq_lens,
        live=live,
    )


def keep_path(worker: DDTreeWorker, draft: Draft, out: Round, hidden: torch.Tensor) -> None:
    """Move the path's target KV rows to the front and write the drafter's KV of the same tokens.

    ``hidden`` [b * rows, features]: the target's features of every verify row. A chain's accepted rows are in place.
    """
    if not draft.is_chain:
        worker.model_runner.token_to_kv_pool.move_kv_cache(out.tgt_loc.view(-1), out.src_loc.view(-1))
        hidden = hidden.index_select(0, out.hidden_index.view(-1))
    worker._append_target_hidden_to_draft_kv_by_loc(
        target_hidden=hidden,
        cache_loc=out.commit_loc.view(-1),
        cache_loc_2d=out.commit_loc,
        positions=out.commit_positions.view(-1),
        commit_lens=out.accept_lens,
    )


class CapturedCommit:
    """Tail hook of the target's verify graphs, and its results."""

    def __init__(
        self, worker: DDTreeWorker, draft_of: Callable[[object], Draft], forced: ForcedAcceptance | None = None
    ) -> None:
        self.worker = worker
        self.forced = forced
        self.draft_of = draft_of
        self.live = torch.zeros((1,), dtype=torch.int32, device=worker.device)
        self._armed = 0
        self._rounds: dict[tuple[bool, int], Round] = {}
        # Graphs keep pointers into the helper's workspace, and prefill grows (reallocates) the worker's own.
        helper = copy.copy(worker._fused_kv_helper)
        if helper is not None:
            helper._proj_workspace = helper._k_workspace = helper._v_workspace = None
            helper._workspace_capacity = 0
        self._helper = helper
        self._workspaces: list[object] = []

    def __call__(self, runner: object, out: object, forward_batch: object, num_tokens: int) -> None:
        """Runs under capture (and in the warm-up before it, with nothing armed)."""
        bs = num_tokens // runner.captured_req_width
        draft = self.draft_of(runner).of(bs)
        key = (draft.is_chain, bs)
        if key not in self._rounds:
            with torch.inference_mode(False):
                self._rounds[key] = Round.create(bs, self.worker.config.block_size, self.worker.device)
        results = self._rounds[key]
        chosen = torch.argmax(out.next_token_logits, dim=-1).view(bs, draft.rows)
        walk(draft, chosen, forward_batch.seq_lens, results, self.live)
        if self.forced is not None:
            self.forced.apply(draft, results, forward_batch.seq_lens, self.live)
        helper, self.worker._fused_kv_helper = self.worker._fused_kv_helper, self._helper
        try:
            keep_path(self.worker, draft, results, out.hidden_states)
        finally:
            self.worker._fused_kv_helper = helper
        if self._helper is not None:
            self._workspaces.append(
                (self._helper._proj_workspace, self._helper._k_workspace, self._helper._v_workspace)
            )

    def arm(self, requests: int) -> None:
        """Number of requests that the recorded walk of the next replay decides."""
        if requests != self._armed:
            self.live.fill_(requests)
            self._armed = requests
        if self.forced is not None:
            self.forced.draw()

    def results(self, is_chain: bool, padded_bs: int, bs: int) -> Round:
        """Results of the replay that just ran, for its ``bs`` live requests.

        What the scheduler copies to the host is cloned, since the next replay overwrites it; the rest is used at once.
        """
        static = self._rounds[is_chain, padded_bs]
        block_size = self.worker.config.block_size
        kept = static.result.clone()
        tokens, tail = kept[: bs * block_size], kept[padded_bs * block_size :]
        if bs != padded_bs:
            kept = torch.cat([tokens, tail[:bs], tail[padded_bs : padded_bs + bs]])
        return Round(
            accept_index=static.accept_index[:bs],
            hidden_index=static.hidden_index[:bs],
            src_loc=static.src_loc[:bs],
            tgt_loc=static.tgt_loc[:bs],
            commit_loc=static.commit_loc[:bs],
            commit_positions=static.commit_positions[:bs],
            accept_lens=static.accept_lens[:bs].clone(),
            result=kept,
        )
