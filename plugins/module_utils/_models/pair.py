# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Are these a target and its DFlash drafter? Pure functions on what ``checkpoint.read`` returns.

A drafter has neither embeddings nor a head: it uses the target's. It reads the target's hidden states at a few layers, its
taps. Tap ``i`` is the output of layer ``i``, counted from 0, which is ``hidden_states[i + 1]`` in transformers (entry 0 is
the embedding) and "before layer i + 1" in SGLang; so the taps of a target of n layers lie in 0 .. n - 1.
"""

from __future__ import annotations

import typing as t

ARCHITECTURES = ("DFlashDraftModel",)
#: More layers than any drafter has; a larger number in a configuration is nonsense and must not cost memory.
MOST_LAYERS = 256
LAYER_TYPES = ("full_attention", "sliding_attention")
_DENSE = ("BF16", "F16", "F32")
_PUBLISHED = "Restore the published config.json of the drafter; do not edit it by hand"
_RIGHT_PAIR = "Use the drafter that was trained for exactly this target"


def finding(code: str, cause: str | None, message: str, remedy: str, severity: str = "error") -> dict[str, t.Any]:
    """One finding; ``error`` means that the pair must not be started."""
    return {"severity": severity, "code": code, "cause": cause, "message": message, "remedy": remedy}


def text_config(config: t.Mapping[str, t.Any] | None) -> dict[str, t.Any]:
    """The configuration of the language model, which is nested in models that also see or hear."""
    config = dict(config or {})
    inner = config.get("text_config")
    return {**{k: v for k, v in config.items() if k != "text_config"}, **inner} if isinstance(inner, dict) else config


def _whole(value: t.Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _listed(value: t.Any) -> list[t.Any]:
    """A list from a file that anyone may have edited; anything else counts as empty."""
    return value if isinstance(value, list) else []


def _mapped(value: t.Any) -> dict[str, t.Any]:
    return value if isinstance(value, dict) else {}


def files(checkpoint: t.Mapping[str, t.Any], role: str, require_weights: bool = True) -> list[dict[str, t.Any]]:
    """Findings about the files alone: is the directory there, and whole? ``role`` is ``target`` or ``draft``."""
    what = "drafter" if role == "draft" else "target"
    path = checkpoint["path"]
    stage = f"Stage the {what} again from its source"
    if not checkpoint["exists"]:
        return [
            finding("model_path_missing", "draft" if role == "draft" else "path", f"no {what} directory {path}", stage)
        ]
    found = [finding("checkpoint_incomplete", None, f"{what} {path}: {text}", stage) for text in checkpoint["problems"]]
    if checkpoint["config"] is None and not found:
        cause = "draft" if role == "draft" else "path"
        found.append(finding("model_path_missing", cause, f"{what} {path} has no config.json", stage))
    weights = checkpoint["weights"]
    found += [finding("checkpoint_incomplete", None, f"{what} {path}: {text}", stage) for text in weights["problems"]]
    if require_weights and not weights["files"] and not weights["problems"]:
        message = f"{what} {path} has no safetensors file"
        found.append(finding("checkpoint_incomplete", "no_weights", message, stage))
    return found


def describe_target(checkpoint: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """The target in the terms that a drafter has to fit."""
    outer = checkpoint["config"] or {}
    config = text_config(outer)
    return {
        "path": checkpoint["path"],
        "architecture": next(iter(_listed(outer.get("architectures"))), None),
        "model_type": outer.get("model_type"),
        "num_layers": config.get("num_hidden_layers"),
        "hidden_size": config.get("hidden_size"),
        "vocab_size": config.get("vocab_size"),
        "tie_word_embeddings": config.get("tie_word_embeddings"),
        "quantization": _quantization(checkpoint),
        "lm_head": lm_head(checkpoint),
        "weights": _weights_summary(checkpoint),
        "tokenizer": (checkpoint["tokenizer"] or {}).get("hash"),
    }


def drafter_settings(config: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """DFlash's own settings, wherever the published configurations keep them."""
    inner = _mapped(config.get("dflash_config"))
    return {
        "mask_token_id": inner.get("mask_token_id"),
        "mask_token": inner.get("mask_token"),
        "target_layer_ids": inner.get("target_layer_ids"),
        "block_sizes": [v for v in (config.get("block_size"), inner.get("block_size")) if v is not None],
        "num_target_layers": config.get("num_target_layers", inner.get("num_target_layers")),
    }


