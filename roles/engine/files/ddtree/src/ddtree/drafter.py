# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""The DFlash drafter in plain torch.

A small decoder that predicts a whole block at once. Its input rows are `[root, MASK x D]` at positions `p .. p + D`, embedded
with the target's embedding, where `p` is the number of committed tokens and `root` the token at `p`. Every layer
attends from these `L = D + 1` rows to (a) keys and values computed from the target's features of the committed tokens
`0 .. p - 1` and (b) the block itself, in both directions. Row `d` predicts the token at position `p + d`: same-position
prediction, no shift. The target's output head turns rows `1 .. D` into the marginals that `ddtree.tree` works on.

Context keys enter through `hidden_norm(fc(features))` and then each layer's own key and value projections; they depend on
committed tokens only, so they are computed once per token and cached.

Checkpoint layout (published DFlash drafters; sglang/srt/models/dflash.py, z-lab/dflash dflash/model.py): config.json with
`architectures: ["DFlashDraftModel"]`, `block_size`, `dflash_config: {mask_token_id, target_layer_ids}` (both may also
stand the other way round: `dflash_config.block_size`, top-level `target_layer_ids`), Qwen3's shape keys, `layer_types` of
`full_attention` and `sliding_attention`, optional `is_causal`; safetensors with `fc`, `hidden_norm`, `norm` and Qwen3 layers,
a prefix `model.` tolerated. No embedding, no head.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors import SafetensorError, safe_open
from torch import nn

from ddtree.cache import RaggedKV
from ddtree.target import DTYPES, ModelError

ARCHITECTURE = "DFlashDraftModel"


