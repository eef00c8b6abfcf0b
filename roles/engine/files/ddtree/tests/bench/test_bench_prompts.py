# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""Prompt files in every layout, and the order in which they are used."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from ddtree.bench import prompts


def write(tmp_path, text, name="set.jsonl"):
    path = tmp_path / name
    path.write_text(text)
    return path


def test_own_jsonl_with_prompt_and_messages(tmp_path):
    rows = [
        {"id": "a", "domain": "code", "prompt": "def f"},
        {"messages": [{"role": "system", "content": "short"}, {"role": "user", "content": "hi"}]},
    ]
    first, second = prompts.load(write(tmp_path, "\n".join(map(json.dumps, rows))))
    assert (first.id, first.domain, first.text) == ("a", "code", "def f")
    assert first.as_messages() == [{"role": "user", "content": "def f"}]
    assert (second.id, second.domain) == ("set-1", "set")
    assert [m["role"] for m in second.as_messages()] == ["system", "user"]


def test_sharegpt_list_takes_the_first_human_turn_and_drops_what_has_none(tmp_path):
    data = [
        {"id": "x", "conversations": [{"from": "system", "value": "s"}, {"from": "human", "value": "q"}]},
        {"id": "y", "conversations": [{"from": "gpt", "value": "only an answer"}]},
    ]
    loaded = prompts.load(write(tmp_path, json.dumps(data), "sharegpt.json"))
    assert [(p.id, p.text, p.domain) for p in loaded] == [("x", "q", "sharegpt")]


def test_sglang_custom_jsonl(tmp_path):
    line = json.dumps({"conversations": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]})
    assert prompts.load(write(tmp_path, line))[0].text == "q"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no usable prompt"),
        ("{]", "set.jsonl:1: not JSON"),
        ("[1", "not JSON"),
        ('{"id": "a", "text": "x"}', "needs 'prompt', 'messages' or 'conversations', has"),
        ("3", "expected an object, found int"),
        ('{"messages": [{"role": "user"}]}', "every message needs a text content"),
        ('{"id": "a", "prompt": "x"}\n{"id": "a", "prompt": "y"}', "'a' is used twice"),
    ],
)
def test_unusable_files_are_named_with_the_reason(tmp_path, text, reason):
    with pytest.raises(prompts.PromptError, match=r"set\.jsonl") as caught:
        prompts.load(write(tmp_path, text))
    assert reason in str(caught.value)


def test_missing_file_and_empty_folder(tmp_path):
    with pytest.raises(prompts.PromptError, match="absent"):
        prompts.load(tmp_path / "absent.jsonl")
    with pytest.raises(prompts.PromptError, match=r"no \*\.jsonl"):
        prompts.load_all([tmp_path])


def test_schedule_is_whole_passes_and_the_same_for_the_same_seed():
    pool = [prompts.Prompt(str(i), "d", str(i)) for i in range(5)]
    order = prompts.schedule(pool, 15, seed=3)
    assert order == prompts.schedule(pool, 15, seed=3) != prompts.schedule(pool, 15, seed=4)
    for start in (0, 5, 10):
        assert Counter(p.id for p in order[start : start + 5]) == Counter(p.id for p in pool)
    assert {p.id for p in prompts.schedule(pool, 3, seed=1)} == {"0", "1", "2"}
