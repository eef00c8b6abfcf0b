# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""DDTREE speculative worker: DFLASH's draft step, a tree verify step, and the commit of one path."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch
from sglang.kernels.ops.speculative.dflash import _prepare_dflash_draft_block_unchecked
from sglang.srt.configs.hybrid_arch import mambaish_config
from sglang.srt.distributed import get_tp_group
from sglang.srt.managers.scheduler import GenerationBatchResult
from sglang.srt.model_executor.cuda_graph_config import Backend
from sglang.srt.model_executor.forward_batch_info import CaptureHiddenMode, ForwardBatch, ForwardMode
from sglang.srt.runtime_context import get_exec
from sglang.srt.speculative.dflash_worker_v2 import DFlashWorkerV2
from sglang.srt.speculative.spec_info import SpeculativeAlgorithm
from sglang.srt.speculative.spec_utils import (
    SIMULATE_ACC_LEN,
    GrammarTree,
    build_grammar_vocab_mask,
    commit_mamba_states_after_verify,
    prepare_mamba_track_for_verify,
)

from ddtree.sglang import api, conv, hooks, kernels, recurrent, releases, states
from ddtree.sglang.buffers import Draft, Round, RoundBuffers
from ddtree.sglang.choice import adjust_logits, agree_across_ranks, choose, is_plain_greedy
from ddtree.sglang.commit import CapturedCommit, keep_path, walk
from ddtree.sglang.config import EAGER_COMMIT_ENV, DDTreeConfig, options_from_environment
from ddtree.sglang.draft_input import DDTreeDraftInput
from ddtree.sglang.metrics import DDTreeMetrics
from ddtree.sglang.sampler import DDTreeDraftSampler
from ddtree.sglang.simulate import ForcedAcceptance
from ddtree.sglang.timing import time_tree_build
from ddtree.sglang.verify_input import DDTreeVerifyInput

if TYPE_CHECKING:
    from sglang.srt.managers.schedule_batch import ScheduleBatch
    from sglang.srt.managers.tp_worker import TpModelWorker
    from sglang.srt.server_args import ServerArgs

logger = logging.getLogger(__name__)