@dataclass(frozen=True)
class DrafterConfig:
    """What the drafter needs of config.json; see the module's docstring for the layout."""

    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    rms_norm_eps: float
    rope_theta: float
    attention_bias: bool
    layer_types: tuple[str, ...]
    sliding_window: int | None
    is_causal: bool | None
    block_size: int
    mask_token_id: int
    target_layer_ids: tuple[int, ...]
    num_target_layers: int | None
    vocab_size: int | None

    @classmethod
    def read(cls, path: str | Path) -> DrafterConfig:
        """Parse `<path>/config.json`. `ModelError` names the key that is missing or not understood."""
        file = Path(path) / "config.json"
        if not file.is_file():
            raise ModelError(f"{path} is no drafter directory: it has no config.json")
        return cls.parse(json.loads(file.read_text(encoding="utf-8")), str(file))

    @classmethod
    def parse(cls, raw: dict, name: str) -> DrafterConfig:
        special = raw.get("dflash_config") or {}

        def need(key: str, *places: dict) -> object:
            for place in places or (raw,):
                if place.get(key) is not None:
                    return place[key]
            raise ModelError(f"{name}: missing key {key}")

        architectures = raw.get("architectures") or []
        if architectures != [ARCHITECTURE]:
            raise ModelError(f"{name}: architectures is {architectures}, expected ['{ARCHITECTURE}']")
        if raw.get("hidden_act", "silu") != "silu":
            raise ModelError(f"{name}: hidden_act {raw['hidden_act']!r} is not supported, only silu")
        rope = raw.get("rope_parameters") or raw.get("rope_scaling") or {}
        kind = rope.get("rope_type", rope.get("type", "default"))
        if kind != "default":
            raise ModelError(f"{name}: rotary embedding of type {kind!r} is not supported, only default")
        layers = int(need("num_hidden_layers"))
        layer_types = tuple(raw.get("layer_types") or ["full_attention"] * layers)
        unknown = set(layer_types) - {"full_attention", "sliding_attention"}
        if unknown:
            raise ModelError(
                f"{name}: layer_types has {sorted(unknown)}, known are full_attention and sliding_attention"
            )
        if len(layer_types) != layers:
            raise ModelError(f"{name}: layer_types has {len(layer_types)} entries for {layers} layers")
        window = raw.get("sliding_window")
        if "sliding_attention" in layer_types and window is None:
            raise ModelError(f"{name}: sliding_attention layers need the key sliding_window")
        heads = int(need("num_attention_heads"))
        hidden = int(need("hidden_size"))
        block_size = int(need("block_size", special, raw))
        if block_size < 2:
            raise ModelError(f"{name}: block_size {block_size} leaves nothing to draft, it must be at least 2")
        return cls(
            hidden_size=hidden,
            intermediate_size=int(need("intermediate_size")),
            num_layers=layers,
            num_heads=heads,
            num_kv_heads=int(raw.get("num_key_value_heads") or heads),
            head_dim=int(raw.get("head_dim") or hidden // heads),
            rms_norm_eps=float(raw.get("rms_norm_eps", 1e-6)),
            rope_theta=float(need("rope_theta", rope, raw)),
            attention_bias=bool(raw.get("attention_bias", False)),
            layer_types=layer_types,
            sliding_window=None if window is None else int(window),
            is_causal=raw.get("is_causal"),
            block_size=block_size,
            mask_token_id=int(need("mask_token_id", special, raw)),
            target_layer_ids=tuple(int(layer) for layer in need("target_layer_ids", special, raw)),
            num_target_layers=_optional_int(special.get("num_target_layers", raw.get("num_target_layers"))),
            vocab_size=_optional_int(raw.get("vocab_size")),
        )

    def causal(self, layer: int) -> bool:
        """Whether block rows see only earlier block rows: sliding layers do unless `is_causal` says otherwise."""
        return self.layer_types[layer] == "sliding_attention" if self.is_causal is None else bool(self.is_causal)

    def window(self, layer: int) -> int | None:
        """Largest distance of positions, the own one included, that a row sees; None for all."""
        return self.sliding_window if self.layer_types[layer] == "sliding_attention" else None


class RMSNorm(nn.Module):
    """Root-mean-square norm over the last axis, computed in float32 as Qwen3 does."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        return self.weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)).to(x.dtype)


class Attention(nn.Module):
    """Grouped-query attention with per-head norms and rotary positions."""

    def __init__(self, config: DrafterConfig) -> None:
        super().__init__()
        hidden, dim, bias = config.hidden_size, config.head_dim, config.attention_bias
        self.q_proj = nn.Linear(hidden, config.num_heads * dim, bias=bias)
        self.k_proj = nn.Linear(hidden, config.num_kv_heads * dim, bias=bias)
        self.v_proj = nn.Linear(hidden, config.num_kv_heads * dim, bias=bias)
        self.o_proj = nn.Linear(config.num_heads * dim, hidden, bias=bias)
        self.q_norm = RMSNorm(dim, config.rms_norm_eps)
        self.k_norm = RMSNorm(dim, config.rms_norm_eps)
        self.head_dim = dim
        self.rope_theta = config.rope_theta

    def key_value(self, x: torch.Tensor, positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys (with positions) and values `[b, kv_heads, n, head_dim]` of rows `[b, n, hidden]`."""
        batch, rows, dummy = x.shape
        keys = self.k_norm(self.k_proj(x).view(batch, rows, -1, self.head_dim)).transpose(1, 2)
        values = self.v_proj(x).view(batch, rows, -1, self.head_dim).transpose(1, 2)
        return rotate(keys, positions, self.rope_theta), values

    def forward(
        self, x: torch.Tensor, positions: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, mask: torch.Tensor
    ) -> torch.Tensor:
        """Attend from `x` `[b, n, hidden]` to `[b, kv_heads, m, head_dim]` under `mask` bool `[b, n, m]`."""
        batch, rows, dummy = x.shape
        queries = self.q_norm(self.q_proj(x).view(batch, rows, -1, self.head_dim)).transpose(1, 2)
        queries = rotate(queries, positions, self.rope_theta)
        groups = queries.shape[1] // keys.shape[1]
        out = F.scaled_dot_product_attention(
            queries,
            keys.repeat_interleave(groups, dim=1),
            values.repeat_interleave(groups, dim=1),
            attn_mask=mask[:, None],
        )
        return self.o_proj(out.transpose(1, 2).reshape(batch, rows, -1))


class MLP(nn.Module):
    """SwiGLU."""

    def __init__(self, config: DrafterConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    """Pre-norm decoder layer; the names are those of the checkpoint."""

    def __init__(self, config: DrafterConfig) -> None:
        super().__init__()
        self.self_attn = Attention(config)
        self.mlp = MLP(config)
        self.input_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)


class Drafter(nn.Module):
    """The DFlash draft model; see the module's docstring."""

    def __init__(self, config: DrafterConfig) -> None:
        super().__init__()
        self.config = config
        features = len(config.target_layer_ids) * config.hidden_size
        self.fc = nn.Linear(features, config.hidden_size, bias=False)
        self.hidden_norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.layers = nn.ModuleList(Layer(config) for dummy in range(config.num_layers))
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)

    @classmethod
    def load(cls, path: str | Path, dtype: str = "float32", device: str = "cpu") -> Drafter:
        """Read a checkpoint directory. A missing, unknown or misshapen weight is a `ModelError` that names it."""
        config = DrafterConfig.read(path)
        with torch.device("meta"):
            drafter = cls(config)
        expected = drafter.state_dict()
        weights: dict[str, torch.Tensor] = {}
        files = sorted(Path(path).glob("*.safetensors"))
        if not files:
            raise ModelError(f"{path} has no .safetensors file")
        for file in files:
            try:
                with safe_open(file, framework="pt") as stored:
                    for key in stored.keys():  # noqa: SIM118 - not a dict
                        weights[key.removeprefix("model.")] = stored.get_tensor(key).to(DTYPES[dtype])
            except (OSError, SafetensorError) as error:
                raise ModelError(f"{file} is not a readable safetensors file: {error}") from error
        missing, unknown = sorted(expected.keys() - weights.keys()), sorted(weights.keys() - expected.keys())
        if missing:
            raise ModelError(f"{path} lacks the weights {', '.join(missing[:5])}{' ...' if missing[5:] else ''}")
        if unknown:
            raise ModelError(f"{path} has unknown weights {', '.join(unknown[:5])}{' ...' if unknown[5:] else ''}")
        for key, weight in weights.items():
            if weight.shape != expected[key].shape:
                raise ModelError(
                    f"{path}: weight {key} has shape {list(weight.shape)}, config.json means {list(expected[key].shape)}"
                )
        drafter.load_state_dict(weights, assign=True)
        return drafter.to(device).eval().requires_grad_(False)

    def new_cache(self, batch: int) -> RaggedKV:
        return RaggedKV.empty(self.config.num_layers, batch, self.fc.weight.device)

    def context_key_value(
        self, features: torch.Tensor, positions: torch.Tensor
    ) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Keys and values of committed tokens in each layer, from the target's features `[b, n, ids * hidden]`."""
        context = self.hidden_norm(self.fc(features))
        return [layer.self_attn.key_value(context, positions) for layer in self.layers]

    def observe(self, cache: RaggedKV, features: torch.Tensor, positions: torch.Tensor, counts: torch.Tensor) -> None:
        """Add the features of newly committed tokens to the context; row `r` has `counts[r]` of them, in front."""
        for index, (keys, values) in enumerate(self.context_key_value(features, positions)):
            cache.append(index, keys, values)
        order = torch.arange(features.shape[1], device=features.device).expand(features.shape[0], -1)
        cache.commit(order, counts)

    def block_mask(self, layer: int, block: torch.Tensor, context: torch.Tensor, known: torch.Tensor) -> torch.Tensor:
        """What the rows of a block see in one layer, bool `[b, L, m + L]`.

        `block` int64 `[b, L]` and `context` int64 `[b, m]`: positions; `known` bool `[b, m]`: committed columns.
        """
        inside = torch.ones(block.shape[1], block.shape[1], dtype=torch.bool, device=block.device)
        inside = inside.tril() if self.config.causal(layer) else inside
        mask = torch.cat([known[:, None, :].expand(-1, block.shape[1], -1), inside.expand(len(block), -1, -1)], dim=2)
        window = self.config.window(layer)
        if window is not None:
            distance = block[:, :, None] - torch.cat([context, block], dim=1)[:, None, :]
            mask = mask & (distance.abs() < window)
        return mask

    def forward(self, cache: RaggedKV, embedded: torch.Tensor) -> torch.Tensor:
        """Hidden states `[b, L, hidden]` of one block of each request, ready for the target's head.

        `embedded` `[b, L, hidden]`: the target's embedding of `[root, MASK x (L - 1)]`. The cache is not changed.
        """
        rows = embedded.shape[1]
        positions = cache.lengths[:, None] + torch.arange(rows, device=embedded.device)
        context = torch.arange(cache.front, device=embedded.device).expand(len(positions), -1)
        known = cache.prefix_mask()
        hidden = embedded
        for index, layer in enumerate(self.layers):
            normed = layer.input_layernorm(hidden)
            keys, values = cache.append(index, *layer.self_attn.key_value(normed, positions))
            mask = self.block_mask(index, positions, context, known)
            hidden = hidden + layer.self_attn(normed, positions, keys, values, mask)
            hidden = hidden + layer.mlp(layer.post_attention_layernorm(hidden))
        return self.norm(hidden)


