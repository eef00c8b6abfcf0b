# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""Text as it comes, and stop strings, over a tokenizer of single bytes."""

from __future__ import annotations

import pytest
from ddtree.text import TextStream


class Bytes:
    """Token = byte; 256 is special and has no text."""

    def decode(self, tokens: list[int], **_options: object) -> str:
        return bytes(token for token in tokens if token < 256).decode("utf-8", errors="replace")


def stream(data: bytes, *stop: str) -> tuple[list[str], TextStream]:
    """What is handed out after each token, and the stream; ends at a stop string."""
    text, parts = TextStream(Bytes(), stop), []
    for token in data:
        ended = text.push(token)
        parts.append(text.take())
        if ended:
            return parts, text
    text.finish()
    parts.append(text.take())
    return parts, text


def test_plain_text_comes_at_once() -> None:
    assert stream(b"abc")[0] == ["a", "b", "c", ""]


def test_characters_of_several_bytes_come_whole() -> None:
    assert stream("aé€😀b".encode())[0] == ["a", "", "é", "", "", "€", "", "", "", "😀", "b", ""]


def test_half_a_character_at_the_end_is_shown_as_such() -> None:
    parts, text = stream("é".encode()[:1])
    assert parts == ["", "\ufffd"]
    assert text.text == "\ufffd"


def test_bytes_that_never_become_a_character_do_not_wait_for_ever() -> None:
    parts, text = stream(b"\xff" * 20 + b"a")
    assert text.text == "\ufffd" * 20 + "a"
    assert sum(bool(part) for part in parts) > 2


def test_special_tokens_have_no_text() -> None:
    text = TextStream(Bytes())
    for token in (97, 256, 98):
        text.push(token)
    assert text.take() == "ab"


@pytest.mark.parametrize(
    ("data", "stops", "text"),
    [
        (b"hello world", ["wor"], "hello "),
        (b"hello world", ["ld", "lo"], "hel"),
        (b"hello", ["xyz"], "hello"),
        (b"hello", ["hello!"], "hello"),
        (b"ababac", ["abac"], "ab"),
        (b"aXbXX", ["XX"], "aXb"),
        ("é€é".encode(), ["€"], "é"),
        (b"stop", ["s"], ""),
    ],
)
def test_stop_strings(data: bytes, stops: list[str], text: str) -> None:
    parts, result = stream(data, *stops)
    assert result.text == text
    assert "".join(parts) == text
    assert result.stopped == any(stop in data.decode() for stop in stops)


def test_no_part_of_a_stop_string_leaks() -> None:
    parts, text = stream(b"one END", "END")
    assert parts == ["o", "n", "e", " ", "", "", ""]
    assert text.stopped


def test_a_false_beginning_is_released_as_soon_as_it_is_known_to_be_one() -> None:
    assert stream(b"xENy", "END")[0] == ["x", "", "", "ENy", ""]