class DDTreeWorker(DFlashWorkerV2):
    """Drives both overlap and non-overlap scheduling, as its base class does.

    The base class drafts (block of ``block_size`` rows) and keeps the drafter's KV; what it reads of the settings
    says so: one candidate per position and ``block_size`` draft tokens. The target's settings keep tree width and rows.
    """

    # What depends on SGLang's release.
    release = releases.installed()

    def __init__(self, server_args: ServerArgs, target_worker: TpModelWorker, **passed: Any) -> None:
        """``passed``: ranks and ports as SGLang hands them to DFLASH's worker, by name."""
        api.refuse_missing(self.release)
        force_spine, max_tree_batch = options_from_environment()
        settings = self.release.speculative(server_args)
        self.config = DDTreeConfig(
            block_size=int(settings.speculative_dflash_block_size),
            rows=int(settings.speculative_num_draft_tokens),
            topk=int(settings.speculative_eagle_topk),
            force_spine=force_spine,
            max_tree_batch=max_tree_batch,
        )
        self._is_hybrid = mambaish_config(target_worker.model_runner.model_config) is not None
        self._is_compact = self._is_hybrid and states.is_compact(self.config.rows, self.config.topk)
        hooks.install(self._is_compact)
        with self.release.draft_scope(self.config.block_size):
            super().__init__(
                server_args=self.release.draft_arguments(server_args, self.config.block_size),
                target_worker=target_worker,
                **passed,
            )
        self.release.refuse_drafter(self)
        self.release.settle_target(self)
        if self._is_hybrid and max_tree_batch is not None:
            logger.warning("DDTREE: the chain fallback serves dense attention targets only; trees at every batch size.")
        self._rounds = RoundBuffers(self.config.block_size, self.device)
        self._captured_commit: CapturedCommit | None = None
        self._recurrence: recurrent.TreeRecurrence | None = None
        self._has_tree_conv = False
        self._forced = ForcedAcceptance(self.config.block_size, self.device) if SIMULATE_ACC_LEN > 0 else None
        self._eager_mask = torch.zeros((0,), dtype=torch.uint8, device=self.device)
        self._chain_verify = None
        self._last_nodes = self.config.budget
        self._metrics = (
            DDTreeMetrics(self.config.block_size, self.config.budget)
            if self.release.metrics_enabled(server_args) and self.release.tp_rank(self) == 0
            else None
        )

    # --- start-up -----------------------------------------------------------------------------------------------

    def init_attention_backends(self) -> None:
        """Also makes what the target's graphs, captured next, must find: the draft's static outputs and the commit."""
        with self.release.draft_scope(self.config.block_size):
            super().init_attention_backends()
        self._draft_sampler = self._maybe_build_draft_sampler()
        if self._graphs_enabled and os.environ.get(EAGER_COMMIT_ENV) != "1":
            self._captured_commit = CapturedCommit(self, self._draft_of_runner, self._forced)
            self.model_runner.capture_tail_hooks.append(self._captured_commit)
        if self._is_hybrid and not self.config.is_chain:
            self._take_over_delta_nets()

    def _take_over_delta_nets(self) -> None:
        """Kernels for trees in place of SGLang's, which take a tree row by row."""
        self._has_tree_conv = conv.install(self.model_runner, self.config.rows)
        if os.environ.get(states.TREE_RECURRENCE_ENV) == "0":
            return
        key_heads = int(mambaish_config(self.model_runner.model_config).linear_num_key_heads)
        self._recurrence = recurrent.install(
            self.model_runner,
            key_heads // get_tp_group().world_size,
            self.config.rows,
            self.config.block_size - 1,
            self._is_compact,
        )

    def init_cuda_graphs(self) -> None:
        if self._graphs_enabled:
            self.draft_model_runner.capture_tail_hooks.append(self._draft_tail)
        with self.release.draft_scope(self.config.block_size):
            self._draft_worker.init_cuda_graphs(capture_decode_cuda_graph=self._graphs_enabled)
        target = self.model_runner
        has_graphs = target.decode_cuda_graph_runner is not None
        if self._falls_back and has_graphs:
            from ddtree.sglang.graphs import ChainVerify

            self._chain_verify = ChainVerify(target, self.config.block_size)
        config = self.config
        build_seconds = 0.0 if config.is_chain else time_tree_build(self._draft_sampler)
        if self._metrics is not None:
            self._metrics.build_seconds.set(build_seconds)
        if self.release.tp_rank(self) == 0:
            logger.info(
                "DDTREE ready: plugin inferlab-ddtree %s, budget=%d, topk=%d, block_size=%d, verify rows=%d, "
                "draft graph=%s, verify graph=%s, commit in graph=%s, chain above batch=%s, force_spine=%s, %s"
                "tree build=%.1f us at batch 1%s",
                _version(),
                config.budget,
                config.topk,
                config.block_size,
                config.rows,
                self.draft_model_runner.decode_cuda_graph_runner is not None,
                has_graphs,
                self._captured_commit is not None,
                config.max_tree_batch if self._falls_back else None,
                config.force_spine,
                self._recurrent_note(),
                build_seconds * 1e6,
                self.release.note,
            )

    def alloc_memory_pool(self, *args: Any, **passed: Any) -> None:
        with self.release.draft_scope(self.config.block_size):
            super().alloc_memory_pool(*args, **passed)

    def prewarm_sampling(self) -> Any:
        """Not DFLASH's rehearsal: it would size memory for a sampling path that trees do not take."""
        return self.model_runner.prewarm_sampling()

    @property
    def _graphs_enabled(self) -> bool:
        return get_exec().graph.cuda_graph_config.decode.backend != Backend.DISABLED

    @property
    def _falls_back(self) -> bool:
        return self.config.max_tree_batch is not None and not self.config.is_chain and not self._is_hybrid

    def _maybe_build_draft_sampler(self) -> DDTreeDraftSampler:
        """Takes the place of DFLASH's argmax sampler."""
        lm_head = getattr(self.model_runner.model, "lm_head", None)
        if lm_head is None or not hasattr(lm_head, "weight"):
            raise RuntimeError("DDTREE needs the target's lm_head with a weight. Use --speculative-algorithm DFLASH.")
        if not torch.is_floating_point(lm_head.weight):
            raise RuntimeError(
                f"DDTREE drafts through the target's lm_head and needs it in 16 or 32 bit, got {lm_head.weight.dtype}. "
                "Use a checkpoint that keeps lm_head unquantised."
            )
        tp_group = get_tp_group()
        shard = getattr(lm_head, "shard_indices", None)
        if shard is None and tp_group.world_size > 1:
            raise RuntimeError("DDTREE cannot place this lm_head's vocabulary shards. Use --tp-size 1.")
        if shard is not None and int(shard.num_added_elements) != 0:
            raise RuntimeError("DDTREE does not support added vocabulary (LoRA). Use --speculative-algorithm DFLASH.")
        graph_bs = get_exec().graph.cuda_graph_config.decode.bs or [1]
        return DDTreeDraftSampler(
            weight=lm_head.weight,
            num_org=int(lm_head.weight.shape[0] if shard is None else shard.num_org_elements),
            org_vocab_start=0 if shard is None else int(shard.org_vocab_start_index),
            config=self.config,
            max_bs=max(*graph_bs, int(self.model_runner.req_to_token_pool.size)),
            tp_group=tp_group if tp_group.world_size > 1 else None,
        )

    # --- draft inputs --------------------------------------------------------------------------------------------

    def _make_next_draft_input_prefill(self, *, bonus_tokens: torch.Tensor, seq_lens: torch.Tensor) -> DDTreeDraftInput:
        return DDTreeDraftInput.create(bonus_tokens=bonus_tokens, new_seq_lens=seq_lens)

    def _make_next_draft_input_decode(
        self, *, bonus_tokens: torch.Tensor, new_seq_lens: torch.Tensor
    ) -> DDTreeDraftInput:
        return DDTreeDraftInput.create(bonus_tokens=bonus_tokens, new_seq_lens=new_seq_lens)

    # --- one round -------------------------------------------------------------------------------------------------

    def forward_batch_generation(
        self,
        batch: ScheduleBatch,
        on_publish: Callable[[torch.Tensor], None] | None = None,
        grammar_barrier: Callable[[], None] | None = None,
        **passed: Any,
    ) -> GenerationBatchResult:
        if batch.forward_mode.is_extend() or batch.is_extend_in_batch or batch.forward_mode.is_idle():
            return super().forward_batch_generation(batch, on_publish, grammar_barrier, **passed)
        if getattr(batch, "return_logprob", False):
            raise ValueError("DDTREE speculative decoding does not support return_logprob yet.")
        # Carried over from the previous round, possibly from another stream.
        batch.seq_lens.record_stream(torch.get_device_module(self.device).current_stream())
        draft, planned = self._draft(batch)
        use_chain_graph = draft.is_chain and self._chain_verify is not None
        with self._chain_verify.active() if use_chain_graph else contextlib.nullcontext():
            captured = self._captured_commit
            wants_captured = captured is not None and is_plain_greedy(batch)
            if captured is not None:
                captured.arm(len(batch.seq_lens) if wants_captured else 0)
            logits_output, in_graph, grammar_mask = self._verify(batch, draft, planned, grammar_barrier)
            decided = wants_captured and in_graph
            if decided:
                runner = self.model_runner.decode_cuda_graph_runner
                results = captured.results(draft.is_chain, runner.bs, len(batch.seq_lens))
            else:
                results = self._accept(batch, draft, logits_output.next_token_logits, grammar_mask)
            if self._need_mamba_verify_commit:
                self._commit_states(batch, draft, results)
            # As in DFLASH: after the recurrent state, before the drafter's KV, which nothing of the scheduler reads.
            if on_publish is not None:
                on_publish(results.new_seq_lens)
            if not decided:
                keep_path(self, draft, results, logits_output.hidden_states)
        # Large; the scheduler would copy it to the host.
        logits_output.hidden_states = None
        self._last_nodes = draft.rows - 1
        return GenerationBatchResult(
            logits_output=logits_output,
            next_token_ids=results.out_token.view(-1),
            accept_lens=results.accept_lens,
            can_run_cuda_graph=in_graph,
            next_draft_input=self._make_next_draft_input_decode(
                bonus_tokens=results.bonus, new_seq_lens=results.new_seq_lens
            ),
            # Stride of next_token_ids.
            speculative_num_draft_tokens=self.config.block_size,
            new_seq_lens=results.new_seq_lens,
        )

    def _draft_of_runner(self, runner: object) -> Draft:
        """Which static draft a target graph runner verifies."""
        sampler = self._draft_sampler
        from ddtree.sglang.graphs import ChainVerifyGraphRunner

        if self.config.is_chain or isinstance(runner, ChainVerifyGraphRunner):
            return sampler.chain_draft
        return sampler.tree_draft

    def _draft_tail(self, _runner: object, out: object, forward_batch: object, num_tokens: int) -> None:
        """Tail hook of the draft graphs: trees of the block, and where the target will put their rows."""
        self._draft_sampler(out.hidden_states, forward_batch.input_ids)
        if self.use_compact_draft_cache:  # the draft's lengths are not the text's
            return
        bs = num_tokens // self.config.block_size
        args = forward_batch.seq_lens, forward_batch.req_pool_indices
        if self.config.is_chain or self._falls_back:
            self._plan(self._draft_sampler.chain_draft.of(bs), *args, None)
        if not self.config.is_chain:
            self._plan(self._draft_sampler.tree_draft.of(bs), *args, self.model_runner.attn_backend.verify_mask.buffer)

    def _plan(
        self, draft: Draft, seq_lens: torch.Tensor, req_pool_indices: torch.Tensor, mask: torch.Tensor | None
    ) -> None:
        kernels.prepare_verify(
            draft.parent,
            draft.depth,
            seq_lens,
            req_pool_indices,
            self.model_runner.req_to_token_pool.req_to_token,
            max_depth=self.config.block_size - 1,
            positions=draft.positions,
            cache_loc=draft.cache_loc,
            mask=mask,
        )

    def _draft(self, batch: ScheduleBatch) -> tuple[Draft, bool]:
        """Draft block and its tree (or chain), and whether its rows are planned. Everything stays on the device."""
        bs = len(batch.seq_lens)
        draft_input = batch.spec_info
        self._ensure_draft_block_buffers(bs)
        block_ids = self._draft_block_ids_buf[:bs]
        positions = self._draft_block_positions_buf[:bs]
        cache_loc = self._draft_verify_out_cache_loc_buf[:bs]
        _prepare_dflash_draft_block_unchecked(
            bonus_tokens=draft_input.bonus_tokens.view(-1),
            prefix_lens=batch.seq_lens.view(-1),
            req_pool_indices=batch.req_pool_indices.view(-1),
            req_to_token=self.model_runner.req_to_token_pool.req_to_token,
            block_ids_out=block_ids,
            positions_out=positions,
            cache_loc_out=cache_loc,
            mask_token_id=int(self._mask_token_id),
        )
        embeds = self.release.embed(self, block_ids)
        seq_lens, seq_lens_cpu, seq_lens_sum = self._draft_lengths(batch, cache_loc)
        forward_batch = ForwardBatch(
            forward_mode=ForwardMode.TARGET_VERIFY,
            batch_size=bs,
            input_ids=block_ids.flatten(),
            req_pool_indices=batch.req_pool_indices,
            seq_lens=seq_lens,
            out_cache_loc=cache_loc.reshape(-1),
            seq_lens_sum=seq_lens_sum,
            seq_lens_cpu=seq_lens_cpu,
            positions=positions.reshape(-1),
            input_embeds=embeds.view(-1, embeds.shape[-1]),
            spec_algorithm=SpeculativeAlgorithm.DFLASH,
            spec_info=self._draft_block_spec_info,
            capture_hidden_mode=CaptureHiddenMode.NULL,
            **self.release.draft_batch_fields(batch, bs * self.config.block_size, self.device),
        )
        self.release.plan_draft(self, batch, forward_batch, cache_loc)
        sampler = self._draft_sampler
        with torch.inference_mode():
            draft_out = self.draft_model_runner.forward(forward_batch)
            if not draft_out.can_run_graph:
                sampler(draft_out.logits_output.hidden_states, block_ids.view(-1))
        use_chain = self.config.is_chain or (self._falls_back and bs > self.config.max_tree_batch)
        draft = (sampler.chain_draft if use_chain else sampler.tree_draft).of(bs)
        return draft, bool(draft_out.can_run_graph) and not self.use_compact_draft_cache

    def _draft_lengths(self, batch: ScheduleBatch, cache_loc: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, int]:
        """Prefix lengths the draft attends to, with a host-side upper bound of them (as DFLASH plans them)."""
        bs, block_size = cache_loc.shape
        bound = self._draft_seq_lens_cpu_buf[:bs]
        if self.use_compact_draft_cache:
            lens = self._compute_compact_draft_seq_lens(batch.seq_lens)
            self.release.bound_compact_lengths(self, batch, lens, bound)
            self._rebuild_compact_draft_cache(
                req_pool_indices=batch.req_pool_indices,
                prefix_lens=batch.seq_lens,
                draft_prefix_lens=lens,
                verify_out_cache_loc_2d=cache_loc,
                bs=bs,
                block_size=block_size,
            )
            return lens, bound, int(bound.sum())
        if batch.seq_lens_cpu is not None:
            bound.copy_(batch.seq_lens_cpu)
            bound.add_(block_size)
            return batch.seq_lens, bound, int(bound.sum())
        reserved, reserved_sum = self.release.reserved_lengths(batch.spec_info)
        bound.copy_(reserved)
        return batch.seq_lens, bound, int(reserved_sum)

    def _verify(
        self,
        batch: ScheduleBatch,
        draft: Draft,
        planned: bool,
        grammar_barrier: Callable[[], None] | None,
    ) -> tuple[object, bool, object | None]:
        """One target forward over all rows. Returns its output, whether a graph ran it, and the grammar mask."""
        bs, rows = draft.token.shape
        mask = None if draft.is_chain else self._mask_buffer(batch, bs, rows)
        if not planned:
            self._plan(draft, batch.seq_lens, batch.req_pool_indices, mask)
        # Copies start here so that they run beside the target forward.
        grammar_tree = self._grammar_tree(draft) if batch.has_grammar else None
        verify_input = DDTreeVerifyInput(
            draft_token=draft.token.reshape(-1),
            positions=draft.positions.view(-1),
            draft_token_num=rows,
            topk=1 if draft.is_chain else self.config.topk,
            # Graph replay copies custom_mask into the backend's buffer; the tails are in that buffer already, so one
            # cell is enough there. An eager forward reads the whole thing.
            custom_mask=mask,
            retrieve_next_token=draft.next_token,
            retrieve_next_sibling=draft.next_sibling,
            **self.release.verify_fields(self, batch, draft),
        )
        batch.out_cache_loc = draft.cache_loc.view(-1)
        if self._is_hybrid and not self.release.verify_tracks_mamba:
            prepare_mamba_track_for_verify(batch)
        backup = batch.seq_lens_cpu, batch.seq_lens_sum
        reserved, reserved_sum = self.release.reserved_lengths(batch.spec_info)
        if batch.seq_lens_cpu is not None:
            batch.seq_lens_cpu = batch.seq_lens_cpu + rows
            batch.seq_lens_sum = int(batch.seq_lens_cpu.sum())
        elif reserved is not None:
            batch.seq_lens_cpu = reserved
            batch.seq_lens_sum = int(reserved_sum)
        forward_batch, dummy = verify_input.prepare_for_verify(batch, self.target_worker)
        batch.seq_lens_cpu, batch.seq_lens_sum = backup
        target_out = self.target_worker.forward_batch_generation(
            batch=None, forward_batch=forward_batch, is_verify=True, skip_attn_backend_init=True
        )
        grammar_mask = None
        if grammar_tree is not None:
            grammar_mask = build_grammar_vocab_mask(
                reqs=batch.reqs,
                tree=grammar_tree,
                sampling_info=batch.sampling_info,
                device=self.device,
                barrier=grammar_barrier,
            )
        return target_out.logits_output, target_out.can_run_cuda_graph, grammar_mask

    def _grammar_tree(self, draft: Draft) -> GrammarTree:
        if draft.is_chain:
            return GrammarTree.from_linear_chain(draft.token)
        return GrammarTree.from_device(draft.next_token, draft.next_sibling, draft.token)

    def _mask_buffer(self, batch: ScheduleBatch, bs: int, rows: int) -> torch.Tensor:
        """Where this round's mask tails go: the attention backend's own buffer if its graph will read it.

        The returned tensor is a view of one cell of that buffer (a graph replay copies ``custom_mask`` over it, and the
        tails are there already) or, for an eager forward, a buffer that holds every request's rows.
        """
        runner = self.model_runner.decode_cuda_graph_runner
        verify_mask = self.model_runner.attn_backend.verify_mask
        if runner is not None and verify_mask is not None and bs <= runner.max_bs and verify_mask.fits(bs):
            return verify_mask.buffer[:1]
        lengths = batch.seq_lens_cpu
        if lengths is None:
            lengths = self.release.reserved_lengths(batch.spec_info)[0]
        # Host lengths lag by at most one round, which adds at most a block.
        longest = int(lengths.max()) + 2 * rows
        cells = bs * rows * (longest + rows)
        if self._eager_mask.numel() < cells:
            self._eager_mask = torch.zeros((cells,), dtype=torch.uint8, device=self.device)
        return self._eager_mask

    def _accept(self, batch: ScheduleBatch, draft: Draft, logits: torch.Tensor, grammar_mask: object | None) -> Round:
        """The target's choice at every row, and the walk along it."""
        results = self._rounds.take(len(batch.seq_lens))
        if batch.sampling_info is not None:
            adjust_logits(logits, batch.sampling_info, draft.rows)
        if grammar_mask is not None:
            grammar_mask.apply(logits)
        chosen = agree_across_ranks(choose(logits, batch.sampling_info, draft.positions), batch.sampling_info)
        walk(draft, chosen, batch.seq_lens, results, None)
        if self._forced is not None:
            self._forced.draw()
            self._forced.apply(draft, results, batch.seq_lens, None)
        return results

    def _commit_states(self, batch: ScheduleBatch, draft: Draft, results: Round) -> None:
        """Recurrent and convolution state of the last accepted row into the request's slot, and of the row that prefix caching keeps."""
        if self._recurrence is not None:
            from sglang.srt.speculative.spec_utils import _verify_commit_step_indices

            steps, tracked = _verify_commit_step_indices(
                batch=batch,
                accept_index=results.accept_index,
                accept_lens=results.accept_lens,
                draft_token_num=draft.rows,
            )
            slots = self.model_runner.attn_backend.linear_attn_backend.forward_metadata.mamba_cache_indices
            if self._is_compact:
                self._recurrence.commit(slots, draft.parent, steps, batch.mamba_track_indices, tracked)
                self._commit_windows(slots, steps, batch.mamba_track_indices, tracked)
                return
            # What SGLang's commit, next, copies.
            self._recurrence.make(slots, draft.parent, [rows for rows in (steps, tracked) if rows is not None])
        commit_mamba_states_after_verify(
            self.target_worker, batch, results.accept_lens, results.accept_index, draft_token_num=draft.rows
        )

    def _commit_windows(
        self,
        slots: torch.Tensor,
        steps: torch.Tensor,
        tracked_slots: torch.Tensor | None,
        tracked_steps: torch.Tensor | None,
    ) -> None:
        """SGLang's commit of the convolution windows alone: without recurrent states it has none to copy."""
        from sglang.kernels.ops.mamba.mamba_state_scatter_triton import scatter_mamba_states_after_mtp_verify

        pool = self.model_runner.req_to_token_pool.get_speculative_mamba2_params_all_layers()
        windows = SimpleNamespace(
            temporal=pool.temporal[:0],
            intermediate_ssm=None,
            conv=pool.conv,
            intermediate_conv_window=pool.intermediate_conv_window,
        )
        scatter_mamba_states_after_mtp_verify(windows, slots[: len(steps)], steps, tracked_slots, tracked_steps)

    def _recurrent_note(self) -> str:
        if not self._is_hybrid:
            return ""
        kernels_in_use = f"tree recurrence={self._recurrence is not None}, tree convolution={self._has_tree_conv}"
        return f"{kernels_in_use}, states a row={not self._is_compact}, "

    def on_verify_complete_cpu(self, num_correct_drafts_per_req: list[int], batch_size: int = 0) -> None:
        if self._metrics is not None:
            self._metrics.observe(num_correct_drafts_per_req, self._last_nodes)


def _version() -> str:
    try:
        return version("inferlab-ddtree")
    except PackageNotFoundError:
        return "unpackaged"
