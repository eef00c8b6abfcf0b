# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""The releases of SGLang that the plugin knows, and everything in it that depends on the release.

:class:`Release` is 0.5.17; a later release overrides what it changed. A method is one difference, named after what the plugin
wants, not after SGLang's names. Nothing of SGLang is imported before a method runs. What each release must offer under which
name is in ``api.py``.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ddtree.sglang.config import ConfigError

if TYPE_CHECKING:
    import torch

    from ddtree.sglang.buffers import Draft

ANY_VERSION_ENV = "SGLANG_DDTREE_ANY_VERSION"
"""The worker builds on DFLASH's, whose internals change between releases: others than the known ones are refused without it."""

MEASURED = "measured on a GPU"
CHECKED = "checked by import and unit tests, never run on a GPU"
UNKNOWN = "unknown to this plugin, nothing was checked"


def is_on(value: Any) -> bool:
    return bool(value)


def above_one(value: Any) -> bool:
    return value is not None and int(value) > 1


def switched_on(environ: Mapping[str, str], name: str) -> bool:
    """A boolean variable as SGLang reads it."""
    return environ.get(name, "").lower() in ("true", "1", "yes", "y")


@dataclass(frozen=True)
class Release:
    """SGLang 0.5.17."""

    version: str
    evidence: str

    excluded: tuple[tuple[Callable[[Any], bool], str, str], ...] = ()
    """Settings refused on this release beside those refused everywhere: (is it set?, ServerArgs field, reason and way out)."""
    verify_tracks_mamba = False
    """Whether ``prepare_for_verify`` refreshes the recurrent states' tracking indices itself."""

    @property
    def note(self) -> str:
        """Said at the end of the start line, unless a run on a GPU stands behind this release."""
        return "" if self.evidence == MEASURED else f", SGLang {self.version}: {self.evidence}"

    # --- server arguments ------------------------------------------------------------------------------------------

    def refuse_environment(self, environ: Mapping[str, str]) -> None:
        """Refuse switches of this release's environment that DDTREE does not serve."""

    def model_config(self, server_args: Any) -> Any:
        """The target's model configuration while server arguments resolve."""
        return server_args.get_model_config()

    def block_size(self) -> int:
        """The drafter's block size in a running process; ``handle_server_args`` always fills it in."""
        from sglang.srt.runtime_context import get_server_args

        return int(get_server_args().speculative_dflash_block_size)

    def speculative(self, server_args: Any) -> Any:
        """Where a running process reads the resolved ``speculative_*`` settings."""
        return server_args

    def metrics_enabled(self, server_args: Any) -> bool:
        return bool(server_args.enable_metrics)

    # --- worker ----------------------------------------------------------------------------------------------------

    def tp_rank(self, worker: Any) -> int:
        return int(worker.ps.tp_rank)

    @contextlib.contextmanager
    def draft_scope(self, block_size: int) -> Iterator[None]:
        """Around what builds the draft side. Its own copy of the server arguments says that it drafts a chain."""
        yield

    def draft_arguments(self, server_args: Any, block_size: int) -> Any:
        """Server arguments of the draft side: one candidate per position, ``block_size`` draft tokens."""
        copy = deepcopy(server_args)
        copy.override("ddtree.draft", speculative_eagle_topk=1, speculative_num_draft_tokens=block_size)
        return copy

    def refuse_drafter(self, worker: Any) -> None:
        """Refuse, once it is loaded, a drafter that this release knows and DDTREE does not."""

    def settle_target(self, worker: Any) -> None:
        """Undo what DFLASH's worker set on the target and a tree cannot use."""

    def embed(self, worker: Any, block_ids: torch.Tensor) -> torch.Tensor:
        """Input embeddings of a draft block."""
        return worker.model_runner.model.get_input_embeddings()(block_ids)

    def reserved_lengths(self, draft_input: Any) -> tuple[torch.Tensor | None, int | None]:
        """Host-side upper bound of the lengths, per request and in sum, that decode preparation left."""
        return draft_input.reserved_seq_lens_cpu, draft_input.reserved_seq_lens_sum

    def bound_compact_lengths(self, worker: Any, batch: Any, lengths: torch.Tensor, out: torch.Tensor) -> None:
        """Host-side upper bound of the draft window's lengths into ``out``."""
        worker._fill_compact_seq_lens_cpu_bound(
            batch_seq_lens_cpu=batch.seq_lens_cpu,
            reserved_seq_lens_cpu=batch.spec_info.reserved_seq_lens_cpu,
            draft_prefix_lens=lengths,
            out=out,
        )

    def draft_batch_fields(self, batch: Any, tokens: int, device: Any) -> dict[str, Any]:
        """Further fields of the draft step's ForwardBatch."""
        return {}

    def plan_draft(self, worker: Any, batch: Any, forward_batch: Any, cache_loc: torch.Tensor) -> None:
        """Give the draft step its KV slots, once its ForwardBatch is made."""

    def verify_fields(self, worker: Any, batch: Any, draft: Draft) -> dict[str, Any]:
        """Further fields of the verify input."""
        return {}

    def simulated_length(self) -> Callable[[float, str, int], int]:
        """SGLang's draw of a forced accept length: (mean, method, largest)."""
        from sglang.srt.speculative.spec_utils import _sample_simulated_acc_len

        return _sample_simulated_acc_len

    # --- hooks -----------------------------------------------------------------------------------------------------

    def hooks(self) -> list[tuple[str, Callable[..., Any], str]]:
        """(target, hook, kind) of the hooks whose signature depends on the release."""
        from ddtree.sglang import hooks

        return [
            (hooks.GET_SPEC_INFO, hooks.get_spec_info, "AROUND"),
            (hooks.DUMMY_VERIFY_INPUT, hooks.create_dummy_verify_input, "AROUND"),
            (hooks.EXTRA_CONTEXT_LEN, hooks.extra_context_len, "AFTER"),
            (hooks.UPDATE_FINISH_STATE, hooks.finish_at_stop, "AROUND"),
        ]

    # --- HTTP server -----------------------------------------------------------------------------------------------

    def refuse_front_end(self, environ: Mapping[str, str]) -> str | None:
        """Why this release would serve outside the HTTP server that a key protects."""
        return None

    def launch_with_key(self, http_server: Any, server_args: Any, key: str, keyed: Callable[[Any, str], Any]) -> None:
        """Launch the HTTP server, whose own warm-up request needs the key. ``keyed(args, key)`` reads like ``args``."""
        warm_up = http_server._execute_server_warmup
        http_server.launch_server(server_args, execute_warmup_func=lambda args: warm_up(keyed(args, key)))


