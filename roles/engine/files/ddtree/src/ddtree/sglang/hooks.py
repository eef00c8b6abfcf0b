# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""Hooks on SGLang's model runner: where a captured or dummy verify step must be told that it verifies a tree.

Installed by the worker, before pools, attention backends and graphs of the target are made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ddtree.sglang import ALGORITHM, releases, states

GET_SPEC_INFO = "sglang.srt.model_executor.runner.decode_cuda_graph_runner.DecodeCudaGraphRunner.get_spec_info"
DUMMY_VERIFY_INPUT = "sglang.srt.speculative.spec_info.create_dummy_verify_input"
EXTRA_CONTEXT_LEN = "sglang.srt.mem_cache.allocation_sizing.get_req_to_token_extra_context_len"
UPDATE_FINISH_STATE = "sglang.srt.managers.schedule_batch.Req.update_finish_state"
MAKE_POOL = "sglang.srt.mem_cache.memory_pool.MambaPool.__init__"
SIZE_POOL = "sglang.srt.mem_cache.kv_cache_configurator.KVCacheConfigurator._handle_max_mamba_cache"
VALIDATE_REQUEST = "sglang.srt.speculative.dflash_utils.validate_dflash_request"

_installed = False


def install(compact: bool = False) -> None:
    """Register and apply the hooks once per process.

    Args:
        compact: pools are made, and sized, without states a row (:mod:`ddtree.sglang.states`).
    """
    global _installed
    if _installed:
        return
    _installed = True
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    for target, hook, kind in releases.installed().hooks():
        HookRegistry.register(target, hook, HookType[kind])
    HookRegistry.register(
        "sglang.srt.layers.attention.triton_backend.TritonAttnBackend.init_cuda_graph_state",
        init_cuda_graph_state,
        HookType.AROUND,
    )
    if compact:
        HookRegistry.register(MAKE_POOL, states.make_pool, HookType.AROUND)
        HookRegistry.register(SIZE_POOL, states.size_pool, HookType.AROUND)
    HookRegistry.apply_hooks()


def verifies_tree(spec_algorithm: Any, server_args: Any, is_draft_worker: bool) -> bool:
    """Whether this model runner's TARGET_VERIFY steps carry a tree mask."""
    return (
        getattr(spec_algorithm, "name", None) == ALGORITHM
        and not is_draft_worker
        and int(server_args.speculative_eagle_topk) > 1
    )


def _tree_input(server_args: Any, custom_mask: Any, rows: int) -> Any:
    from ddtree.sglang.verify_input import DDTreeVerifyInput

    return DDTreeVerifyInput(
        draft_token=None,
        positions=None,
        draft_token_num=rows,
        topk=int(server_args.speculative_eagle_topk),
        custom_mask=custom_mask,
    )


def get_spec_info(original: Callable[..., Any], runner: Any, num_tokens: int, settings: Any = None) -> Any:
    """DFLASH captures a mask-free causal verify graph; a tree's graph must read the mask buffer."""
    model_runner = runner.model_runner
    settings = model_runner.server_args if settings is None else settings
    if not verifies_tree(model_runner.spec_algorithm, settings, model_runner.is_draft_worker):
        return original(runner, num_tokens)
    return _tree_input(settings, runner.buffers.custom_mask, runner.captured_req_width)


def create_dummy_verify_input(
    original: Callable[..., Any],
    spec_algorithm: Any,
    server_args: Any,
    custom_mask: Any,
    num_tokens_per_req: int,
    is_draft_worker: bool,
) -> Any:
    """The warm-up forward before capture, likewise."""
    if not verifies_tree(spec_algorithm, server_args, is_draft_worker):
        return original(spec_algorithm, server_args, custom_mask, num_tokens_per_req, is_draft_worker)
    return _tree_input(server_args, custom_mask, num_tokens_per_req)


def extra_context_len(extra: int, server_args: Any) -> int:
    """Width of a request's slot row beyond the context length.

    Decode preparation reserves two verify windows past the committed length, but a row has room for one; near the
    context limit the second would be written into the next request's row.
    """
    if (server_args.speculative_algorithm or "").upper() != ALGORITHM:
        return extra
    return max(extra, 4 + 2 * int(server_args.speculative_num_draft_tokens))


def finish_at_stop(original: Callable[..., Any], req: Any, new_accepted_len: int = 1) -> None:
    """End a request at its stop string or token, where plain decoding does, when the same round also reaches its length.

    SGLang 0.5.17 (`managers/schedule_batch.py`, `Req.update_finish_state`) asks for the length first, so that what a round accepts
    after a stop is given out; later releases ask for stops first. The last token of the length stays the length's, as there.
    """
    before_last = int(req.sampling_params.max_new_tokens) - 1
    beyond = len(req.output_ids) - before_last
    looked_at = new_accepted_len - beyond
    if beyond > 0 and looked_at > 0 and not req.finished() and not req.to_finish:
        rest = req.output_ids[before_last:]
        del req.output_ids[before_last:]
        try:
            ended = req._check_str_based_finish(looked_at) or req._check_token_based_finish(req.output_ids[-looked_at:])
        finally:
            req.output_ids.extend(rest)
        if ended:
            return
    original(req, new_accepted_len)


def validate_request(original: Callable[..., Any], req: Any, *rest: Any) -> str | None:
    """Why a request is not served, or None. Installed where DFLASH serves what DDTREE does not."""
    if req.return_logprob:
        return "DDTREE speculative decoding does not support return_logprob yet."
    if getattr(req, "return_sampling_mask", False):
        return "DDTREE speculative decoding does not support return_sampling_mask."
    return original(req, *rest)


def init_cuda_graph_state(
    original: Callable[..., Any],
    backend: Any,
    max_bs: int,
    max_num_tokens: int,
    kv_indices_buf: Any = None,
    cuda_graph_num_kv_splits_buf: Any = None,
) -> Any:
    """KV index buffer of the verify and draft graphs: one row of slots a request.

    The backend allocates a row for every token of the batch, `rows` times as much; at 48 requests, 17 rows and 32,768
    tokens of context that is 214 GB. A verify step lists each request's prefix once.
    """
    if kv_indices_buf is None:
        import torch

        slots = max_bs * int(backend.req_to_token.shape[1])
        kv_indices_buf = torch.zeros((slots,), dtype=torch.int64, device=backend.device)
    return original(backend, max_bs, max_num_tokens, kv_indices_buf, cuda_graph_num_kv_splits_buf)
