# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""The target model, and the only place that knows transformers.

What depends on the transformers version (5.12 to 5.17) is gathered here: how a checkpoint is loaded, that a
four-dimensional attention mask is taken as it is, which two methods a decoder calls on its cache, and where the decoder
layers hang. The rest of the package sees tensors.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import torch
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM
from transformers.cache_utils import Cache
from transformers.utils import logging as transformers_logging

from ddtree import options
from ddtree.cache import RaggedKV

DTYPES = {name: getattr(torch, name) for name in options.DTYPES}


class ModelError(ValueError):
    """A checkpoint that cannot be used, with the reason in words for the operator."""


class _CacheAdapter(Cache):
    """A `RaggedKV` as decoder layers of transformers expect it: `update` in each attention layer."""

    def __init__(self, storage: RaggedKV) -> None:
        super().__init__(layers=[])
        self.storage = storage

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *args: object, **kwargs: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return self.storage.append(layer_idx, key_states, value_states)

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self.storage.front


class Target:
    """A decoder-only language model with full attention in every layer."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.model = model.eval().requires_grad_(False)
        self.config = model.config.get_text_config()
        self.device = next(model.parameters()).device
        self.dtype = next(model.parameters()).dtype
        self.vocab_size = model.get_output_embeddings().weight.shape[0]
        self.hidden_size = self.config.hidden_size
        self.num_layers = self.config.num_hidden_layers
        self.max_positions = getattr(self.config, "max_position_embeddings", None)
        self.eos = _end_tokens(model)
        self._embedding = model.get_input_embeddings()
        self._head = model.get_output_embeddings()
        self._captured: dict[int, torch.Tensor] = {}
        self._hooked: set[int] = set()

    @classmethod
    def load(cls, path: str | Path, dtype: str = "float32", device: str = "cpu") -> Target:
        """Read a checkpoint directory; nothing is fetched. `ModelError` says why a model cannot serve as a target."""
        config_file = Path(path) / "config.json"
        if not config_file.is_file():
            raise ModelError(f"{path} is no model directory: it has no config.json")
        config = json.loads(config_file.read_text(encoding="utf-8"))
        refuse_unsupported(config, str(path))
        transformers_logging.disable_progress_bar()  # a progress bar is noise in a journal
        try:
            # transformers' own SDPA attention takes a boolean mask of any shape; flash attention does not.
            model, report = AutoModelForCausalLM.from_pretrained(
                path, dtype=DTYPES[dtype], attn_implementation="sdpa", local_files_only=True, output_loading_info=True
            )
        except (OSError, ValueError, RuntimeError, SafetensorError) as error:
            raise ModelError(f"{path} cannot be loaded as a causal language model: {error}") from error
        if report["missing_keys"]:
            # transformers fills missing weights with random numbers, which would serve noise.
            raise ModelError(f"{path} lacks weights: {', '.join(sorted(report['missing_keys'])[:5])}")
        return cls(model.to(device))

    def _watch(self, layers: Sequence[int]) -> None:
        """Note the outputs of these decoder layers during every pass from now on."""
        for layer in set(layers) - self._hooked:
            self.model.get_decoder().layers[layer].register_forward_hook(partial(self._keep, layer))
            self._hooked.add(layer)

    def _keep(self, layer: int, _module: torch.nn.Module, _inputs: object, output: torch.Tensor | tuple) -> None:
        self._captured[layer] = output[0] if isinstance(output, tuple) else output

    def new_cache(self, batch: int) -> RaggedKV:
        return RaggedKV.empty(self.num_layers, batch, self.device)

    def embed(self, tokens: torch.Tensor) -> torch.Tensor:
        """Input embeddings `[..., hidden]`; the drafter has none of its own."""
        return self._embedding(tokens)

    def head(self, hidden: torch.Tensor) -> torch.Tensor:
        """Output projection `[..., vocab]`; the drafter has none of its own."""
        return self._head(hidden)

    @torch.no_grad()
    def forward(
        self,
        tokens: torch.Tensor,
        positions: torch.Tensor,
        visible: torch.Tensor,
        cache: RaggedKV,
        feature_layers: Sequence[int] = (),
        last: int = 0,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """One pass over `n` new rows of each of `b` requests.

        `tokens`, `positions` int64 `[b, n]`. `visible` bool `[b, n, n]`: which new rows see which new rows; all see the
        committed columns of their request. The rows are appended to `cache` and not committed.
        `feature_layers`: decoder layers whose outputs are wanted; the output of layer `i` is transformers'
        `hidden_states[i + 1]`, and what SGLang captures "before layer `i + 1`".
        `last`: compute logits for that many rows at the end only; 0 for all.

        Returns logits `[b, n or last, vocab]` in the model's dtype and features `[b, n, len(feature_layers) * hidden]`, the
        drafter's view of the target; None if no layer was asked for.
        """
        self._watch(feature_layers)
        rows = tokens.shape[1]
        prefix = cache.prefix_mask()[:, None, :].expand(-1, rows, -1)
        output = self.model(
            input_ids=tokens,
            position_ids=positions,
            attention_mask=torch.cat([prefix, visible], dim=2)[:, None],
            past_key_values=_CacheAdapter(cache),
            use_cache=True,
            logits_to_keep=last,
        )
        features = None
        if feature_layers:
            features = torch.cat([self._captured[layer] for layer in feature_layers], dim=-1)
        self._captured.clear()
        return output.logits, features


def _end_tokens(model: torch.nn.Module) -> frozenset[int]:
    """Tokens that end an output, from generation_config.json or else config.json."""
    ends = getattr(model.generation_config, "eos_token_id", None)
    ends = model.config.eos_token_id if ends is None else ends
    if ends is None:
        return frozenset()
    return frozenset([ends] if isinstance(ends, int) else ends)


def refuse_unsupported(config: dict, name: str) -> None:
    """Raise `ModelError` for models whose layers a tree mask alone cannot serve.

    Linear-attention layers (Qwen3-Next, Qwen3.5: gated delta nets) carry a recurrent state that would have to be kept per tree
    node; sliding-window layers would need the window measured along the path.
    """
    text = config.get("text_config") or config
    kinds = set(text.get("layer_types") or ["full_attention"])
    if text.get("full_attention_interval") or "linear_attention" in kinds:
        raise ModelError(
            f"{name} is a hybrid model (linear-attention layers): the transformers backend serves full-attention targets "
            "only; use the sglang backend, or algorithm none with transformers itself"
        )
    if text.get("use_sliding_window") or kinds - {"full_attention"}:
        raise ModelError(
            f"{name} has sliding-window layers: the transformers backend serves full-attention targets only"
        )
