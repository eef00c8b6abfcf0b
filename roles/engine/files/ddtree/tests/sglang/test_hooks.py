# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""Hooks leave every other algorithm alone, and size buffers for what a verify step writes."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

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


class Request:
    """Ends as SGLang 0.5.17's `Req` does: length, stop string (one letter a token here), stop token."""

    def __init__(self, output_ids: list[int], most: int, stop_string: str | None, stop_token: int | None) -> None:
        self.output_ids = array("q", output_ids)
        self.sampling_params = SimpleNamespace(max_new_tokens=most)
        self.stop_string, self.stop_token = stop_string, stop_token
        self.ended: tuple[str, int] | None = None
        self.to_finish = None

    def finished(self) -> bool:
        return self.ended is not None

    def _end_at(self, tokens: Iterable[int], number: int, why: str) -> bool:
        for i, token in enumerate(tokens):
            if token == number:
                self.ended = (why, len(self.output_ids) - len(tokens) + i + 1)
                return True
        return False

    def _check_str_based_finish(self, new_accepted_len: int) -> bool:
        return self._end_at(self.output_ids[-new_accepted_len:], ord(self.stop_string or "\0"), "string")

    def _check_token_based_finish(self, new_accepted_tokens: array[int]) -> bool:
        return self._end_at(new_accepted_tokens, self.stop_token or -1, "token")

    def update_finish_state(self, new_accepted_len: int = 1) -> None:
        if self.finished() or self.to_finish:
            return
        if len(self.output_ids) >= self.sampling_params.max_new_tokens:
            self.ended = ("length", self.sampling_params.max_new_tokens)
            return
        if self._check_str_based_finish(new_accepted_len):
            return
        self._check_token_based_finish(self.output_ids[-new_accepted_len:])


def ended_by_rounds(text: list[int], rounds: list[int], hooked: bool, **stops: Any) -> tuple[str, list[int]]:
    """Why a request ends that gets ``text`` in rounds of these lengths, and what it gives out."""
    request, at = Request([], 10, stops.get("stop_string"), stops.get("stop_token")), 0
    for length in rounds:
        request.output_ids.extend(text[at : at + length])
        at += length
        if hooked:
            hooks.finish_at_stop(Request.update_finish_state, request, length)
        else:
            request.update_finish_state(length)
        if request.finished():
            break
    assert request.output_ids.tolist() == text[:at], "nothing that was accepted is lost"
    why, length = request.ended
    return why, text[:length]


@pytest.mark.parametrize("stops", [{"stop_token": 66}, {"stop_string": "B"}, {}])
@pytest.mark.parametrize("place", range(14))
@pytest.mark.parametrize("rounds", [[16], [1, 15], [7, 9], [9, 7], [10, 6], [3, 3, 3, 3, 4]])
def test_a_stop_in_the_round_that_reaches_the_length_ends_where_plain_decoding_does(
    stops: dict[str, Any], place: int, rounds: list[int]
) -> None:
    text = [65] * 16
    text[place] = 66
    plain = ended_by_rounds(text, [1] * 16, False, **stops)
    assert ended_by_rounds(text, rounds, True, **stops) == plain


def test_sglang_alone_gives_out_what_follows_a_stop_there() -> None:
    """What the hook is for; when this fails for a known release, the hook is not needed there."""
    text = [65] * 7 + [66] + [65] * 8
    assert ended_by_rounds(text, [7, 9], False, stop_token=66) == ("length", text[:10])


def test_requests_that_end_for_another_reason_are_left_to_sglang() -> None:
    request = Request([65, 66] + [65] * 10, 10, None, 66)
    request.to_finish = "abort"
    hooks.finish_at_stop(Request.update_finish_state, request, 12)
    assert request.ended is None
