# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""Generation with a DFlash drafter and DDTree verification over a transformers target: the readable reference.

One loop serves three algorithms, which differ only in the tree that a round verifies:

* `none`: the root alone, one token a round: plain decoding.
* `dflash`: a chain of the drafter's best token per position, as plain DFlash drafts.
* `ddtree`: the best-first tree of `budget` nodes of `ddtree.tree`.

A round: draft a block -> build trees -> one target pass over all rows under the tree mask -> state a token per row -> walk
-> keep the cache rows of the accepted path -> show the drafter the features of that path. The last emitted token has no
cache row yet: it is the root of the next round. Requests advance by different amounts and join and leave between rounds.

Lossless: every emitted token is what the target states after the tokens before it, from a pass in which it saw exactly those
tokens (tree mask and depth positions). Greedy, in float32, the three algorithms and transformers' own `generate` give the
same tokens; passes of different shapes round differently, by about 1e-6 in a logit, which only matters at a near tie, and
in bfloat16 such near ties do happen. Sampled, see `ddtree.verify` and `ddtree.sampling`.

Source: DDTree paper, section 3 and its reference loop (liranringel/ddtree); acceptance is counted as there, bonus included.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import torch

from ddtree.cache import RaggedKV
from ddtree.drafter import Drafter, check_pair
from ddtree.options import ALGORITHMS
from ddtree.sampling import SamplingParams, UniformStream, choose
from ddtree.target import ModelError, Target
from ddtree.tree import DraftTree, build_tree, chain_tree, root_tree, top_candidates
from ddtree.verify import walk


@dataclass(eq=False)
class Sequence:
    """One request: its prompt, what has been generated, and how each verify round went.

    `rounds[i]` is the number of tokens that round `i` emitted; a round that a stop token or the length limit cut counts what
    remained. The first token of `output` comes from the prompt's pass, not from a round.
    """

    prompt: list[int]
    params: SamplingParams
    output: list[int] = field(default_factory=list)
    rounds: list[int] = field(default_factory=list)
    finish_reason: str | None = None
    uniforms: UniformStream = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not self.prompt:
            raise ValueError("a prompt must have at least one token")
        if self.params.max_new_tokens < 1:
            raise ValueError("max_new_tokens must be at least 1")
        self.uniforms = UniformStream(self.params.seed)

    def extend(self, tokens: list[int]) -> int:
        """Append emitted tokens up to the first stop condition; returns how many were taken."""
        for taken, token in enumerate(tokens, start=1):
            self.output.append(token)
            if token in self.params.stop_token_ids:
                self.finish_reason = "stop"
            elif len(self.output) == self.params.max_new_tokens:
                self.finish_reason = "length"
            if self.finish_reason:
                return taken
        return len(tokens)

    @property
    def acceptance_length(self) -> float | None:
        """Tokens emitted per verify round, bonus included; None before the first round."""
        return sum(self.rounds) / len(self.rounds) if self.rounds else None


@dataclass(frozen=True)
class Round:
    """What one verify round did: per request the tokens emitted and the nodes verified; seconds of building the trees."""

    sequences: list[Sequence]
    accepted: list[int]
    nodes: list[int]
    build_seconds: float


