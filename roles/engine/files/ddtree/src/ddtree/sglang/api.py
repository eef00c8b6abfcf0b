# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""What the plugin needs of SGLang, by name: the names it imports, the parameters it passes and is passed, the attributes it reads.

``missing(release)`` compares the list with the installed SGLang by import and signature. It says that names fit, not that
they mean what they meant. A release that no run stands behind is refused at start where a name is missing.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ddtree.sglang import releases

SRT = "sglang.srt."
LAUNCHER = ("sglang.srt.entrypoints.", "sglang.launch_server:", "sglang.srt.utils.auth:")


@dataclass(frozen=True)
class Name:
    """Something imported or looked up."""

    path: str


@dataclass(frozen=True)
class Call:
    """Something the plugin calls with these parameters."""

    path: str
    parameters: str


@dataclass(frozen=True)
class Override:
    """Something of SGLang's that the plugin replaces or wraps, and which therefore is called with SGLang's parameters."""

    path: str
    accepted: str


@dataclass(frozen=True)
class Attributes:
    """Attributes of a class's instances: fields, properties, methods, or assigned to ``self`` in it or a base."""

    path: str
    names: str


_DFLASH_WORKER = SRT + "speculative.dflash_worker_v2:DFlashWorkerV2"
_SAMPLER = SRT + "layers.sampler:"
_SPEC_UTILS = SRT + "speculative.spec_utils:"
_RUNNER = SRT + "model_executor.runner.decode_cuda_graph_runner:DecodeCudaGraphRunner"