def rotate(x: torch.Tensor, positions: torch.Tensor, theta: float) -> torch.Tensor:
    """Rotary position embedding, half-split layout, in float32: `x` `[b, heads, n, dim]`, `positions` `[b, n]`."""
    dim = x.shape[-1]
    inverse = 1.0 / (theta ** (torch.arange(0, dim, 2, device=x.device).float() / dim))
    angles = (positions[..., None].float() * inverse)[:, None]
    cos, sin = torch.cat([angles.cos()] * 2, dim=-1), torch.cat([angles.sin()] * 2, dim=-1)
    left, right = x.float().chunk(2, dim=-1)
    return (x.float() * cos + torch.cat([-right, left], dim=-1) * sin).to(x.dtype)


def check_pair(config: DrafterConfig, target_hidden: int, target_layers: int, target_vocab: int) -> None:
    """Raise `ModelError` if this drafter was not made for a target of this shape."""
    if config.hidden_size != target_hidden:
        raise ModelError(f"drafter and target are not a pair: hidden size {config.hidden_size} against {target_hidden}")
    if config.num_target_layers is not None and config.num_target_layers != target_layers:
        raise ModelError(
            f"drafter and target are not a pair: made for {config.num_target_layers} target layers, found {target_layers}"
        )
    if max(config.target_layer_ids) >= target_layers or min(config.target_layer_ids) < 0:
        raise ModelError(
            f"drafter and target are not a pair: it reads target layers {list(config.target_layer_ids)} of {target_layers}"
        )
    if config.vocab_size is not None and config.vocab_size != target_vocab:
        raise ModelError(f"drafter and target are not a pair: vocabulary {config.vocab_size} against {target_vocab}")
    if config.mask_token_id >= target_vocab:
        raise ModelError(
            f"drafter's mask token {config.mask_token_id} is outside the target's vocabulary {target_vocab}"
        )


def _optional_int(value: object) -> int | None:
    return None if value is None else int(value)
