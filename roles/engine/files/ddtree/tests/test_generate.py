# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""The loop: same tokens as transformers, same distribution as the target, and bookkeeping of a changing batch."""

from __future__ import annotations

import itertools
import json

import pytest
import tiny
import torch
from ddtree.generate import Generator, Sequence, generate
from ddtree.sampling import SamplingParams
from ddtree.target import ModelError, Target, refuse_unsupported
from ddtree.tree import build_tree, top_candidates

VOCABULARY = 11
SETTINGS = [
    ("none", {}),
    ("dflash", {}),
    ("dflash", {"block_size": 2}),
    ("ddtree", {"budget": 1}),
    ("ddtree", {"budget": 7, "block_size": 4}),
    ("ddtree", {"budget": 40}),
]
NAMES = ["-".join(map(str, [name, *options.values()])) for name, options in SETTINGS]


@pytest.fixture(scope="module")
def target() -> Target:
    return tiny.target(VOCABULARY)


@pytest.fixture(scope="module")
def drafter():
    return tiny.drafter(VOCABULARY)


def prompts(*lengths: int) -> list[list[int]]:
    generator = torch.Generator().manual_seed(3)
    return [torch.randint(0, VOCABULARY - 1, (length,), generator=generator).tolist() for length in lengths]


def reference(target: Target, prompt: list[int], new: int) -> list[int]:
    """transformers' own greedy generation of one prompt."""
    ids = torch.tensor([prompt])
    out = target.model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=new, do_sample=False)
    return out[0, len(prompt) :].tolist()


@pytest.mark.parametrize(("algorithm", "options"), SETTINGS, ids=NAMES)
def test_greedy_equals_transformers_on_a_ragged_batch(target, drafter, algorithm, options) -> None:
    asked = prompts(1, 9, 4, 23)
    done = generate(Generator(target, drafter, algorithm, **options), asked, SamplingParams(max_new_tokens=40))
    for sequence, prompt in zip(done, asked, strict=True):
        assert sequence.output == reference(target, prompt, 40)
        assert sum(sequence.rounds) == 39  # the first token comes from the prompt's pass
        assert sequence.finish_reason == "length"


def test_trees_accept_more_than_chains_and_chains_more_than_nothing(target, drafter) -> None:
    asked = prompts(5, 6, 7)
    rates = {}
    for algorithm, budget in (("none", 1), ("dflash", 1), ("ddtree", 5), ("ddtree", 40)):
        done = generate(Generator(target, drafter, algorithm, budget), asked, SamplingParams(max_new_tokens=60))
        rates[algorithm, budget] = sum(sum(s.rounds) for s in done) / sum(len(s.rounds) for s in done)
    assert rates["none", 1] == 1.0
    assert 1.0 < rates["dflash", 1] < rates["ddtree", 40]
    assert rates["ddtree", 5] < rates["ddtree", 40]


@pytest.mark.parametrize(("algorithm", "options"), SETTINGS[1:], ids=NAMES[1:])
def test_a_seed_gives_the_same_sample_under_every_algorithm(target, drafter, algorithm, options) -> None:
    asked = prompts(4, 12, 6)
    params = [
        SamplingParams(40, temperature=1.0, seed=11),
        SamplingParams(40, temperature=0.7, seed=12, top_k=5),
        SamplingParams(40, temperature=1.3, seed=13, top_p=0.8),
    ]
    plain = generate(Generator(target, None, "none"), asked, params)
    drafted = generate(Generator(target, drafter, algorithm, **options), asked, params)
    assert [s.output for s in drafted] == [s.output for s in plain]
    other = generate(Generator(target, None, "none"), asked[:1], SamplingParams(40, temperature=1.0, seed=99))
    assert other[0].output != plain[0].output


def exact_joint(target: Target, prompt: list[int], length: int, temperature: float) -> torch.Tensor:
    """Exact probabilities of all outputs of `length` tokens, as a tensor with one axis per token."""
    joint = torch.ones([VOCABULARY_SAMPLED] * length, dtype=torch.float64)
    for depth in range(length):
        for past in itertools.product(range(VOCABULARY_SAMPLED), repeat=depth):
            ids = torch.tensor([prompt + list(past)])
            probs = (target.model(ids).logits[0, -1].double() / temperature).softmax(-1)
            joint[past] *= probs.view(-1, *[1] * (length - depth - 1))
    return joint


VOCABULARY_SAMPLED = 5


def p_value(counts: torch.Tensor, probs: torch.Tensor) -> float:
    """Chi-square goodness of fit."""
    expected = probs.flatten() * counts.sum()
    assert expected.min() > 5, "too few samples for this test"
    statistic = ((counts.flatten() - expected) ** 2 / expected).sum()
    degrees = torch.tensor((len(expected) - 1) / 2, dtype=torch.float64)
    return float(torch.special.gammaincc(degrees, statistic / 2))