COMMON: tuple[Any, ...] = (
    # plugin, algorithm
    Call(SRT + "plugins:load_plugins", ""),
    Call(SRT + "plugins.hook_registry:HookRegistry.register", "target hook hook_type"),
    Attributes(SRT + "plugins.hook_registry:HookType", "AROUND AFTER"),
    Call(SRT + "speculative.spec_info:SpeculativeAlgorithm.register", "name supports_overlap spec_class"),
    Attributes(SRT + "speculative.spec_registry:CustomSpecAlgo", "name is_dflash_family is_dflash has_draft_kv"),
    Override(
        SRT + "speculative.spec_registry:CustomSpecAlgo.get_num_tokens_per_req_for_target_verify",
        "self num_draft_tokens is_draft_worker",
    ),
    Override(SRT + "speculative.spec_registry:CustomSpecAlgo.handle_server_args", "self server_args"),
    Override(
        SRT + "speculative.spec_info:SpeculativeAlgorithm.create_future_map",
        "self device req_to_token_pool needs_cpu_seq_lens needs_confidence_relay",
    ),
    Call(
        SRT + "managers.overlap_utils:FutureMap",
        "device spec_algo req_to_token_pool needs_cpu_seq_lens needs_confidence_relay",
    ),
    # server arguments
    Override(SRT + "server_args:ServerArgs.add_cli_args", "parser"),
    Override(SRT + "server_args:ServerArgs.from_cli_args", "args"),
    Call(SRT + "server_args:prepare_server_args", "argv"),
    Call(SRT + "arg_groups.overrides:resolved_view", "server_args"),
    Call(SRT + "arg_groups.overrides:attention_backends_of", "cfg"),
    Call(SRT + "arg_groups.speculative_hook:_resolve_dflash_draft_attention_backend", "server_args"),
    Call(SRT + "speculative.dflash_utils:parse_dflash_draft_config", "draft_hf_config"),
    Call(SRT + "utils.hf_transformers_utils:get_config", "model trust_remote_code revision model_override_args"),
    Call(SRT + "configs.hybrid_arch:mambaish_config", "model_config"),
    Call(SRT + "utils:get_device_memory_capacity", "device"),
    Attributes(
        SRT + "server_args:ServerArgs",
        "device speculative_algorithm speculative_draft_model_path speculative_draft_model_revision "
        "speculative_num_draft_tokens speculative_eagle_topk speculative_num_steps speculative_dflash_block_size "
        "speculative_draft_window_size speculative_draft_attention_backend speculative_adaptive "
        "speculative_use_rejection_sampling speculative_accept_threshold_single speculative_accept_threshold_acc "
        "enable_dp_attention pp_size dcp_size tp_size page_size enable_two_batch_overlap enable_pdmux enable_hisparse "
        "enable_unified_memory enable_page_major_kv_layout enable_linear_replayssm_spec enable_deterministic_inference "
        "mamba_radix_cache_strategy disaggregation_mode linear_attn_backend linear_attn_verify_backend "
        "max_running_requests mem_fraction_static enable_mixed_chunk model_path trust_remote_code "
        "json_model_override_args enable_metrics tokenizer_worker_num smg_grpc_mode grpc_mode grpc_port use_ray encoder_only",
    ),
    Attributes(SRT + "configs.model_config:ModelConfig", "is_hybrid_swa sliding_window_size attention_arch"),
    # tree recurrence
    Override(
        SRT + "layers.attention.linear.gdn_backend:GDNKernelDispatcher.target_verify",
        "self A_log dt_bias q k v a b ssm_states cache_indices query_start_loc kwargs",
    ),
    Attributes(SRT + "layers.attention.linear.gdn_backend:GDNKernelDispatcher", "tree_verify_kernel"),
    Attributes(SRT + "layers.attention.linear.gdn_backend:GDNAttnBackend", "kernel_dispatcher forward_metadata"),
    Override(
        SRT + "layers.attention.linear.gdn_backend:causal_conv1d_update",
        "x conv_state weight bias activation cache_seqlens conv_state_indices num_accept_tokens intermediate_conv_window "
        "intermediate_state_indices retrieve_next_token retrieve_next_sibling retrieve_parent_token pad_slot_id metadata "
        "validate_data",
    ),
    Call(_SPEC_UTILS + "_verify_commit_step_indices", "batch accept_index accept_lens draft_token_num"),
    Call(
        "sglang.kernels.ops.mamba.mamba_state_scatter_triton:scatter_mamba_states_after_mtp_verify",
        "mamba_caches state_indices_tensor last_correct_step_indices mamba_track_indices mamba_steps_to_track",
    ),
    Override(
        SRT + "mem_cache.kv_cache_configurator:KVCacheConfigurator._handle_max_mamba_cache", "self total_rest_memory"
    ),
    Name(SRT + "mem_cache.kv_cache_configurator:get_spec"),
    Attributes(SRT + "mem_cache.kv_cache_configurator:KVCacheConfigurator", "mambaish_config server_args"),
    Attributes(SRT + "mem_cache.memory_pool:MambaPool", "mamba_cache"),
    Name(SRT + "mem_cache.memory_pool:torch.zeros"),
    Attributes(SRT + "managers.schedule_batch:ScheduleBatch", "mamba_track_indices"),
    # worker
    Attributes(
        _DFLASH_WORKER,
        "model_runner target_worker draft_model_runner draft_model _draft_worker _draft_sampler device block_size "
        "_mask_token_id use_compact_draft_cache _need_mamba_verify_commit _draft_block_ids_buf _draft_block_positions_buf "
        "_draft_verify_out_cache_loc_buf _draft_seq_lens_cpu_buf _draft_block_spec_info _fused_kv_helper",
    ),
    Override(_DFLASH_WORKER + ".init_attention_backends", "self"),
    Override(_DFLASH_WORKER + ".init_cuda_graphs", "self"),
    Override(_DFLASH_WORKER + "._maybe_build_draft_sampler", "self"),
    Override(_DFLASH_WORKER + "._make_next_draft_input_prefill", "self bonus_tokens seq_lens"),
    Override(_DFLASH_WORKER + "._make_next_draft_input_decode", "self bonus_tokens new_seq_lens"),
    Override(
        SRT + "speculative.base_spec_worker:BaseSpecWorker.on_verify_complete_cpu",
        "self num_correct_drafts_per_req batch_size",
    ),
    Call(_DFLASH_WORKER + "._ensure_draft_block_buffers", "self bs"),
    Call(_DFLASH_WORKER + "._compute_compact_draft_seq_lens", "self seq_lens"),
    Call(
        _DFLASH_WORKER + "._rebuild_compact_draft_cache",
        "self req_pool_indices prefix_lens draft_prefix_lens verify_out_cache_loc_2d bs block_size",
    ),
    Call(
        _DFLASH_WORKER + "._append_target_hidden_to_draft_kv_by_loc",
        "self target_hidden cache_loc cache_loc_2d positions commit_lens",
    ),
    Call(
        "sglang.kernels.ops.speculative.dflash:_prepare_dflash_draft_block_unchecked",
        "bonus_tokens prefix_lens req_pool_indices req_to_token block_ids_out positions_out cache_loc_out mask_token_id",
    ),
    Attributes(
        "sglang.kernels.ops.speculative.fused_kv_materialize:FusedKVMaterializeHelper",
        "_proj_workspace _k_workspace _v_workspace _workspace_capacity",
    ),
    Call(SRT + "managers.tp_worker:TpModelWorker.init_cuda_graphs", "self capture_decode_cuda_graph"),
    Call(
        SRT + "managers.tp_worker:TpModelWorker.forward_batch_generation",
        "self batch forward_batch is_verify skip_attn_backend_init",
    ),
    Attributes(
        SRT + "model_executor.model_runner:ModelRunner",
        "model model_config spec_algorithm is_draft_worker server_args attn_backend decode_cuda_graph_runner "
        "capture_tail_hooks req_to_token_pool token_to_kv_pool init_new_workspace",
    ),
    Call(SRT + "model_executor.model_runner:ModelRunner._get_attention_backend", "self init_new_workspace"),
    Call(SRT + "model_executor.model_runner:ModelRunner.forward", "self forward_batch"),
    Call(
        SRT + "managers.scheduler:GenerationBatchResult",
        "logits_output next_token_ids accept_lens can_run_cuda_graph next_draft_input speculative_num_draft_tokens new_seq_lens",
    ),
    Attributes(
        SRT + "managers.schedule_batch:ScheduleBatch",
        "reqs seq_lens seq_lens_cpu seq_lens_sum req_pool_indices out_cache_loc spec_info sampling_info has_grammar "
        "forward_mode is_extend_in_batch return_logprob cumulate_penalty_output_tokens",
    ),
    Name(SRT + "distributed:get_tp_group"),
    Attributes(SRT + "distributed.parallel_state:GroupCoordinator", "world_size all_gather_into_tensor broadcast"),
    Name(SRT + "model_executor.cuda_graph_config:Backend.DISABLED"),
    Name(SRT + "runtime_context:get_exec"),
    # verify and draft inputs
    Call(
        SRT + "speculative.dflash_info:DFlashVerifyInput",
        "draft_token positions draft_token_num topk custom_mask capture_hidden_mode",
    ),
    Call(SRT + "speculative.dflash_info:DFlashVerifyInput.prepare_for_verify", "self batch target_worker"),
    Call(
        SRT + "speculative.dflash_info_v2:DFlashDraftInputV2",
        "topk_p topk_index bonus_tokens new_seq_lens hidden_states",
    ),
    Override(SRT + "speculative.dflash_info_v2:DFlashDraftInputV2.prepare_for_decode", "self batch"),
    Name(SRT + "model_executor.forward_batch_info:CaptureHiddenMode.FULL"),
    Name(SRT + "model_executor.forward_batch_info:ForwardMode.TARGET_VERIFY"),
    # graphs, attention, pools
    Override(_RUNNER + ".get_spec_info", "self num_tokens"),
    Call(_RUNNER, "model_runner attn_backend speculative_num_draft_tokens"),
    Attributes(_RUNNER, "captured_req_width bs max_bs buffers model_runner"),
    Override(
        SRT + "layers.attention.triton_backend:TritonAttnBackend.init_cuda_graph_state",
        "self max_bs max_num_tokens kv_indices_buf cuda_graph_num_kv_splits_buf",
    ),
    Attributes(SRT + "layers.attention.triton_backend:TritonAttnBackend", "req_to_token device verify_mask"),
    Attributes(SRT + "layers.attention.hybrid_linear_attn_backend:HybridLinearAttnBackend", "verify_mask"),
    Attributes(SRT + "layers.attention.verify_mask:VerifyMask", "buffer fits"),
    Call(SRT + "mem_cache.memory_pool:MHATokenToKVPool.move_kv_cache", "self tgt_loc src_loc"),
    Call(SRT + "mem_cache.memory_pool:HybridLinearKVPool.move_kv_cache", "self tgt_loc src_loc"),
    Attributes(SRT + "mem_cache.memory_pool:ReqToTokenPool", "req_to_token size"),
    # recurrent state, grammar, sampling, simulation
    Call(
        _SPEC_UTILS + "commit_mamba_states_after_verify", "target_worker batch accept_lens accept_index draft_token_num"
    ),
    Call(_SPEC_UTILS + "prepare_mamba_track_for_verify", "batch"),
    Call(_SPEC_UTILS + "build_grammar_vocab_mask", "reqs tree sampling_info device barrier"),
    Call(_SPEC_UTILS + "GrammarTree.from_device", "retrieve_next_token retrieve_next_sibling draft_token"),
    Call(_SPEC_UTILS + "GrammarTree.from_linear_chain", "verify_ids_2d"),
    Name(_SPEC_UTILS + "SIMULATE_ACC_LEN"),
    Name(_SPEC_UTILS + "SIMULATE_ACC_METHOD"),
    Call(_SAMPLER + "apply_custom_logit_processor", "logits sampling_batch_info num_tokens_in_batch"),
    Call(_SAMPLER + "sampling_from_probs_torch", "probs sampling_seed positions"),
    Call(
        _SAMPLER + "top_k_top_p_min_p_sampling_from_probs_torch",
        "probs top_ks top_ps min_ps need_min_p_sampling sampling_seed positions",
    ),
    Attributes(
        SRT + "sampling.sampling_batch_info:SamplingBatchInfo",
        "temperatures top_ks top_ps min_ps is_all_greedy need_top_k_sampling need_top_p_sampling need_min_p_sampling "
        "sampling_seed acc_additive_penalties acc_scaling_penalties logit_bias has_custom_logit_processor penalizer_orchestrator",
    ),
    # HTTP server, in the launcher alone
    Call(SRT + "utils.auth:add_api_key_middleware", "app api_key admin_api_key"),
    Call(SRT + "entrypoints.http_server:launch_server", "server_args execute_warmup_func"),
    Call("sglang.launch_server:run_server", "server_args"),
    Name(SRT + "utils:kill_process_tree"),
)

