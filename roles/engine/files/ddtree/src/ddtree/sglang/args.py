# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""Server-argument handling: DFLASH's rules with a tree's numbers, and refusals with a reason and a way out.

Runs in the launcher while ServerArgs resolves (attention backends, page size and memory fraction are known by then).
"""

from __future__ import annotations

import json
import logging
import os
from typing import TYPE_CHECKING, Any

from ddtree.sglang import releases
from ddtree.sglang.config import ConfigError, DDTreeConfig, options_from_environment, plan_memory, resolve
from ddtree.sglang.releases import above_one, is_on
from ddtree.sglang.states import is_compact, row_bytes, state_bytes
from ddtree.sglang.weights import checkpoint_bytes

if TYPE_CHECKING:
    from sglang.srt.server_args import ServerArgs

logger = logging.getLogger(__name__)

PROVEN_ATTENTION_BACKENDS = ("triton",)
"""Backends whose tree masks a run of the benchmark has shown to be lossless."""

DEFAULT_MAX_RUNNING_REQUESTS = 48
"""As DFLASH's default."""


def handle_server_args(server_args: ServerArgs) -> None:
    """Check and complete the arguments of a DDTREE server, in place."""
    from sglang.srt.arg_groups.overrides import attention_backends_of, resolved_view
    from sglang.srt.arg_groups.speculative_hook import _resolve_dflash_draft_attention_backend

    release = releases.installed()
    if release.evidence != releases.MEASURED:
        logger.warning("DDTREE: SGLang %s is %s.", release.version, release.evidence)
    release.refuse_environment(os.environ)
    view = resolved_view(server_args)
    refuse_unsupported(view, attention_backends_of(view), release.excluded)
    model_config = release.model_config(server_args)
    refuse_unsupported_target(model_config)
    force_spine, max_tree_batch = options_from_environment()
    config = resolve(
        block_size=_block_size(server_args),
        num_draft_tokens=server_args.speculative_num_draft_tokens,
        topk=server_args.speculative_eagle_topk,
        force_spine=force_spine,
        max_tree_batch=max_tree_batch,
    )
    window = server_args.speculative_draft_window_size
    if window is not None and window < config.block_size:
        raise ConfigError(
            f"--speculative-draft-window-size {window} is below the drafter's block. Use {config.block_size} or more."
        )
    server_args.speculative_dflash_block_size = config.block_size
    server_args.speculative_num_draft_tokens = config.rows
    # Tree code paths of hybrid backends and pools key on topk > 1; KV accounting takes max(steps * topk, rows).
    server_args.speculative_eagle_topk = config.topk
    server_args.speculative_num_steps = 1
    _resolve_dflash_draft_attention_backend(server_args)
    _plan_running_requests(server_args, config, model_config)
    if server_args.enable_mixed_chunk:
        server_args.enable_mixed_chunk = False
        logger.warning("Mixed chunked prefill is disabled because of DDTREE speculative decoding.")
    logger.info(
        "DDTREE: budget=%d (verify rows %d), topk=%d, block_size=%d, force_spine=%s, max_tree_batch=%s, "
        "max_running_requests=%s",
        config.budget,
        config.rows,
        config.topk,
        config.block_size,
        config.force_spine,
        config.max_tree_batch,
        server_args.max_running_requests,
    )


def refuse_unsupported(
    args: Any, attention_backends: tuple[str | None, str | None], further: tuple[Any, ...] = ()
) -> None:
    """Raise :class:`ConfigError` for the first setting that DDTREE does not serve. ``args`` reads like ServerArgs.

    ``further`` are the release's own exclusions.
    """
    if not str(args.device).startswith("cuda"):
        raise ConfigError(f"DDTREE runs on CUDA devices, got --device {args.device}. Use --device cuda.")
    if args.speculative_draft_model_path is None:
        raise ConfigError("DDTREE needs a DFlash drafter: give --speculative-draft-model-path.")
    for backend in attention_backends:
        if backend not in PROVEN_ATTENTION_BACKENDS:
            raise ConfigError(
                f"DDTREE verifies trees through attention masks that are proven for "
                f"{', '.join(PROVEN_ATTENTION_BACKENDS)} only, got attention backend {backend}. "
                f"Use --attention-backend {PROVEN_ATTENTION_BACKENDS[0]}."
            )
    if args.page_size not in (None, 1):
        raise ConfigError(f"DDTREE supports page size 1, got --page-size {args.page_size}. Use --page-size 1.")
    for present, option, way_out in (*_EXCLUDED, *further):
        value = getattr(args, option, None)
        if present(value):
            flag = "--" + option.replace("_", "-")
            raise ConfigError(f"DDTREE does not support {flag} {value}: {way_out}")


def refuse_unsupported_target(model_config: Any) -> None:
    """Refuse targets whose attention cannot be verified over trees."""
    if getattr(model_config, "is_hybrid_swa", False) or getattr(model_config, "sliding_window_size", None):
        raise ConfigError(
            "DDTREE does not serve sliding-window targets: the window is taken by row, not by depth, so siblings would "
            "shift it. Use --speculative-algorithm DFLASH."
        )
    arch = getattr(getattr(model_config, "attention_arch", None), "name", "MHA")
    if arch != "MHA":
        raise ConfigError(f"DDTREE serves MHA/GQA targets, got {arch}. Use --speculative-algorithm DFLASH.")