@pytest.mark.parametrize(("algorithm", "budget"), [("dflash", 1), ("ddtree", 3), ("ddtree", 9)])
def test_sampled_outputs_have_the_targets_distribution(algorithm: str, budget: int) -> None:
    """One- and two-token joints of tokens that verify rounds emit, and of the prompt's own token."""
    target = tiny.target(VOCABULARY_SAMPLED, seed=4, spread=1.0)
    drafter = tiny.drafter(VOCABULARY_SAMPLED, block_size=4)
    prompt, count = [1, 3, 0, 2], 6000
    params = [SamplingParams(3, temperature=0.9, seed=seed) for seed in range(count)]
    done = generate(Generator(target, drafter, algorithm, budget), [prompt] * count, params)
    assert max(max(sequence.rounds) for sequence in done) > 1, "no draft was accepted: nothing is tested"
    outputs = torch.tensor([sequence.output for sequence in done])
    joint = exact_joint(target, prompt, 3, 0.9)
    size = VOCABULARY_SAMPLED
    one = [outputs[:, place].bincount(minlength=size) for place in range(3)]
    for place in range(3):
        rest = [axis for axis in range(3) if axis != place]
        assert p_value(one[place], joint.sum(rest)) > 1e-3
    for first, dropped in ((0, 2), (1, 0)):
        pair = (outputs[:, first] * size + outputs[:, first + 1]).bincount(minlength=size * size)
        assert p_value(pair, joint.sum(dropped)) > 1e-3
        # The test can tell: the same counts do not fit a slightly colder target.
        assert p_value(pair, exact_joint(target, prompt, 3, 0.75).sum(dropped)) < 1e-6


def test_logits_of_a_tree_are_those_of_its_paths(target, drafter) -> None:
    """Each row sees its own path and nothing else: siblings can be changed without any effect."""
    prompt = prompts(9)[0]
    cache = target.new_cache(1)
    length = len(prompt)
    causal = torch.ones(1, length, length, dtype=torch.bool).tril()
    target.forward(torch.tensor([prompt]), torch.arange(length)[None], causal, cache)
    cache.commit(torch.arange(length)[None], torch.tensor([length]))
    torch.manual_seed(0)
    tree = build_tree(torch.tensor([3]), *top_candidates(torch.randn(1, 5, VOCABULARY), 8), 24)
    positions = tree.positions(cache.lengths)
    logits, dummy = target.forward(tree.tokens, positions, tree.mask(), cache)
    mask = tree.mask()[0]
    for row in range(25):
        path = tree.tokens[0, mask[row]].tolist()
        plain = target.model(torch.tensor([prompt + path])).logits[0, -1]
        torch.testing.assert_close(logits[0, row], plain, atol=1e-4, rtol=1e-4)
    changed = tree.tokens.clone()
    changed[0, 7] = (changed[0, 7] + 1) % VOCABULARY
    again, dummy = target.forward(changed, positions, tree.mask(), cache)
    unaffected = ~mask[:, 7]
    assert torch.equal(again[0, unaffected], logits[0, unaffected])
    assert not torch.equal(again[0, 7], logits[0, 7])