ONLY: dict[type, tuple[Any, ...]] = {
    releases.Release: (
        Call(_DFLASH_WORKER, "server_args gpu_id ps nccl_port target_worker"),
        Override(_DFLASH_WORKER + ".forward_batch_generation", "self batch on_publish grammar_barrier"),
        Attributes(_DFLASH_WORKER, "ps"),
        Call(
            _DFLASH_WORKER + "._fill_compact_seq_lens_cpu_bound",
            "self batch_seq_lens_cpu reserved_seq_lens_cpu draft_prefix_lens out",
        ),
        Attributes(
            SRT + "speculative.dflash_info_v2:DFlashDraftInputV2", "reserved_seq_lens_cpu reserved_seq_lens_sum"
        ),
        Attributes(SRT + "server_args:ServerArgs", "get_model_config override"),
        Name(SRT + "runtime_context:get_server_args"),
        Call(_SPEC_UTILS + "_sample_simulated_acc_len", "simulate_acc_len simulate_acc_method max_len"),
        Override(
            SRT + "speculative.spec_info:create_dummy_verify_input",
            "spec_algorithm server_args custom_mask num_tokens_per_req is_draft_worker",
        ),
        Override(SRT + "mem_cache.allocation_sizing:get_req_to_token_extra_context_len", "server_args"),
        Call(SRT + "entrypoints.http_server:_execute_server_warmup", "server_args"),
        Override(SRT + "managers.schedule_batch:Req.update_finish_state", "self new_accepted_len"),
        Call(SRT + "managers.schedule_batch:Req._check_str_based_finish", "self new_accepted_len"),
        Call(SRT + "managers.schedule_batch:Req._check_token_based_finish", "self new_accepted_tokens"),
        Attributes(SRT + "managers.schedule_batch:Req", "output_ids sampling_params finished to_finish"),
    ),
    releases.Release0523: (
        Call(_DFLASH_WORKER, "server_args gpu_id nccl_port target_worker"),
        Override(
            _DFLASH_WORKER + ".forward_batch_generation", "self batch on_publish grammar_barrier pp_proxy_tensors"
        ),
        Attributes(
            _DFLASH_WORKER, "selector lilicorr _is_domino _noise_embed_scale _target_logits_processor prewarm_sampling"
        ),
        Call(_DFLASH_WORKER + "._fill_compact_seq_lens_cpu_bound", "self batch_seq_lens_cpu nxt_kv_lens_cpu out"),
        Call(SRT + "speculative.dflash_worker_v2:_resolve_dflash_embedding_module", "draft_model target_model"),
        Attributes(SRT + "layers.logits_processor:LogitsProcessor", "defer_verify_gather"),
        Attributes(SRT + "speculative.dflash_info_v2:DFlashDraftInputV2", "nxt_kv_lens_cpu nxt_kv_lens_sum"),
        Call(SRT + "arg_groups.model_override_base:model_config_of", "server_args"),
        Name(SRT + "runtime_context:get_spec"),
        Call(_SPEC_UTILS + "sample_simulated_acc_len", "simulate_acc_len simulate_acc_method max_len"),
        Name(SRT + "runtime_context:get_observability"),
        Name(SRT + "runtime_context:get_parallel"),
        Attributes(SRT + "runtime_context:_ConfigBag", "override"),
        Attributes(
            SRT + "server_args:ServerArgs",
            "attn_dp_size attn_cp_size enable_watermark speculative_use_block_verification",
        ),
        Attributes(
            SRT + "model_executor.forward_batch_info:ForwardBatch",
            "num_token_non_padded global_num_token_non_padded_cpu can_run_decode_cuda_graph",
        ),
        Call(SRT + "model_executor.forward_batch_info:enable_num_token_non_padded", ""),
        Attributes(SRT + "managers.schedule_batch:ScheduleBatch", "can_run_decode_cuda_graph"),
        Attributes(SRT + "model_executor.model_runner:ModelRunner", "kv_index_translator prewarm_sampling"),
        Call(
            SRT + "mem_cache.kv_index_translator:KVIndexTranslator.plan",
            "self req_pool_indices seq_lens seq_lens_cpu write_virtual read_extent",
        ),
        Call(SRT + "mem_cache.kv_loc_plan:KVLocPlan.reads_from", "self source seq_lens seq_lens_cpu read_extent"),
        Call(SRT + "mem_cache.kv_loc_plan:KVLocPlan.bind", "self batch reader"),
        Call(
            SRT + "speculative.dflash_info:DFlashVerifyInput",
            "draft_token positions draft_token_num topk custom_mask capture_hidden_mode kv_loc_plan",
        ),
        Override(
            SRT + "speculative.spec_info:create_dummy_verify_input",
            "spec_algorithm custom_mask num_tokens_per_req is_draft_worker",
        ),
        Override(SRT + "mem_cache.allocation_sizing:get_req_to_token_extra_context_len", ""),
        Override(SRT + "speculative.dflash_utils:validate_dflash_request", "req enable_overlap"),
        Attributes(SRT + "managers.schedule_batch:Req", "return_logprob return_sampling_mask"),
        Name(SRT + "entrypoints.http_server:get_serving"),
    ),
}


