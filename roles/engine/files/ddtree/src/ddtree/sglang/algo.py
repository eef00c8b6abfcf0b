# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""The algorithm object SGLang dispatches on: a member of the DFLASH family with a wider target step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sglang.srt.speculative.spec_registry import CustomSpecAlgo

if TYPE_CHECKING:
    import torch
    from sglang.srt.managers.overlap_utils import FutureMap
    from sglang.srt.server_args import ServerArgs


def create_worker_class(_server_args: ServerArgs) -> type:
    """Worker factory of the registry."""
    from ddtree.sglang.worker import DDTreeWorker

    return DDTreeWorker


class DDTreeAlgo(CustomSpecAlgo):
    """DFLASH's draft step (block of ``block_size`` rows), DDTree's verify step (tree of ``num_draft_tokens`` rows)."""

    # What DFLASH-family membership turns on: target features captured in prefill and verify graphs, drafter KV in the
    # memory budget, draft graphs over input embeddings, stateful decode preparation, request validation.
    def is_dflash(self) -> bool:
        return True

    def is_dflash_family(self) -> bool:
        return True

    def supports_target_verify_for_draft(self) -> bool:
        return True

    def supports_grammar_overlap(self) -> bool:
        return True

    def has_draft_kv(self) -> bool:
        # Draft rows share the verify window's slots: no pages per branch.
        return False

    # CustomSpecAlgo lacks the next three, and the scheduler calls them on every algorithm.
    def carries_draft_hidden_states(self) -> bool:
        return False

    def need_topk(self) -> bool:
        return False

    def create_future_map(
        self,
        device: torch.device,
        req_to_token_pool: object,
        needs_cpu_seq_lens: bool = True,
        needs_confidence_relay: bool = False,
    ) -> FutureMap:
        from sglang.srt.managers.overlap_utils import FutureMap

        return FutureMap(device, self, req_to_token_pool, needs_cpu_seq_lens, needs_confidence_relay)

    def get_num_tokens_per_req_for_target_verify(self, num_draft_tokens: int, is_draft_worker: bool) -> int:
        if not is_draft_worker:
            return num_draft_tokens
        from ddtree.sglang import releases

        return releases.installed().block_size()

    def handle_server_args(self, server_args: ServerArgs) -> None:
        from ddtree.sglang.args import handle_server_args

        handle_server_args(server_args)