@dataclass(frozen=True)
class Release0523(Release):
    """SGLang 0.5.23: resolved settings live in config namespaces, KV slots travel in a plan."""

    excluded: tuple[tuple[Callable[[Any], bool], str, str], ...] = (
        (above_one, "attn_dp_size", "the drafter has no data-parallel attention. Use tensor parallelism alone."),
        (above_one, "attn_cp_size", "the drafter's graphs hold one context rank. Use --attn-cp-size 1."),
        (is_on, "enable_watermark", "a watermark is drawn per token, not per tree row. Leave it off."),
        (is_on, "speculative_use_block_verification", "trees hold top candidates, not samples. Leave it off."),
    )
    verify_tracks_mamba = True

    def refuse_environment(self, environ: Mapping[str, str]) -> None:
        name = "SGLANG_ENABLE_POST_CAPTURE_KV_SIZING"
        if switched_on(environ, name):
            raise ConfigError(
                f"DDTREE does not support {name}: KV memory would be sized without room for sampling over tree rows. "
                "Leave it unset."
            )

    def model_config(self, server_args: Any) -> Any:
        from sglang.srt.arg_groups.model_override_base import model_config_of

        return model_config_of(server_args)

    def block_size(self) -> int:
        return int(_spec().speculative_dflash_block_size)

    def speculative(self, server_args: Any) -> Any:
        return _spec()

    def metrics_enabled(self, server_args: Any) -> bool:
        from sglang.srt.runtime_context import get_observability

        return bool(get_observability().enable_metrics)

    def tp_rank(self, worker: Any) -> int:
        from sglang.srt.runtime_context import get_parallel

        return int(get_parallel().tp_rank)

    @contextlib.contextmanager
    def draft_scope(self, block_size: int) -> Iterator[None]:
        with _spec().override(speculative_eagle_topk=1, speculative_num_draft_tokens=block_size):
            yield

    def draft_arguments(self, server_args: Any, block_size: int) -> Any:
        return server_args

    def refuse_drafter(self, worker: Any) -> None:
        heads = {
            "candidate selector": worker.selector is not None,
            "LiLiCorr": worker.lilicorr is not None,
            "Domino": worker._is_domino,
        }
        for head, present in heads.items():
            if present:
                raise RuntimeError(
                    f"DDTREE builds trees from a plain DFlash drafter's marginals, and this drafter has a {head} head. "
                    "Use --speculative-algorithm DFLASH."
                )

    def settle_target(self, worker: Any) -> None:
        # DFLASH leaves the logits of a tensor-parallel verify sharded where an argmax is enough; the walk reads all of them.
        if worker._target_logits_processor is not None:
            worker._target_logits_processor.defer_verify_gather = False
            worker._target_logits_processor = None

    def embed(self, worker: Any, block_ids: torch.Tensor) -> torch.Tensor:
        from sglang.srt.speculative.dflash_worker_v2 import _resolve_dflash_embedding_module

        embeds = _resolve_dflash_embedding_module(worker.draft_model, worker.model_runner.model)(block_ids)
        return embeds if worker._noise_embed_scale == 1.0 else embeds * worker._noise_embed_scale

    def reserved_lengths(self, draft_input: Any) -> tuple[torch.Tensor | None, int | None]:
        return draft_input.nxt_kv_lens_cpu, draft_input.nxt_kv_lens_sum

    def bound_compact_lengths(self, worker: Any, batch: Any, lengths: torch.Tensor, out: torch.Tensor) -> None:
        worker._fill_compact_seq_lens_cpu_bound(
            batch_seq_lens_cpu=batch.seq_lens_cpu, nxt_kv_lens_cpu=batch.spec_info.nxt_kv_lens_cpu, out=out
        )

    def draft_batch_fields(self, batch: Any, tokens: int, device: Any) -> dict[str, Any]:
        import torch
        from sglang.srt.model_executor.forward_batch_info import enable_num_token_non_padded

        padded = enable_num_token_non_padded()
        return {
            "num_token_non_padded": torch.full((), tokens, dtype=torch.int32, device=device) if padded else None,
            "global_num_token_non_padded_cpu": tokens,
            "can_run_decode_cuda_graph": batch.can_run_decode_cuda_graph,
        }

    def plan_draft(self, worker: Any, batch: Any, forward_batch: Any, cache_loc: torch.Tensor) -> None:
        block_size = int(cache_loc.shape[1])
        plan = self._plan(worker, batch, cache_loc)
        reader = worker.draft_model_runner.kv_index_translator
        if worker.use_compact_draft_cache:  # reads its own short rows
            plan = plan.reads_from(
                reader,
                seq_lens=forward_batch.seq_lens,
                seq_lens_cpu=forward_batch.seq_lens_cpu,
                read_extent=block_size,
            )
        plan.bind(forward_batch, reader)

    def verify_fields(self, worker: Any, batch: Any, draft: Draft) -> dict[str, Any]:
        return {"kv_loc_plan": self._plan(worker, batch, draft.cache_loc)}

    def simulated_length(self) -> Callable[[float, str, int], int]:
        from sglang.srt.speculative.spec_utils import sample_simulated_acc_len

        return sample_simulated_acc_len

    def _plan(self, worker: Any, batch: Any, cache_loc: torch.Tensor) -> Any:
        """Slots that this step writes after each request's committed text. Pools with virtual slots are refused at start."""
        lengths = batch.seq_lens_cpu
        return worker.model_runner.kv_index_translator.plan(
            req_pool_indices=batch.req_pool_indices,
            seq_lens=batch.seq_lens,
            seq_lens_cpu=lengths if lengths is not None else self.reserved_lengths(batch.spec_info)[0],
            write_virtual=cache_loc.reshape(-1),
            read_extent=int(cache_loc.shape[1]),
        )

    def hooks(self) -> list[tuple[str, Callable[..., Any], str]]:
        from ddtree.sglang import hooks

        def spec_info(original: Callable[..., Any], runner: Any, num_tokens: int) -> Any:
            return hooks.get_spec_info(original, runner, num_tokens, _spec())

        def dummy(original: Callable[..., Any], spec_algorithm: Any, *rest: Any) -> Any:
            def without_settings(spec_algorithm: Any, _settings: Any, *rest: Any) -> Any:
                return original(spec_algorithm, *rest)

            return hooks.create_dummy_verify_input(without_settings, spec_algorithm, _spec(), *rest)

        def extra_context_len(extra: int) -> int:
            return hooks.extra_context_len(extra, _spec())

        return [
            (hooks.GET_SPEC_INFO, spec_info, "AROUND"),
            (hooks.DUMMY_VERIFY_INPUT, dummy, "AROUND"),
            (hooks.EXTRA_CONTEXT_LEN, extra_context_len, "AFTER"),
            # DFLASH serves log-probabilities here, DDTREE does not.
            (hooks.VALIDATE_REQUEST, hooks.validate_request, "AROUND"),
        ]

    def refuse_front_end(self, environ: Mapping[str, str]) -> str | None:
        if switched_on(environ, "SGLANG_RUST_SERVER"):
            return "SGLANG_RUST_SERVER serves outside the HTTP server that the key protects. Leave it unset."
        return None

    def launch_with_key(self, http_server: Any, server_args: Any, key: str, keyed: Callable[[Any, str], Any]) -> None:
        # The warm-up request and the one after it read the key from this name; no endpoint reads it there.
        serving = http_server.get_serving
        http_server.get_serving = lambda: keyed(serving(), key)
        http_server.launch_server(server_args)