def needs(release: releases.Release) -> tuple[Any, ...]:
    """Everything the plugin needs of this release."""
    return (*COMMON, *ONLY[type(release)])


def missing(release: releases.Release, entries: Iterable[Any] | None = None) -> list[str]:
    """What the installed SGLang does not offer, one sentence each."""
    found: list[str] = []
    for entry in needs(release) if entries is None else entries:
        try:
            target, owner, last = _resolve(entry.path)
        except (ImportError, AttributeError) as error:
            found.append(f"{entry.path} is not there ({error})")
            continue
        found += [f"{entry.path} {text}" for text in _CHECKS[type(entry)](entry, target, owner, last)]
    return found


def refuse_missing(release: releases.Release) -> None:
    """Refuse to start on a release that no run stands behind if a name is missing. For schedulers: without the launcher's part."""
    if release.evidence == releases.MEASURED:
        return
    lacking = missing(release, [entry for entry in needs(release) if not entry.path.startswith(LAUNCHER)])
    if lacking:
        raise RuntimeError(
            f"DDTREE cannot run on SGLang {release.version} ({release.evidence}): " + "; ".join(lacking) + ". "
            "Install a release that was measured, or use --speculative-algorithm DFLASH."
        )


def _resolve(path: str) -> tuple[Any, Any, str]:
    module, dummy, inner = path.partition(":")
    target = importlib.import_module(module)
    owner, last = target, inner
    for last in inner.split("."):
        owner, target = target, getattr(target, last)
    return target, owner, last


