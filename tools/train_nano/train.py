# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Train the nano pair: a Qwen3 target and its DFlash drafter, small enough to ship in the collection.

    python tools/train_nano/train.py --out DIR            # five minutes on one data-centre GPU
    python tools/train_nano/train.py --out DIR --smoke    # a minute on a CPU: a valid pair that writes noise

Writes DIR/target (config, weights, tokenizer with chat template), DIR/drafter, and DIR/held_out.json, the prompts that acceptance
is measured on. Needs torch, transformers, tokenizers, safetensors, and no network.

The target learns next tokens of `corpus.py`. The drafter learns on the target's own continuations, as the DFlash paper
trains (Eq. 4): per text many anchors `a`; a block `[token[a], MASK x D]` at `a .. a + D` sees the target's features of the tokens
before `a` and itself; row `k` is taught token `a + k`, weighted by exp(-(k - 1) / 7). Target, embedding and head stay frozen.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import nn
from transformers import DynamicCache, GenerationConfig, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "roles/engine/files/ddtree/src")]

import corpus  # noqa: E402
from ddtree.drafter import Drafter, DrafterConfig  # noqa: E402
from ddtree.generate import Generator, SamplingParams, generate  # noqa: E402
from ddtree.target import Target  # noqa: E402

BLOCK = 16
DECAY = 7.0
TEXT = 512  # tokens of a training text
PROMPT_TOKENS = 64
MASK_ID = corpus.SPECIAL_TOKENS.index(corpus.MASK)
END_ID = corpus.SPECIAL_TOKENS.index(corpus.END)
END_TURN_ID = corpus.SPECIAL_TOKENS.index(corpus.END_TURN)

FULL = {
    "vocab_size": 2048,
    "hidden_size": 192,
    "intermediate_size": 448,
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
}
SMOKE = {**FULL, "vocab_size": 512, "hidden_size": 64, "intermediate_size": 128}
FEATURE_LAYERS = [1, 3, 4]
DRAFTER_LAYERS = 2


def log(text: str) -> None:
    print(text, flush=True)


def train_tokenizer(documents: list[str], vocabulary: int) -> PreTrainedTokenizerFast:
    """Byte-level BPE: every text has a tokenisation, and ids of the special tokens are 0 to 3."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    bpe.train_from_iterator(
        documents,
        trainers.BpeTrainer(
            vocab_size=vocabulary,
            special_tokens=corpus.SPECIAL_TOKENS,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        eos_token=corpus.END_TURN,
        pad_token=corpus.END,
        mask_token=corpus.MASK,
        model_max_length=4096,
        clean_up_tokenization_spaces=False,
        chat_template=corpus.CHAT_TEMPLATE,
    )


class Texts:
    """The tokenised corpus as one long line of tokens, and where its documents begin."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast, documents: list[str], device: str) -> None:
        encoded = tokenizer.backend_tokenizer.encode_batch(documents)
        self.tokens = torch.tensor([token for item in encoded for token in [*item.ids, END_ID]], device=device)
        lengths = torch.tensor([len(item.ids) + 1 for item in encoded], device=device)
        starts = lengths.cumsum(0) - lengths
        self.starts = starts[starts < len(self.tokens) - TEXT - 1]

    def sample(self, count: int, length: int, at_starts: bool = False) -> torch.Tensor:
        """`[count, length]` token windows, from anywhere or from where documents begin."""
        device = self.tokens.device
        if at_starts:
            first = self.starts[torch.randint(len(self.starts), (count,), device=device)]
        else:
            first = torch.randint(len(self.tokens) - length, (count,), device=device)
        return self.tokens[first[:, None] + torch.arange(length, device=device)]


