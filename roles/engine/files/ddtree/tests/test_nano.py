# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""The pair that ships: small enough, whole, lossless, and with a drafter whose trees beat its chains."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from ddtree.drafter import Drafter
from ddtree.generate import Generator, generate
from ddtree.sampling import SamplingParams
from ddtree.target import Target
from transformers import AutoTokenizer

NANO = Path(__file__).resolve().parents[2] / "nano-pair"
HELD_OUT = json.loads(Path(__file__).with_name("data").joinpath("nano_prompts.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def pair() -> tuple[Target, Drafter]:
    return Target.load(NANO / "target"), Drafter.load(NANO / "drafter")


@pytest.fixture(scope="module")
def tokenizer():
    return AutoTokenizer.from_pretrained(NANO / "target", local_files_only=True)


def test_size() -> None:
    assert sum(file.stat().st_size for file in NANO.rglob("*") if file.is_file()) <= 8_000_000


def test_every_text_survives_the_tokenizer(tokenizer) -> None:
    for text in ("def f(x):\n\treturn x  # é € 😀\r\n", "\x00\x7f", "日本語", "  spaces  "):
        assert tokenizer.decode(tokenizer(text).input_ids) == text
    assert tokenizer.convert_tokens_to_ids("<|MASK|>") == 3
    chat = tokenizer.apply_chat_template(
        [{"role": "user", "content": "hi"}], tokenize=False, add_generation_prompt=True
    )
    assert chat == "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"


def test_greedy_equals_transformers(pair, tokenizer) -> None:
    target, drafter = pair
    for prompts in HELD_OUT.values():
        asked = [tokenizer(prompt).input_ids for prompt in prompts[:2]]
        wanted = []
        for ids in asked:
            out = target.model.generate(
                torch.tensor([ids]), max_new_tokens=48, do_sample=False, eos_token_id=None, pad_token_id=0
            )
            wanted.append(out[0, len(ids) :].tolist())
        for algorithm in ("none", "dflash", "ddtree"):
            done = generate(Generator(target, drafter, algorithm), asked, SamplingParams(max_new_tokens=48))
            assert [sequence.output for sequence in done] == wanted, algorithm


def test_trees_accept_more_than_chains(pair, tokenizer) -> None:
    """On prompts that training has not seen, over all kinds of text: at least 1.15 times at a budget of 16."""
    asked = [tokenizer(prompt).input_ids for prompts in HELD_OUT.values() for prompt in prompts[:6]]
    lengths = {}
    for algorithm in ("dflash", "ddtree"):
        done = generate(Generator(*pair, algorithm, 16), asked, SamplingParams(max_new_tokens=64))
        lengths[algorithm] = sum(sum(s.rounds) for s in done) / sum(len(s.rounds) for s in done)
    assert lengths["dflash"] > 1.3, lengths
    assert lengths["ddtree"] >= 1.15 * lengths["dflash"], lengths


def test_it_can_do_sums(pair, tokenizer) -> None:
    """A smoke test of the whole chain from tokenizer to weights: an answer of the form it was taught, and its end token."""
    target, drafter = pair
    question = [{"role": "user", "content": "A box holds 5 pens. Ana has 4 boxes. How many pens are there in total?"}]
    prompt = tokenizer.apply_chat_template(question, tokenize=False, add_generation_prompt=True)
    params = SamplingParams(max_new_tokens=80, stop_token_ids=target.eos)
    done = generate(Generator(target, drafter, "ddtree"), [tokenizer(prompt).input_ids], params)[0]
    assert done.finish_reason == "stop"
    text = tokenizer.decode(done.output, skip_special_tokens=True)
    assert text.startswith("Each box holds 5 pens") and "The answer is" in text