def _parameters(target: Any) -> tuple[dict[str, inspect.Parameter], bool]:
    """Parameters by name, without ``*args`` and ``**kwargs``, and whether it takes any other keyword."""
    every = inspect.signature(target).parameters.items()
    variable = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    named = {name: parameter for name, parameter in every if parameter.kind not in variable}
    return named, any(parameter.kind == inspect.Parameter.VAR_KEYWORD for dummy, parameter in every)


def _check_call(entry: Call, target: Any, *_: Any) -> list[str]:
    (parameters, takes_any), passed = _parameters(target), set(entry.parameters.split())
    texts = [f"takes no parameter {name}" for name in sorted(passed - set(parameters)) if not takes_any]
    return texts + [
        f"also needs parameter {name}"
        for name, parameter in parameters.items()
        if parameter.default is inspect.Parameter.empty and name not in passed
    ]


def _check_override(entry: Override, target: Any, *_: Any) -> list[str]:
    return [
        f"may be called with {name}, which the plugin does not take"
        for name in _parameters(target)[0]
        if name not in entry.accepted.split()
    ]


def _check_attributes(entry: Attributes, target: Any, *_: Any) -> list[str]:
    known = _instance_names(target)
    return [f"has no {name}" for name in entry.names.split() if name not in known]


_CHECKS = {
    Name: lambda *_: [],
    Call: _check_call,
    Override: _check_override,
    Attributes: _check_attributes,
}


@functools.cache
def _instance_names(cls: type) -> frozenset[str]:
    """Names on the class, its annotations, and assignments to ``self`` in its methods and its bases'."""
    names = set(dir(cls))
    for base in cls.__mro__[:-1]:
        names |= set(vars(base).get("__annotations__", {}))
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(base)))
        except (OSError, TypeError):
            continue
        stored = (n for n in ast.walk(tree) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store))
        names |= {n.attr for n in stored if isinstance(n.value, ast.Name) and n.value.id == "self"}
    return frozenset(names)