def optimise(
    parameters: Iterator[nn.Parameter], peak: float, decay: float, seconds: float, steps: int | None, loss: Callable
) -> None:
    """AdamW with a warm-up and a linear decay to nothing by the clock. `loss()` returns a scalar and a remark."""
    kept = list(parameters)
    optimiser = torch.optim.AdamW(kept, lr=peak, betas=(0.9, 0.95), weight_decay=decay)
    started, step = time.monotonic(), 0
    while True:
        done = (time.monotonic() - started) / seconds
        if done >= 1 or step == steps:
            return
        for group in optimiser.param_groups:
            group["lr"] = peak * min(1.0, (step + 1) / 100) * max(1 - done, 0.02)
        value, remark = loss()
        value.backward()
        nn.utils.clip_grad_norm_(kept, 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        step += 1
        if step % 200 == 0 or step == steps:
            log(f"  step {step}, {done:.0%} of the time, loss {value.item():.3f} {remark()}")


def train_target(model: Qwen3ForCausalLM, texts: Texts, batch: int, seconds: float, steps: int | None) -> None:
    device = texts.tokens.device.type
    forward = torch.compile(model) if device == "cuda" else model

    def loss() -> tuple[torch.Tensor, Callable[[], str]]:
        window = texts.sample(batch, TEXT + 1)
        with torch.autocast(device, dtype=torch.bfloat16):
            logits = forward(input_ids=window[:, :-1], use_cache=False).logits
            value = F.cross_entropy(logits.flatten(0, 1).float(), window[:, 1:].flatten())
        return value, lambda: ""

    loss()[0].backward()  # compile before the clock starts
    model.zero_grad(set_to_none=True)
    optimise(model.parameters(), 4e-3, 0.05, seconds, steps, loss)


@torch.inference_mode()
def continuations(model: Qwen3ForCausalLM, texts: Texts, batch: int, length: int) -> torch.Tensor:
    """The target's own texts: 32 tokens of the corpus continued, half of them from where a document begins.

    One text in two is greedy, the others are sampled at two temperatures: served requests are of all kinds.
    """
    device = texts.tokens.device
    temperatures = torch.tensor([0.0, 0.7, 0.0, 1.0], device=device).repeat_interleave(batch // 4)[:, None]
    prompts = [texts.sample(batch // 2, 32), texts.sample(batch // 2, 32, at_starts=True)]
    text = torch.stack(prompts, dim=1).flatten(0, 1)  # alternating, so that each temperature gets both
    cache, feed = DynamicCache(config=model.config), text
    while text.shape[1] < length:
        logits = model(input_ids=feed, past_key_values=cache, use_cache=True, logits_to_keep=1).logits[:, -1].float()
        sampled = torch.multinomial((logits / temperatures.clamp_min(0.1)).softmax(-1), 1)
        feed = torch.where(temperatures > 0, sampled, logits.argmax(-1, keepdim=True))
        text = torch.cat([text, feed], dim=1)
    return text


def draft_blocks(
    drafter: Drafter, features: torch.Tensor, anchors: torch.Tensor, embedded: torch.Tensor
) -> torch.Tensor:
    """Hidden states `[b, A, L, hidden]` of `A` blocks per text in one pass, no block seeing another.

    `features` `[b, T, ids * hidden]` of the whole texts; `anchors` int64 `[b, A]`: position of each block's first row, which
    sees the features before it; `embedded` `[b, A, L, hidden]`.
    """
    batch, count, rows, width = embedded.shape
    length = features.shape[1]
    device = features.device
    block_positions = (anchors[:, :, None] + torch.arange(rows, device=device)).view(batch, -1)
    text_positions = torch.arange(length, device=device).expand(batch, -1)
    before = text_positions[:, None, :] < anchors.repeat_interleave(rows, dim=1)[:, :, None]
    block = torch.arange(count, device=device).repeat_interleave(rows)
    same = (block[:, None] == block[None, :]).expand(batch, -1, -1)
    mask = torch.cat([before, same], dim=2)
    context = drafter.context_key_value(features, text_positions)
    hidden = embedded.reshape(batch, -1, width)
    for layer, (keys, values) in zip(drafter.layers, context):
        normed = layer.input_layernorm(hidden)
        own_keys, own_values = layer.self_attn.key_value(normed, block_positions)
        keys, values = torch.cat([keys, own_keys], dim=2), torch.cat([values, own_values], dim=2)
        hidden = hidden + layer.self_attn(normed, block_positions, keys, values, mask)
        hidden = hidden + layer.mlp(layer.post_attention_layernorm(hidden))
    return drafter.norm(hidden).view(batch, count, rows, width)


def train_drafter(
    drafter: Drafter, model: Qwen3ForCausalLM, texts: torch.Tensor, batch: int, seconds: float, steps: int | None
) -> None:
    device = texts.device
    weights = torch.exp(-torch.arange(BLOCK - 1, device=device) / DECAY)
    anchors_per_text = 16
    forward = torch.compile(draft_blocks) if device.type == "cuda" else draft_blocks
    embedding = model.get_input_embeddings().weight

    def loss() -> tuple[torch.Tensor, Callable[[], str]]:
        text = texts[torch.randint(len(texts), (batch,), device=device)]
        with torch.no_grad():
            states = model(input_ids=text, output_hidden_states=True, use_cache=False, logits_to_keep=1).hidden_states
            features = torch.cat([states[layer + 1] for layer in FEATURE_LAYERS], dim=-1)
        anchors = torch.randint(8, text.shape[1] - BLOCK, (batch, anchors_per_text), device=device)
        places = anchors[:, :, None] + torch.arange(BLOCK, device=device)
        tokens = text.gather(1, places.flatten(1)).view_as(places)
        labels = tokens[:, :, 1:]
        given = tokens.clone()
        given[:, :, 1:] = MASK_ID
        with torch.autocast(device.type, dtype=torch.bfloat16):
            hidden = forward(drafter, features, anchors, F.embedding(given, embedding))
            logits = F.linear(hidden[:, :, 1:], embedding)
            each = F.cross_entropy(logits.flatten(0, 2).float(), labels.flatten(), reduction="none").view_as(labels)
            value = (each * weights).mean() / weights.mean()
        hits = (logits.argmax(-1) == labels).int()
        return value, lambda: f"accepted by a chain {1 + hits.cumprod(-1).sum(-1).float().mean().item():.2f}"

    loss()[0].backward()
    drafter.zero_grad(set_to_none=True)
    optimise(drafter.parameters(), 2e-3, 0.0, seconds, steps, loss)


def save(out: Path, model: Qwen3ForCausalLM, drafter: Drafter, tokenizer: PreTrainedTokenizerFast) -> None:
    """Both checkpoints in bfloat16, in the layouts that transformers, SGLang and `ddtree` read."""
    model.generation_config = GenerationConfig(
        bos_token_id=END_ID, eos_token_id=[END_TURN_ID, END_ID], pad_token_id=END_ID
    )
    model.save_pretrained(out / "target")
    tokenizer.save_pretrained(out / "target", save_jinja_files=False)
    (out / "drafter").mkdir(parents=True, exist_ok=True)
    weights = {
        name: weight.detach().to(torch.bfloat16).cpu().contiguous() for name, weight in drafter.state_dict().items()
    }
    save_file(weights, out / "drafter/model.safetensors", metadata={"format": "pt"})


def drafter_config(shape: dict) -> dict:
    return {
        "architectures": ["DFlashDraftModel"],
        "model_type": "qwen3",
        "dtype": "bfloat16",
        "block_size": BLOCK,
        "num_target_layers": shape["num_hidden_layers"],
        "dflash_config": {"mask_token_id": MASK_ID, "mask_token": corpus.MASK, "target_layer_ids": FEATURE_LAYERS},
        **shape,
        "num_hidden_layers": DRAFTER_LAYERS,
        "layer_types": ["full_attention"] * DRAFTER_LAYERS,
        "hidden_act": "silu",
        "max_position_embeddings": 4096,
        "rope_theta": 10000.0,
        "rms_norm_eps": 1e-6,
        "attention_bias": False,
        "bos_token_id": END_ID,
        "eos_token_id": END_TURN_ID,
        "pad_token_id": END_ID,
    }


def measure(
    out: Path, held_out: dict[str, list[str]], tokenizer: PreTrainedTokenizerFast, device: str, new: int
) -> None:
    """Acceptance of chain and tree on the held-out prompts, float32 and greedy, as the tests do it."""
    target, drafter = Target.load(out / "target", device=device), Drafter.load(out / "drafter", device=device)
    totals: dict[str, list[int]] = {"dflash": [0, 0], "ddtree": [0, 0]}
    for kind, prompts in held_out.items():
        ids = [tokenizer(prompt).input_ids for prompt in prompts]
        line = f"  {kind}:"
        for algorithm in totals:
            done = generate(Generator(target, drafter, algorithm, 16), ids, SamplingParams(max_new_tokens=new))
            tokens, rounds = sum(sum(item.rounds) for item in done), sum(len(item.rounds) for item in done)
            totals[algorithm][0] += tokens
            totals[algorithm][1] += rounds
            line += f" {algorithm} {tokens / rounds:.2f}"
        log(line)
    chain, tree = (tokens / rounds for tokens, rounds in totals.values())
    log(f"  all: chain {chain:.2f}, tree of 16 {tree:.2f}, ratio {tree / chain:.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="directory to write; created")
    parser.add_argument("--smoke", action="store_true", help="tiny and short, to see that everything runs")
    parser.add_argument("--target-seconds", type=float, default=35)
    parser.add_argument("--text-rounds", type=int, default=2, help="batches of continuations to train the drafter on")
    parser.add_argument("--drafter-seconds", type=float, default=80)
    parser.add_argument("--batch", type=int, default=128)
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    shape = SMOKE if options.smoke else FULL
    steps, batch = (3, 2) if options.smoke else (None, options.batch)
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")

    documents, held_out = corpus.build(limit=40 if options.smoke else None)
    tokenizer = train_tokenizer(documents, shape["vocab_size"])
    texts = Texts(tokenizer, documents, device)
    log(f"{len(documents)} documents, {len(texts.tokens) / 1e6:.1f} M tokens, vocabulary {len(tokenizer)}")
    prompts = {
        kind: [tokenizer.decode(tokenizer(text).input_ids[:PROMPT_TOKENS]) for text in texts_of_kind]
        for kind, texts_of_kind in held_out.items()
    }

    config = Qwen3Config(
        **shape,
        max_position_embeddings=4096,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        tie_word_embeddings=True,
        bos_token_id=END_ID,
        eos_token_id=END_TURN_ID,
        pad_token_id=END_ID,
        attn_implementation="sdpa",
    )
    model = Qwen3ForCausalLM(config).to(device)
    log(f"target: {sum(p.numel() for p in model.parameters()) / 1e6:.2f} M parameters")
    train_target(model, texts, batch, options.target_seconds, steps)
    model = model.to(torch.bfloat16).eval().requires_grad_(False)

    length, batch_of_texts = (TEXT, 8192) if device == "cuda" else (128, 8)
    made = []
    for dummy in range(1 if options.smoke else options.text_rounds):
        made.append(continuations(model, texts, batch_of_texts, length).clone())
        log(f"  {len(made) * batch_of_texts} continuations")
    # A quarter comes straight from the corpus, for texts that the target would not have begun itself.
    made.append(texts.sample(len(made) * batch_of_texts // 3, length))
    own = torch.cat(made)

    raw = drafter_config(shape)
    (options.out / "drafter").mkdir(parents=True, exist_ok=True)
    (options.out / "drafter/config.json").write_text(json.dumps(raw, indent=1) + "\n", encoding="utf-8")
    drafter = Drafter(DrafterConfig.parse(raw, "drafter")).to(device)
    log(f"drafter: {sum(p.numel() for p in drafter.parameters()) / 1e6:.2f} M parameters")
    train_drafter(drafter, model, own, max(batch // 2, 2), options.drafter_seconds, steps)

    save(options.out, model, drafter, tokenizer)
    (options.out / "held_out.json").write_text(json.dumps(prompts, indent=1) + "\n", encoding="utf-8")
    size = sum(file.stat().st_size for file in options.out.rglob("*") if file.is_file())
    log(f"{options.out}: {size / 1e6:.2f} MB; acceptance on held-out prompts:")
    kept = {kind: texts_of_kind[: 2 if options.smoke else 16] for kind, texts_of_kind in prompts.items()}
    measure(options.out, kept, tokenizer, device, 8 if options.smoke else 128)


if __name__ == "__main__":
    main()
