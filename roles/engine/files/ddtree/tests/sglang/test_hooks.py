# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""Hooks leave every other algorithm alone, and size buffers for what a verify step writes."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from ddtree.sglang import hooks


def server(**changes: object) -> SimpleNamespace:
    base = {"speculative_algorithm": "DDTREE", "speculative_eagle_topk": 8, "speculative_num_draft_tokens": 33}
    return SimpleNamespace(**{**base, **changes})


@pytest.mark.parametrize(
    ("name", "draft", "topk", "expected"),
    [("DDTREE", False, 8, True), ("DDTREE", True, 8, False), ("DDTREE", False, 1, False), ("DFLASH", False, 8, False)],
)
def test_only_the_target_of_a_tree_verifies_a_tree(name: str, draft: bool, topk: int, expected: bool) -> None:
    assert hooks.verifies_tree(SimpleNamespace(name=name), server(speculative_eagle_topk=topk), draft) is expected


def test_other_algorithms_get_what_they_had() -> None:
    runner = SimpleNamespace(
        model_runner=SimpleNamespace(
            spec_algorithm=SimpleNamespace(name="DFLASH"), server_args=server(), is_draft_worker=False
        )
    )
    assert hooks.get_spec_info(lambda r, n: (r, n), runner, 5) == (runner, 5)
    algo = SimpleNamespace(name="EAGLE")
    assert hooks.create_dummy_verify_input(lambda *a: a, algo, server(), "mask", 9, False)[0] is algo
    assert hooks.extra_context_len(20, server(speculative_algorithm="DFLASH")) == 20
    assert hooks.extra_context_len(20, server(speculative_algorithm=None)) == 20


def test_slot_rows_hold_two_verify_windows() -> None:
    """Decode preparation reserves committed + 2 * rows slots, up to the context length."""
    assert hooks.extra_context_len(4 + 33, server()) >= 2 * 33
    assert hooks.extra_context_len(500, server()) == 500


def test_kv_index_buffer_has_a_row_for_each_request_not_for_each_token() -> None:
    backend = SimpleNamespace(req_to_token=torch.zeros((4, 1000), dtype=torch.int32), device="cpu")
    seen = hooks.init_cuda_graph_state(lambda *a: a, backend, 3, 3 * 33)
    assert seen[:3] == (backend, 3, 99)
    assert seen[3].shape == (3000,)
    assert seen[3].dtype == torch.int64
    own = torch.zeros(7)
    assert hooks.init_cuda_graph_state(lambda *a: a, backend, 3, 99, own)[3] is own