class Generator:
    """Target, drafter and the running batch. Not thread-safe: one thread calls it."""

    def __init__(
        self,
        target: Target,
        drafter: Drafter | None = None,
        algorithm: str = "ddtree",
        budget: int = 16,
        block_size: int | None = None,
        prefill_chunk: int = 512,
    ) -> None:
        """`budget`: nodes of a `ddtree` tree without its root. `block_size`: rows of a drafted block, at most (and by default)
        what the drafter was trained with. `prefill_chunk`: prompt tokens per target pass. `ModelError` for a drafter that
        is missing or does not fit the target, `ValueError` for numbers out of range."""
        if algorithm not in ALGORITHMS:
            raise ValueError(f"unknown algorithm {algorithm!r}, known are {', '.join(ALGORITHMS)}")
        self.target = target
        self.algorithm = algorithm
        self.prefill_chunk = prefill_chunk
        if algorithm == "none":
            self.drafter, self.feature_layers, self.block_size, self.budget = None, (), 1, 0
        else:
            if drafter is None:
                raise ModelError(f"algorithm {algorithm} needs a drafter")
            check_pair(drafter.config, target.hidden_size, target.num_layers, target.vocab_size)
            trained = drafter.config.block_size
            self.drafter, self.feature_layers = drafter, drafter.config.target_layer_ids
            self.block_size = trained if block_size is None else block_size
            self.budget = budget if algorithm == "ddtree" else self.block_size - 1
            if not 2 <= self.block_size <= trained:
                raise ValueError(f"block size {self.block_size} is not between 2 and {trained}, the drafter's own")
            if self.budget < 1:
                raise ValueError(f"budget {budget} must be at least 1")
        self.reset()

    def reset(self) -> None:
        """Forget every running request, whatever state a failed round left behind."""
        self.running: list[Sequence] = []
        self._target_cache = self.target.new_cache(0)
        self._drafter_cache = self.drafter.new_cache(0) if self.drafter else None

    def prefill(self, sequences: list[Sequence]) -> Prefill:
        """Begin with new requests; they join the running batch when the returned object has done its last step."""
        return Prefill(self, sequences)

    def drop(self, sequences: list[Sequence]) -> None:
        """Forget running requests and free their cache rows."""
        keep = [row for row, sequence in enumerate(self.running) if sequence not in sequences]
        if len(keep) == len(self.running):
            return
        self.running = [self.running[row] for row in keep]
        self._target_cache.select(keep)
        if self._drafter_cache is not None:
            self._drafter_cache.select(keep)

    @torch.no_grad()
    def step(self) -> Round:
        """One verify round over all running requests. Finished ones leave the batch."""
        batch = list(self.running)
        roots = torch.tensor([sequence.output[-1] for sequence in batch], device=self.target.device)
        prefix = self._target_cache.lengths
        tree, build_seconds = self._draft(roots)
        logits, features = self.target.forward(
            tree.tokens, tree.positions(prefix), tree.mask(), self._target_cache, self.feature_layers
        )
        result = walk(tree, self._state(tree, logits))
        self._target_cache.commit(result.path, result.lengths)
        if self.drafter:
            every = torch.arange(len(batch), device=roots.device)[:, None]
            positions = prefix[:, None] + torch.arange(result.path.shape[1], device=roots.device)
            kept = features[every, result.path.clamp_min(0)]
            self.drafter.observe(self._drafter_cache, kept, positions, result.lengths)

        for sequence, tokens, length in zip(batch, result.tokens.tolist(), result.lengths.tolist(), strict=True):
            sequence.rounds.append(sequence.extend(tokens[:length]))
        self.drop([sequence for sequence in batch if sequence.finish_reason])
        nodes = (tree.valid.sum(dim=1) - 1).tolist()
        return Round(batch, [sequence.rounds[-1] for sequence in batch], nodes, build_seconds)

    def _draft(self, roots: torch.Tensor) -> tuple[DraftTree, float]:
        """The trees that the next round verifies, and how long building them from the drafter's logits took, seconds."""
        if self.drafter is None:
            return root_tree(roots), 0.0
        masks = roots.new_full((len(roots), self.block_size - 1), self.drafter.config.mask_token_id)
        block = torch.cat([roots[:, None], masks], dim=1)
        hidden = self.drafter(self._drafter_cache, self.target.embed(block))
        logits = self.target.head(hidden[:, 1:])
        started = time.perf_counter()
        if self.algorithm == "dflash":
            tree = chain_tree(roots, *top_candidates(logits, 1))
        else:
            tree = build_tree(roots, *top_candidates(logits, self.budget), self.budget)
        return tree, time.perf_counter() - started

    def _state(self, tree: DraftTree, logits: torch.Tensor) -> torch.Tensor:
        """The token that the target states after each row, int64 `[b, N]`, by each request's own parameters."""
        depths = tree.depths.cpu()
        return torch.stack(
            [
                choose(logits[row], sequence.params, sequence.uniforms, len(sequence.output) + depths[row])
                for row, sequence in enumerate(self.running)
            ]
        )

    def _join(self, sequences: list[Sequence], target_cache: RaggedKV, drafter_cache: RaggedKV | None) -> None:
        self.running += sequences
        self._target_cache.extend(target_cache)
        if self._drafter_cache is not None:
            self._drafter_cache.extend(drafter_cache)


class Prefill:
    """The prompt passes of some new requests, in chunks, so that running requests can take rounds in between."""

    def __init__(self, generator: Generator, sequences: list[Sequence]) -> None:
        self.generator = generator
        self.sequences = sequences
        self._done = 0
        self._target_cache = generator.target.new_cache(len(sequences))
        self._drafter_cache = generator.drafter.new_cache(len(sequences)) if generator.drafter else None

    @torch.no_grad()
    def step(self) -> bool:
        """Process the next chunk of every prompt; true when all are in, have their first token and have joined."""
        target, drafter = self.generator.target, self.generator.drafter
        chunk = [sequence.prompt[self._done : self._done + self.generator.prefill_chunk] for sequence in self.sequences]
        counts = torch.tensor([len(part) for part in chunk], device=target.device)
        width = int(counts.max())
        tokens = torch.tensor([part + [0] * (width - len(part)) for part in chunk], device=target.device)
        positions = (self._done + torch.arange(width, device=target.device)).expand(len(chunk), -1)
        causal = torch.ones(width, width, dtype=torch.bool, device=target.device).tril().expand(len(chunk), -1, -1)
        # Logits of the last row are enough when every row is full; short rows end earlier.
        last = 1 if int(counts.min()) == width else 0
        layers = self.generator.feature_layers
        logits, features = target.forward(tokens, positions, causal, self._target_cache, layers, last)
        order = torch.arange(width, device=target.device).expand(len(chunk), -1)
        self._target_cache.commit(order, counts)
        if drafter:
            drafter.observe(self._drafter_cache, features, positions, counts)
        self._done += width

        for row, (sequence, part) in enumerate(zip(self.sequences, chunk, strict=True)):
            if part and self._done - width + len(part) == len(sequence.prompt):
                final = logits[row, -1 if last else len(part) - 1]
                token = choose(final[None], sequence.params, sequence.uniforms, torch.tensor([0]))
                sequence.extend(token.tolist())
        if any(len(sequence.prompt) > self._done for sequence in self.sequences):
            return False
        alive = [row for row, sequence in enumerate(self.sequences) if not sequence.finish_reason]
        if alive:
            for cache in (self._target_cache, self._drafter_cache):
                if cache is not None:
                    cache.select(alive)
            self.generator._join([self.sequences[row] for row in alive], self._target_cache, self._drafter_cache)
        return True


def generate(
    generator: Generator, prompts: list[list[int]], params: SamplingParams | list[SamplingParams]
) -> list[Sequence]:
    """Run a list of prompts (token ids) to their end as one batch and return their sequences in order."""
    each = params if isinstance(params, list) else [params] * len(prompts)
    sequences = [Sequence(prompt, own) for prompt, own in zip(prompts, each, strict=True)]
    prefill = generator.prefill(sequences)
    while not prefill.step():
        pass
    while generator.running:
        generator.step()
    return sequences
