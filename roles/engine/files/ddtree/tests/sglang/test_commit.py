# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""The commit recorded into verify graphs: padding, disarming, and results that outlive the next replay."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

pytest.importorskip("triton", reason="triton is not installed")

from ddtree.sglang.buffers import Draft
from ddtree.sglang.commit import CapturedCommit, keep_path, walk
from ddtree.sglang.config import DDTreeConfig
from ddtree.sglang.simulate import ForcedAcceptance
from ddtree.tree import build_tree, top_candidates

BLOCK, ROWS, FEATURES, VOCAB = 4, 9, 3, 32


class FakePool:
    """Row storage whose moves read all sources first, as SGLang's kernel does."""

    def __init__(self, slots: int) -> None:
        self.rows = torch.arange(slots)

    def move_kv_cache(self, target: torch.Tensor, source: torch.Tensor) -> None:
        self.rows[target] = self.rows[source].clone()


class FakeWorker:
    device = "cpu"

    def __init__(self) -> None:
        self.config = DDTreeConfig(BLOCK, ROWS, 4)
        self.model_runner = SimpleNamespace(token_to_kv_pool=FakePool(200))
        self._fused_kv_helper = None
        self.appended: dict[str, torch.Tensor] = {}

    def _append_target_hidden_to_draft_kv_by_loc(self, **kwargs: torch.Tensor) -> None:
        self.appended = {k: v.clone() for k, v in kwargs.items()}


def make_draft(batch: int, generator: torch.Generator) -> Draft:
    log_probs, ids = top_candidates(torch.randn(batch, BLOCK - 1, VOCAB, generator=generator), 4)
    tree = build_tree(torch.zeros(batch, dtype=torch.int64), log_probs, ids, ROWS - 1)
    slots = torch.arange(1, batch * ROWS + 1).view(batch, ROWS)
    return Draft(
        tree.tokens,
        tree.parents.int(),
        tree.depths.int(),
        tree.first_child,
        tree.next_sibling,
        torch.zeros(batch, ROWS, dtype=torch.int64),
        slots,
    )


def logits_for(draft: Draft) -> torch.Tensor:
    """The target wants the first child of every row that has one."""
    wanted = torch.zeros_like(draft.token)
    for request in range(draft.token.shape[0]):
        for row in range(ROWS):
            child = int(draft.next_token[request, row])
            wanted[request, row] = draft.token[request, child] if child >= 0 else 7
    return torch.nn.functional.one_hot(wanted.view(-1), VOCAB).float()


def replay(hook: CapturedCommit, draft: Draft, seq_lens: torch.Tensor) -> None:
    padded = draft.token.shape[0]
    hidden = torch.arange(padded * ROWS * FEATURES).view(-1, FEATURES).float()
    out = SimpleNamespace(next_token_logits=logits_for(draft), hidden_states=hidden)
    hook(SimpleNamespace(captured_req_width=ROWS), out, SimpleNamespace(seq_lens=seq_lens), padded * ROWS)


def test_recorded_commit_equals_the_eager_one_and_spares_padding() -> None:
    generator = torch.Generator().manual_seed(1)
    draft, seq_lens = make_draft(4, generator), torch.tensor([5, 6, 1, 1])
    worker = FakeWorker()
    hook = CapturedCommit(worker, lambda _runner: draft)
    hook.arm(2)
    replay(hook, draft, seq_lens)
    results = hook.results(False, 4, 2)

    eager_worker = FakeWorker()
    from ddtree.sglang.buffers import Round

    eager = Round.create(2, BLOCK, "cpu")
    live = draft.of(2)
    hidden = torch.arange(2 * ROWS * FEATURES).view(-1, FEATURES).float()
    walk(live, logits_for(live).argmax(-1).view(2, ROWS), seq_lens[:2], eager, None)
    keep_path(eager_worker, live, eager, hidden)

    assert eager.accept_lens.min() > 1
    for name in ("accept_lens", "accept_index", "out_token", "bonus", "new_seq_lens", "commit_loc", "commit_positions"):
        assert torch.equal(getattr(results, name), getattr(eager, name)), name
    assert torch.equal(worker.model_runner.token_to_kv_pool.rows, eager_worker.model_runner.token_to_kv_pool.rows)
    assert worker.appended["commit_lens"].tolist() == [*eager.accept_lens.tolist(), 0, 0]
    assert torch.equal(worker.appended["target_hidden"][: 2 * BLOCK], eager_worker.appended["target_hidden"])