def _spec() -> Any:
    from sglang.srt.runtime_context import get_spec

    return get_spec()


RELEASES: dict[str, Release] = {
    release.version: release for release in (Release("0.5.17", MEASURED), Release0523("0.5.23", CHECKED))
}
"""Oldest first."""


def numbers(version: str) -> tuple[int, ...]:
    """``0.5.23.post1`` as (0, 5, 23)."""
    found = []
    for part in version.split("."):
        if not part.isdigit():
            break
        found.append(int(part))
    return tuple(found)


def of_version(version: str, environ: Mapping[str, str]) -> Release:
    """The release's differences. One that is not known is refused, or treated as the last known one before it."""
    known = RELEASES.get(version)
    if known is not None:
        return known
    measured = [r.version for r in RELEASES.values() if r.evidence == MEASURED]
    if environ.get(ANY_VERSION_ENV) != "1":
        listed = ", ".join(f"{r.version} ({r.evidence})" for r in RELEASES.values())
        raise ConfigError(
            f"DDTREE knows SGLang {listed}; got {version}. Install sglang=={measured[-1]}, use --speculative-algorithm DFLASH, "
            f"or set {ANY_VERSION_ENV}=1 to try."
        )
    before = [r for r in RELEASES.values() if numbers(r.version) <= numbers(version)]
    nearest = before[-1] if before else next(iter(RELEASES.values()))
    return type(nearest)(version, UNKNOWN)


@functools.cache
def installed() -> Release:
    """The installed SGLang."""
    from sglang.version import __version__

    return of_version(__version__, os.environ)