def describe_drafter(checkpoint: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """The drafter; ``taps`` are indices into the target's hidden_states, one above ``target_layer_ids``."""
    config = checkpoint["config"] or {}
    settings = drafter_settings(config)
    ids = settings["target_layer_ids"]
    kinds = _listed(config.get("layer_types"))
    return {
        "path": checkpoint["path"],
        "architecture": next(iter(_listed(config.get("architectures"))), None),
        "model_type": config.get("model_type"),
        "block_size": settings["block_sizes"][0] if settings["block_sizes"] else None,
        "mask_token_id": settings["mask_token_id"],
        "target_layer_ids": ids,
        "taps": [i + 1 for i in ids] if isinstance(ids, list) and all(_whole(i) for i in ids) else None,
        "num_target_layers": settings["num_target_layers"],
        "num_layers": config.get("num_hidden_layers"),
        "hidden_size": config.get("hidden_size"),
        "intermediate_size": config.get("intermediate_size"),
        "num_attention_heads": config.get("num_attention_heads"),
        "num_key_value_heads": config.get("num_key_value_heads"),
        "head_dim": config.get("head_dim"),
        "vocab_size": config.get("vocab_size"),
        "layer_types": {kind: kinds.count(kind) for kind in LAYER_TYPES if kind in kinds},
        "sliding_window": config.get("sliding_window") if "sliding_attention" in kinds else None,
        "quantization": _quantization(checkpoint),
        "weights": _weights_summary(checkpoint),
        "tokenizer": (checkpoint["tokenizer"] or {}).get("hash"),
    }


def _weights_summary(checkpoint: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    weights = checkpoint["weights"]
    dtypes = sorted({tensor["dtype"] for tensor in weights["tensors"].values()})
    return {
        "files": len(weights["files"]),
        "bytes": weights["bytes"],
        "tensors": len(weights["tensors"]),
        "dtypes": dtypes,
        "whole": bool(weights["files"]) and not weights["problems"],
    }


def _quantization(checkpoint: t.Mapping[str, t.Any]) -> str | None:
    """The name of the quantisation method, or None for a dense checkpoint."""
    outer = checkpoint["config"] or {}
    section = _mapped(outer.get("quantization_config") or text_config(outer).get("quantization_config"))
    own = _mapped(_mapped(checkpoint["quantization"]).get("quantization"))
    if section:
        return str(section.get("quant_method") or section.get("quant_algo") or "unnamed")
    return str(own.get("quant_algo") or "unnamed") if own else None


def lm_head(checkpoint: t.Mapping[str, t.Any]) -> str:
    """``dense``, ``quantised`` or ``unknown``: can a drafter use this target's head?

    The tensors decide where they are known; the configuration's list of excluded modules decides otherwise.
    """
    tensors = checkpoint["weights"]["tensors"]
    heads = {name: entry for name, entry in tensors.items() if "lm_head." in name}
    if not heads and text_config(checkpoint["config"]).get("tie_word_embeddings"):
        heads = {name: entry for name, entry in tensors.items() if "embed_tokens." in name}
    if heads:
        packed = any(not name.endswith((".weight", ".bias")) for name in heads)
        dense = all(entry["dtype"] in _DENSE for name, entry in heads.items() if name.endswith(".weight"))
        return "dense" if dense and not packed else "quantised"
    if _quantization(checkpoint) is None:
        return "dense"
    outer = checkpoint["config"] or {}
    section = _mapped(outer.get("quantization_config") or text_config(outer).get("quantization_config"))
    own = _mapped(_mapped(checkpoint["quantization"]).get("quantization"))
    excluded: list[t.Any] = []
    for source, key in ((section, "ignore"), (section, "modules_to_not_convert"), (own, "exclude_modules")):
        excluded += _listed(source.get(key))
    return "dense" if any("lm_head" in str(name) for name in excluded) else "unknown"


def drafter(checkpoint: t.Mapping[str, t.Any]) -> list[dict[str, t.Any]]:
    """Findings about the drafter alone."""
    config = checkpoint["config"]
    if config is None:
        return []
    path = checkpoint["path"]
    found = []

    def invalid(cause: str, message: str) -> None:
        found.append(finding("draft_config_invalid", cause, f"drafter {path}: {message}", _PUBLISHED))

    names = _listed(config.get("architectures"))
    if not any(name in ARCHITECTURES for name in names):
        shown = ", ".join(str(name) for name in names) or "none"
        message = (
            f"drafter {path}: architecture {shown} is no DFlash drafter that the engines know ({ARCHITECTURES[0]})"
        )
        found.append(
            finding("draft_arch_unsupported", None, message, "Use a published DFlash drafter, or a newer engine")
        )
    settings = drafter_settings(config)
    sizes = settings["block_sizes"]
    if not sizes:
        invalid("block_size", "block_size is missing")
    elif len(set(map(str, sizes))) > 1:
        invalid("block_size", f"block_size is given twice and differently: {sizes[0]} and {sizes[1]}")
    elif not _whole(sizes[0]) or not 2 <= sizes[0] <= 256:
        invalid("block_size", f"block_size is {sizes[0]!r}, expected 2 to 256")
    if not _whole(settings["mask_token_id"]):
        invalid("mask_token", "dflash_config.mask_token_id is missing or no whole number")
    ids = settings["target_layer_ids"]
    if ids is None:
        invalid(
            "target_layer_ids_missing", "dflash_config.target_layer_ids is missing; an engine would guess, mostly wrong"
        )
    elif not isinstance(ids, list) or not ids or not all(_whole(i) for i in ids):
        invalid("target_layer_ids", f"dflash_config.target_layer_ids is {ids!r}, expected a list of layer numbers")
    elif len(set(ids)) != len(ids):
        invalid("target_layer_ids", f"dflash_config.target_layer_ids {ids} names a layer twice")
    found += _layer_types(config, path)
    if found and any(item["code"] == "draft_arch_unsupported" for item in found):
        # Another architecture has other keys and tensors; complaining about each would hide the one cause.
        return [item for item in found if item["code"] == "draft_arch_unsupported"]
    found += _tensors(checkpoint)
    if _quantization(checkpoint) is not None:
        message = f"drafter {path} is quantised ({_quantization(checkpoint)}); it is small, and its acceptance suffers"
        found.append(finding("draft_config_invalid", "quantized", message, "Prefer the dense drafter", "warning"))
    return found


def _layer_types(config: t.Mapping[str, t.Any], path: str) -> list[dict[str, t.Any]]:
    kinds = config.get("layer_types")
    layers = config.get("num_hidden_layers")
    if not _whole(layers) or not 1 <= layers <= MOST_LAYERS:
        text = f"drafter {path}: num_hidden_layers is {layers!r}"
        return [finding("draft_config_invalid", "num_hidden_layers", text, _PUBLISHED)]
    if kinds is None:
        return []
    texts = []
    if not isinstance(kinds, list) or len(kinds) != layers:
        texts.append(f"layer_types does not describe {layers} layers")
    elif any(kind not in LAYER_TYPES for kind in kinds):
        odd = next(kind for kind in kinds if kind not in LAYER_TYPES)
        texts.append(f"layer_types has {odd!r}, expected {' or '.join(LAYER_TYPES)}")
    elif "sliding_attention" in kinds and not (_whole(config.get("sliding_window")) and config["sliding_window"] > 0):
        texts.append(f"layer_types has sliding layers and sliding_window is {config.get('sliding_window')!r}")
    return [finding("draft_config_invalid", "layer_types", f"drafter {path}: {text}", _PUBLISHED) for text in texts]


def expected_tensors(config: t.Mapping[str, t.Any]) -> dict[str, list[int]] | None:
    """Name to shape of every tensor of a drafter, without a "model." prefix; None when the configuration is too thin."""
    keys = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads")
    if (
        not all(_whole(config.get(key)) and config[key] > 0 for key in keys)
        or config["num_hidden_layers"] > MOST_LAYERS
    ):
        return None
    hidden, inner, layers, heads, kv_heads = (config[key] for key in keys)
    head = config.get("head_dim") if _whole(config.get("head_dim")) else hidden // heads
    ids = drafter_settings(config)["target_layer_ids"]
    result = {"norm.weight": [hidden], "hidden_norm.weight": [hidden]}
    if isinstance(ids, list) and ids:
        result["fc.weight"] = [hidden, len(ids) * hidden]
    for layer in range(layers):
        at = f"layers.{layer}."
        result.update(
            {
                at + "input_layernorm.weight": [hidden],
                at + "post_attention_layernorm.weight": [hidden],
                at + "self_attn.q_proj.weight": [heads * head, hidden],
                at + "self_attn.k_proj.weight": [kv_heads * head, hidden],
                at + "self_attn.v_proj.weight": [kv_heads * head, hidden],
                at + "self_attn.o_proj.weight": [hidden, heads * head],
                at + "self_attn.q_norm.weight": [head],
                at + "self_attn.k_norm.weight": [head],
                at + "mlp.gate_proj.weight": [inner, hidden],
                at + "mlp.up_proj.weight": [inner, hidden],
                at + "mlp.down_proj.weight": [hidden, inner],
            }
        )
        if config.get("attention_bias"):
            result[at + "self_attn.q_proj.bias"] = [heads * head]
            result[at + "self_attn.k_proj.bias"] = [kv_heads * head]
            result[at + "self_attn.v_proj.bias"] = [kv_heads * head]
            result[at + "self_attn.o_proj.bias"] = [hidden]
    return result


def _tensors(checkpoint: t.Mapping[str, t.Any]) -> list[dict[str, t.Any]]:
    """SGLang ignores tensors that it does not know, silently; so names and shapes are compared here."""
    weights = checkpoint["weights"]
    expected = expected_tensors(checkpoint["config"])
    if expected is None or not weights["tensors"] or weights["problems"] or _quantization(checkpoint) is not None:
        return []
    have = {name[6:] if name.startswith("model.") else name: entry for name, entry in weights["tensors"].items()}
    path = checkpoint["path"]
    found = []

    def wrong(cause: str, message: str) -> None:
        remedy = "Stage the drafter again: its weights and its config.json do not belong together"
        found.append(finding("draft_config_invalid", cause, f"drafter {path}: {message}", remedy))

    missing = [name for name in expected if name not in have]
    unknown = [name for name in have if name not in expected]
    if missing:
        wrong("weights", f"{len(missing)} tensors are missing, the first is {missing[0]}")
    if unknown:
        wrong("weights", f"{len(unknown)} tensors are unknown and would be ignored silently, the first is {unknown[0]}")
    for name, shape in expected.items():
        if name in have and have[name]["shape"] != shape:
            wrong("weights", f"{name} has shape {have[name]['shape']}, the configuration says {shape}")
            break
    return found


def pair(target: t.Mapping[str, t.Any], draft: t.Mapping[str, t.Any]) -> list[dict[str, t.Any]]:
    """Findings about the two together."""
    if target["config"] is None or draft["config"] is None:
        return []
    one, two = describe_target(target), describe_drafter(draft)
    found: list[dict[str, t.Any]] = []

    def mismatch(cause: str, message: str, remedy: str = _RIGHT_PAIR, severity: str = "error") -> None:
        found.append(finding("draft_target_mismatch", cause, message, remedy, severity))

    if one["hidden_size"] != two["hidden_size"]:
        text = f"the drafter's hidden size {two['hidden_size']} is not the target's {one['hidden_size']}"
        mismatch("hidden_size", f"{text}, whose embeddings and head it uses")
    layers = one["num_layers"]
    if two["num_target_layers"] is not None and two["num_target_layers"] != layers:
        text = f"the drafter was trained for a target of {two['num_target_layers']} layers, this one has {layers}"
        mismatch("target_layer_ids", text)
    ids = two["target_layer_ids"]
    if two["taps"] is not None and _whole(layers):
        outside = [i for i in ids if not 0 <= i < layers]
        if outside:
            mismatch("target_layer_ids", _outside(ids, outside[0], layers))
    vocabulary = one["vocab_size"]
    if _whole(two["mask_token_id"]) and _whole(vocabulary) and not 0 <= two["mask_token_id"] < vocabulary:
        text = f"mask token {two['mask_token_id']} is outside the target's vocabulary of {vocabulary}"
        found.append(finding("draft_config_invalid", "mask_token", text, _PUBLISHED))
    found += _mask_name(target, draft)
    if two["vocab_size"] is not None and two["vocab_size"] != vocabulary:
        text = f"the drafter's config names a vocabulary of {two['vocab_size']}, the target's is {vocabulary}"
        mismatch("vocab_size", text, "The target's is used; check that the drafter was made for it", "warning")
    if one["lm_head"] != "dense":
        quantised = one["lm_head"] == "quantised"
        text = f"the target's lm_head is {one['lm_head']} ({one['quantization']}), the drafter needs it dense"
        remedy = "Use a target that keeps lm_head in 16 bit, or an engine that supports quantised heads"
        mismatch("quantized_lm_head", text, remedy, "error" if quantised else "warning")
    found += _tokenizers(target, draft)
    return found


def _outside(ids: t.Sequence[int], first: int, layers: int) -> str:
    text = f"target_layer_ids {list(ids)}: {first} is outside the target's layers 0 to {layers - 1}"
    if first == layers:
        text += ". Layer i is counted from 0 and read as hidden_states[i + 1]; this list looks like counted from 1"
    return text


def _mask_name(target: t.Mapping[str, t.Any], draft: t.Mapping[str, t.Any]) -> list[dict[str, t.Any]]:
    settings = drafter_settings(draft["config"])
    vocabulary = (target["tokenizer"] or {}).get("vocabulary") or {}
    named = vocabulary.get(settings["mask_token"]) if settings["mask_token"] else None
    if named is None or named == settings["mask_token_id"]:
        return []
    text = f"mask token {settings['mask_token']} has id {named} in the target's tokenizer, the drafter's config says "
    return [finding("draft_config_invalid", "mask_token", text + str(settings["mask_token_id"]), _PUBLISHED)]


def _tokenizers(target: t.Mapping[str, t.Any], draft: t.Mapping[str, t.Any]) -> list[dict[str, t.Any]]:
    """A drafter need not bring a tokenizer; one that it brings must give the same ids as the target's."""
    one, two = target["tokenizer"], draft["tokenizer"]
    if not one or not two or one["hash"] == two["hash"]:
        return []
    # The mask token may have been added on the drafter's side only.
    mask = drafter_settings(draft["config"])["mask_token"]
    names = sorted((set(one["vocabulary"]) | set(two["vocabulary"])) - {mask})
    odd = [name for name in names if one["vocabulary"].get(name) != two["vocabulary"].get(name)]
    if odd:
        ids = f"{one['vocabulary'].get(odd[0])} in the target, {two['vocabulary'].get(odd[0])} in the drafter"
        text = f"the tokenizers differ in {len(odd)} tokens, the first is {odd[0]!r} ({ids})"
        return [finding("draft_target_mismatch", "tokenizer", text, _RIGHT_PAIR)]
    text = "the tokenizers have the same vocabulary and differ in merges, normaliser or pre-tokenizer"
    return [finding("draft_target_mismatch", "tokenizer", text, _RIGHT_PAIR, "warning")]


def check(
    target: t.Mapping[str, t.Any],
    draft: t.Mapping[str, t.Any] | None,
    require_weights: bool = True,
) -> list[dict[str, t.Any]]:
    """All findings about a target and, where given, its drafter; errors first."""
    found = files(target, "target", require_weights)
    if draft is not None:
        found += files(draft, "draft", require_weights) + drafter(draft) + pair(target, draft)
    return sorted(found, key=lambda item: item["severity"] != "error")
