# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A screen may let lines through that an expression refuses, never the other way round."""

from __future__ import annotations

import random
import re

import pytest
from ansible_collections.inferlab.dflash.plugins.module_utils._diagnosis import (
    diagnose,
    provisioning,
    rules_engine,
    rules_host,
    screen,
)
from ansible_collections.inferlab.dflash.plugins.module_utils._diagnosis.text import Log

PATTERNS = [
    *(row.pattern for row in rules_engine.ROWS),
    *(row.pattern for row in provisioning.ROWS),
    *(value for value in vars(rules_host).values() if isinstance(value, re.Pattern)),
]


@pytest.fixture(scope="module")
def lines(all_cases):
    texts = [text for case in all_cases for text in case["input"].values() if isinstance(text, str)]
    return sorted({line for text in texts for line in text.split("\n")})


def test_every_branch_of_a_row_can_be_searched_for():
    """A branch without a literal would never be found."""
    for row in (*rules_engine.ROWS, *provisioning.ROWS):
        for branch in screen.read(row.pattern):
            assert branch.driver, (row.code, row.pattern.pattern)
            assert all(word == word.lower() for element in branch.elements for word in element)


def test_what_matches_passes_the_screen(lines):
    matched = 0
    for pattern in PATTERNS:
        for line in lines:
            if pattern.search(line):
                matched += 1
                low = line.lower()
                assert any(not b.missing(low, 0, len(low)) for b in screen.read(pattern)), (pattern.pattern, line)
    assert matched > 200


def test_search_finds_the_first_matching_line(lines):
    rng = random.Random(7)
    for dummy in range(10):
        text = rng.sample(lines, k=400)
        log = Log("command_output", "\n".join(text))
        for row in (*rules_engine.ROWS, *provisioning.ROWS):
            expected = next((line.rstrip() for line in log.text.split("\n") if row.pattern.search(line.rstrip())), None)
            found = log.search(row.pattern)
            assert (found[1].text if found else None) == expected


@pytest.mark.parametrize(
    ("source", "line", "elements"),
    [
        (r"no (?:kernel|device) image", "no device image", [("no ",), ("kernel", "device"), (" image",)]),
        (r"[Oo]ut of memory", "Out of memory", [("out of memory",)]),
        (r"colou?r is(?: not)? red", "color is red", [("colo",), ("r is",), (" red",)]),
        (r"a\.b\(\d+\) and more", "a.b(12) and more", [("a.b(",), (") and more",)]),
        (r"(?P<name>\w+) fails+ here(?! now)", "x failsss here", [(" fails",), (" here",)]),
        (r"x{2} marks[^\n]*spot", "xx marks the spot", [("x",), (" marks",), ("spot",)]),
    ],
)
def test_literals_of_an_expression(source, line, elements):
    pattern = re.compile(source)
    (branch,) = screen.read(pattern)
    assert list(branch.elements) == elements
    assert pattern.search(line) and not branch.missing(line.lower(), 0, len(line))


def test_order_counts():
    (branch,) = screen.read(re.compile(r"first[^\n]*second"))
    assert not branch.missing("first second", 0, 12)
    assert branch.missing("second first", 0, 12) == ("second",)


def test_a_word_at_the_border_of_two_pieces_is_known(monkeypatch):
    monkeypatch.setattr(screen.Candidates, "_PIECE", 300)
    for shift in range(40):
        text = "x" * (280 + shift) + "undefined-symbol" + "y" * 300
        assert screen.Candidates(text).may_hold("undefined-symbol")
    assert not screen.Candidates("a b c").may_hold("undefined-symbol")


@pytest.mark.parametrize("at", [0, 300, 4999])
def test_a_flood_of_lookalikes_hides_no_line_at_its_ends(at):
    """Of lines that are alike but no error both ends are looked at."""
    rng = random.Random(3)
    flood = [
        f"INFO CUDA out of memory is what {''.join(rng.choices('abcdef', k=12))} asks about" for dummy in range(5000)
    ]
    flood.insert(at, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.")
    code = diagnose({"unit_journal": "\n".join(flood), "unit_show": "ActiveState=failed\n"})["code"]
    assert code == "gpu_oom"