def refuse_recurrent_target(config: Any | None) -> None:
    """Refuse recurrent targets other than gated delta nets; ``config`` is SGLang's of a hybrid target, None for others."""
    heads = ("linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim", "linear_value_head_dim")
    if config is not None and not all(hasattr(config, name) for name in heads):
        raise ConfigError(
            "DDTREE serves recurrent targets whose linear attention is the gated delta nets of Qwen3-Next, Qwen3.5 and Qwen3.6, "
            f"got {type(config).__name__}. Use --speculative-algorithm DFLASH."
        )


def _below_one(value: Any) -> bool:
    return value is not None and float(value) < 1.0


# (is it set to something unsupported?, ServerArgs field, reason and nearest setting that works)
_EXCLUDED = (
    (is_on, "enable_dp_attention", "the drafter has no data-parallel attention. Use tensor parallelism alone."),
    (
        above_one,
        "pp_size",
        "the drafter needs the target's layers in one process. Use --pp-size 1 and a larger --tp-size.",
    ),
    (above_one, "dcp_size", "decode context parallelism rejects attention masks. Use --dcp-size 1."),
    (is_on, "enable_two_batch_overlap", "micro-batches split verify rows. Leave it off."),
    (is_on, "enable_pdmux", "its decode streams bypass the verify graphs. Leave it off."),
    (is_on, "enable_hisparse", "sparse attention has no tree mask. Leave it off."),
    (is_on, "enable_unified_memory", "tree rows move by physical KV slot. Leave it off."),
    (is_on, "enable_page_major_kv_layout", "tree rows move by physical KV slot. Leave it off."),
    (is_on, "enable_linear_replayssm_spec", "its commit replays a chain. Leave it off."),
    (
        is_on,
        "enable_deterministic_inference",
        "its attention kernel reads whole mask rows. Use --speculative-algorithm DFLASH.",
    ),
    (is_on, "speculative_adaptive", "it adapts EAGLE's steps. Use --speculative-ddtree-max-tree-batch."),
    (is_on, "speculative_use_rejection_sampling", "trees hold top candidates, not samples. Leave it off."),
    (_below_one, "speculative_accept_threshold_single", "lossy acceptance. Use 1.0."),
    (_below_one, "speculative_accept_threshold_acc", "lossy acceptance. Use 1.0."),
    (lambda v: v == "extra_buffer_lazy", "mamba_radix_cache_strategy", "it plans chain positions. Use extra_buffer."),
    (lambda v: v not in (None, "null"), "disaggregation_mode", "draft state is not transferred. Use null."),
    (lambda v: v not in (None, "triton"), "linear_attn_backend", "only Triton's kernels take trees. Use triton."),
    (
        lambda v: v not in (None, "triton"),
        "linear_attn_verify_backend",
        "only Triton's kernels take trees. Use triton.",
    ),
)


def _block_size(server_args: ServerArgs) -> int:
    """The drafter's block size, from the option or from the drafter's configuration."""
    if server_args.speculative_dflash_block_size is not None:
        return int(server_args.speculative_dflash_block_size)
    from sglang.srt.speculative.dflash_utils import parse_dflash_draft_config
    from sglang.srt.utils.hf_transformers_utils import get_config

    draft = get_config(
        server_args.speculative_draft_model_path,
        trust_remote_code=server_args.trust_remote_code,
        revision=server_args.speculative_draft_model_revision,
        model_override_args=json.loads(server_args.json_model_override_args),
    )
    block_size = parse_dflash_draft_config(draft_hf_config=draft).resolve_block_size(default=None)
    if block_size is None:
        raise ConfigError(
            f"The drafter {server_args.speculative_draft_model_path} names no block_size. "
            "Give --speculative-dflash-block-size (16 for most published drafters)."
        )
    return int(block_size)


def _plan_running_requests(server_args: ServerArgs, config: DDTreeConfig, model_config: Any) -> None:
    """Running requests that the recurrent states of a hybrid target leave room for; DFLASH's default otherwise."""
    from sglang.srt.configs.hybrid_arch import mambaish_config

    hybrid = mambaish_config(model_config)
    refuse_recurrent_target(hybrid)
    if hybrid is None:
        if server_args.max_running_requests is None:
            server_args.max_running_requests = DEFAULT_MAX_RUNNING_REQUESTS
            logger.info("DDTREE: max_running_requests defaults to %d.", DEFAULT_MAX_RUNNING_REQUESTS)
        return
    from sglang.srt.utils import get_device_memory_capacity

    total = get_device_memory_capacity(server_args.device)
    if total is None:
        return
    weights = checkpoint_bytes(server_args.model_path) + checkpoint_bytes(server_args.speculative_draft_model_path)
    fraction = server_args.mem_fraction_static or 0.85
    state, kept = state_bytes(hybrid, server_args.tp_size), row_bytes(hybrid, server_args.tp_size)
    plan = plan_memory(
        rows=config.rows,
        state_bytes=state,
        row_bytes=lambda rows: kept if is_compact(rows, config.topk) else state,
        available_bytes=int(total * 2**20 * fraction) - weights // server_args.tp_size,
        requested=server_args.max_running_requests,
        default=DEFAULT_MAX_RUNNING_REQUESTS,
        least_rows=config.block_size,
    )
    if server_args.max_running_requests is None:
        server_args.max_running_requests = plan.max_running_requests
        logger.info(
            "DDTREE: max_running_requests=%d, from %.1f GiB free of weights and %.2f GiB of recurrent state a request.",
            plan.max_running_requests,
            plan.available_bytes / 2**30,
            plan.state_bytes_per_request / 2**30,
        )