def test_disarmed_commit_changes_nothing() -> None:
    draft = make_draft(2, torch.Generator().manual_seed(2))
    worker = FakeWorker()
    hook = CapturedCommit(worker, lambda _runner: draft)
    replay(hook, draft, torch.tensor([5, 6]))
    assert torch.equal(worker.model_runner.token_to_kv_pool.rows, torch.arange(200))
    assert worker.appended["commit_lens"].tolist() == [0, 0]
    hook.arm(2)
    hook.arm(0)
    replay(hook, draft, torch.tensor([5, 6]))
    assert worker.appended["commit_lens"].tolist() == [0, 0]


def test_forced_acceptance_counts_live_requests_only(monkeypatch: pytest.MonkeyPatch) -> None:
    draft, seq_lens = make_draft(3, torch.Generator().manual_seed(4)), torch.tensor([5, 6, 1])
    worker = FakeWorker()
    forced = ForcedAcceptance(BLOCK, "cpu")
    monkeypatch.setattr(forced, "draw", lambda: forced.length.fill_(3))
    hook = CapturedCommit(worker, lambda _runner: draft, forced)
    replay(hook, draft, seq_lens)
    assert worker.appended["commit_lens"].tolist() == [0, 0, 0]
    hook.arm(2)
    replay(hook, draft, seq_lens)
    results = hook.results(False, 3, 2)
    assert results.accept_lens.tolist() == [3, 3]
    assert results.new_seq_lens.tolist() == [8, 9]
    expected = torch.tensor([[0, 1, 2], [ROWS, ROWS + 1, ROWS + 2]])
    assert torch.equal(results.accept_index[:, :3].long(), expected)
    assert bool((results.accept_index[:, 3:] == -1).all())
    assert torch.equal(results.src_loc[:, :3], draft.cache_loc[:2, :3])
    assert torch.equal(worker.model_runner.token_to_kv_pool.rows, torch.arange(200)), "each row is moved onto itself"


def test_results_survive_the_next_replay() -> None:
    generator = torch.Generator().manual_seed(3)
    first, second = make_draft(2, generator), make_draft(2, generator)
    worker = FakeWorker()
    current = [first]
    hook = CapturedCommit(worker, lambda _runner: current[0])
    hook.arm(2)
    replay(hook, first, torch.tensor([5, 6]))
    kept = hook.results(False, 2, 2)
    before = kept.result.clone(), kept.accept_lens.clone()
    current[0] = second
    replay(hook, second, torch.tensor([50, 60]))
    assert torch.equal(kept.result, before[0])
    assert torch.equal(kept.accept_lens, before[1])
    assert hook.results(False, 2, 2).new_seq_lens.min() > 50


def test_graphs_get_a_workspace_of_their_own() -> None:
    """Prefill grows the worker's workspace, which would free memory that graphs write to."""
    worker = FakeWorker()
    worker._fused_kv_helper = SimpleNamespace(
        weight=object(), _proj_workspace=1, _k_workspace=2, _v_workspace=3, _workspace_capacity=9
    )
    used = []
    worker._append_target_hidden_to_draft_kv_by_loc = lambda **dummy: used.append(worker._fused_kv_helper)
    draft = make_draft(1, torch.Generator().manual_seed(4))
    original = worker._fused_kv_helper
    hook = CapturedCommit(worker, lambda _runner: draft)
    replay(hook, draft, torch.tensor([5]))
    assert used[0] is not original
    assert used[0].weight is original.weight
    assert used[0]._workspace_capacity == 0
    assert worker._fused_kv_helper is original
    assert original._workspace_capacity == 9