def test_caches_after_rounds_are_those_of_plain_passes(target, drafter) -> None:
    """Target and drafter keys of the committed tokens, after trees and compaction, against one pass over the text."""
    asked = prompts(5, 11)
    generator = Generator(target, drafter, "ddtree", 12)
    sequences = [Sequence(prompt, SamplingParams(max_new_tokens=200)) for prompt in asked]
    while not (prefill := generator.prefill(sequences)).step():
        pass
    del prefill
    while max(len(sequence.output) for sequence in sequences) < 60:
        generator.step()
    for row, sequence in enumerate(sequences):
        text = sequence.prompt + sequence.output[:-1]  # the last token is the next root
        length = len(text)
        assert generator._target_cache.lengths[row] == length
        fresh, own = target.new_cache(1), drafter.new_cache(1)
        causal = torch.ones(1, length, length, dtype=torch.bool).tril()
        line = torch.arange(length)[None]
        dummy, features = target.forward(torch.tensor([text]), line, causal, fresh, drafter.config.target_layer_ids)
        fresh.commit(line, torch.tensor([length]))
        drafter.observe(own, features, line, torch.tensor([length]))
        for kept, plain in ((generator._target_cache, fresh), (generator._drafter_cache, own)):
            for buffer, expected in zip((*kept._keys, *kept._values), (*plain._keys, *plain._values), strict=True):
                torch.testing.assert_close(buffer[row, :, :length], expected[0, :, :length], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("chunk", [1, 3, 7, 100])
def test_prompts_in_chunks(target, drafter, chunk: int) -> None:
    asked = prompts(7, 1, 20)
    generator = Generator(target, drafter, "ddtree", 8, prefill_chunk=chunk)
    for sequence, prompt in zip(generate(generator, asked, SamplingParams(max_new_tokens=25)), asked, strict=True):
        assert sequence.output == reference(target, prompt, 25)


def test_requests_join_and_leave_without_disturbing_others(target, drafter) -> None:
    asked = prompts(6, 15, 3, 9)
    generator = Generator(target, drafter, "ddtree", 8, prefill_chunk=4)
    sequences = [Sequence(prompt, SamplingParams(max_new_tokens=30 + 7 * n)) for n, prompt in enumerate(asked)]
    arriving, prefill, steps = list(sequences), None, 0
    while arriving or prefill or generator.running:
        if prefill is None and arriving and steps % 3 == 0:
            prefill = generator.prefill([arriving.pop(0)])
        if prefill is not None and prefill.step():
            prefill = None
        if generator.running:
            generator.step()
        if steps == 8:
            generator.drop([sequences[0]])
        steps += 1
    assert sequences[0].finish_reason is None
    for sequence in sequences:
        assert sequence.output == reference(target, sequence.prompt, len(sequence.output))
    assert [len(sequence.output) for sequence in sequences[1:]] == [37, 44, 51]


@pytest.mark.parametrize(("algorithm", "options"), SETTINGS, ids=NAMES)
def test_a_stop_token_inside_an_accepted_run_ends_the_output_there(target, drafter, algorithm, options) -> None:
    prompt = prompts(9)[0]
    free = reference(target, prompt, 40)
    stop = free[12]
    params = SamplingParams(max_new_tokens=40, stop_token_ids=frozenset([stop]))
    done = generate(Generator(target, drafter, algorithm, **options), [prompt], params)[0]
    assert done.output == free[: free.index(stop) + 1]
    assert done.finish_reason == "stop"


def test_one_token_needs_no_round(target, drafter) -> None:
    done = generate(Generator(target, drafter, "ddtree"), prompts(4), SamplingParams(max_new_tokens=1))[0]
    assert (len(done.output), done.rounds, done.acceptance_length) == (1, [], None)


def test_bfloat16_runs() -> None:
    target = Target(tiny.target(VOCABULARY).model.to(torch.bfloat16))
    drafter = tiny.drafter(VOCABULARY).to(torch.bfloat16)
    done = generate(Generator(target, drafter, "ddtree", 8), prompts(4, 7), SamplingParams(max_new_tokens=20))
    assert [len(sequence.output) for sequence in done] == [20, 20]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"algorithm": "medusa"}, "unknown algorithm 'medusa', known are none, dflash, ddtree"),
        ({"algorithm": "ddtree", "budget": 0}, "budget 0"),
        ({"algorithm": "dflash", "block_size": 7}, "block size 7 is not between 2 and 6"),
        ({"algorithm": "ddtree", "block_size": 1}, "block size 1 is not between"),
    ],
)
def test_settings_that_are_refused(target, drafter, options, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Generator(target, drafter, **options)


def test_a_drafter_is_needed_and_must_fit(target) -> None:
    with pytest.raises(ModelError, match="needs a drafter"):
        Generator(target, None, "dflash")
    with pytest.raises(ModelError, match="not a pair"):
        Generator(target, tiny.drafter(VOCABULARY + 1), "dflash")


def test_empty_prompts_and_outputs_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one token"):
        Sequence([], SamplingParams())
    with pytest.raises(ValueError, match="max_new_tokens"):
        Sequence([1], SamplingParams(max_new_tokens=0))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"layer_types": ["linear_attention", "full_attention"]}, "hybrid"),
        ({"text_config": {"full_attention_interval": 4}}, "hybrid"),
        ({"layer_types": ["sliding_attention", "full_attention"]}, "sliding-window"),
        ({"use_sliding_window": True, "sliding_window": 128}, "sliding-window"),
    ],
)
def test_targets_that_a_mask_cannot_serve(config: dict, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        refuse_unsupported(config, "m")
    refuse_unsupported({"layer_types": ["full_attention"], "use_sliding_window": False}, "m")


def test_loading_a_target(tmp_path) -> None:
    with pytest.raises(ModelError, match=r"no config\.json"):
        Target.load(tmp_path)
    model = tiny.target(VOCABULARY).model
    model.save_pretrained(tmp_path / "whole")
    loaded = Target.load(tmp_path / "whole")
    assert (loaded.vocab_size, loaded.hidden_size, loaded.num_layers) == (VOCABULARY, tiny.HIDDEN, tiny.LAYERS)
    assert loaded.dtype == torch.float32
    assert generate(Generator(loaded, None, "none"), prompts(4), SamplingParams(12))[0].output == reference(
        loaded, prompts(4)[0], 12
    )

    from safetensors.torch import load_file, save_file

    weights = load_file(tmp_path / "whole/model.safetensors")
    del weights["model.layers.2.mlp.up_proj.weight"]
    save_file(weights, tmp_path / "whole/model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"lacks weights: model\.layers\.2\.mlp\.up_proj\.weight"):
        Target.load(tmp_path / "whole")
    file = tmp_path / "whole/model.safetensors"
    file.write_bytes(file.read_bytes()[:-500])
    with pytest.raises(ModelError, match="cannot be loaded"):
        Target.load(tmp_path / "whole")
    (tmp_path / "whole/config.json").write_text(json.dumps({"model_type": "no-such-model"}), encoding="utf-8")
    with pytest.raises(ModelError, match="cannot be loaded"):
        Target.load(tmp_path / "whole")
