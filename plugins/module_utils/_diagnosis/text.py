# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Log text as the rules see it: bounded, decoded, searchable by literal hints in linear time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

# A channel larger than this keeps its head (first failure) and its tail (last failure).
HEAD_LIMIT = 4 << 20
TAIL_LIMIT = 12 << 20
# No statement of interest is longer; expressions stay fast on lines of this size.
_LINE_LIMIT = 2000

_LONG_LINE = re.compile(rf"^([^\n]{{{_LINE_LIMIT}}})[^\n]+", re.M)
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_NO_DIGITS = dict.fromkeys(range(ord("0"), ord("9") + 1))
_UPPER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}

# Lines that quote other text or only advise: what they contain says nothing about this process.
_QUOTING = re.compile(
    r"GenerateReqInput\(|EmbeddingReqInput\(|Receive: obj=|Finish: obj=|Received request \S+|[\"'](?:prompt|messages|text)[\"']\s*:"
    r"|py-?spy|\"(?:GET|POST|HEAD|PUT|DELETE|OPTIONS) /\S* HTTP/[\d.]+\"|server_args=|Namespace\(|non-default args"
    r"|Possible (?:solutions|suggestions)|^\s*\d+\. (?:set|disable|if)|\b[Uu]sage: \S+ \[-h\]|Decode batch"
    r"|If exit code is -9|a common cause is",
)
# Levels below an error, as uvicorn, vLLM and the logging module print them. NCCL WARN stays: there it is the error.
_HARMLESS_LEVEL = re.compile(r"(?:^|[\s)\]|:])(?:INFO|WARNING|DEBUG|TRACE)(?::|\s|\])")


def normalise(value: Any) -> str:
    """Any channel value as text: bytes are decoded, escapes of rsyslog undone, colours removed, size bounded."""
    if value is None:
        return ""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    elif isinstance(value, (list, tuple)):
        value = "\n".join(str(item) for item in value)
    elif not isinstance(value, str):
        value = str(value)
    if len(value) > HEAD_LIMIT + TAIL_LIMIT:
        value = f"{value[:HEAD_LIMIT]}\n{value[-TAIL_LIMIT:]}"
    for escape, plain in (("#012", "\n"), ("#011", "\t"), ("\r\n", "\n"), ("\r", "\n"), ("\x00", "")):
        if escape in value:
            value = value.replace(escape, plain)
    if "\x1b" in value:
        value = _ANSI.sub("", value)
    return value


def shortened(text: str) -> str:
    """I(text) with every line cut to the length that the rules read."""
    return _LONG_LINE.sub(r"\1", text)


def without_repeats(text: str) -> str:
    """I(text), lines cut, without the third and later line that differ in digits only, counted anew in every run.

    Access logs and decode lines are most of a journal; rules look for the first line of a kind.
    """
    seen: dict[str, int] = {}
    kept = []
    for line in text.split("\n"):
        if len(line) > _LINE_LIMIT:
            line = line[:_LINE_LIMIT]
        if "systemd[" in line or "server_args=" in line:
            seen.clear()
            kept.append(line)
            continue
        shape = line.translate(_NO_DIGITS)
        count = seen.get(shape, 0)
        if count < 2:
            seen[shape] = count + 1
            kept.append(line)
    return "\n".join(kept)


@dataclass(frozen=True)
class Line:
    """One line of a channel. C(position) orders lines of one channel."""

    channel: str
    position: int
    text: str


class Log:
    """One channel's text. C(lines_with) finds lines by a literal, which is far cheaper than a regex over every line."""

    def __init__(self, channel: str, value: Any, compact: bool = False) -> None:
        self.channel = channel
        text = normalise(value)
        self.text = without_repeats(text) if compact else shortened(text)
        # Only ASCII is lowered, so that offsets stay equal whatever the language.
        self._low = self.text.lower() if self.text.isascii() else self.text.translate(_UPPER)

    def __bool__(self) -> bool:
        return bool(self.text.strip())

    def line_at(self, position: int) -> Line:
        """The line that holds offset I(position)."""
        start = self.text.rfind("\n", 0, position) + 1
        end = self.text.find("\n", position)
        end = len(self.text) if end < 0 else end
        return Line(self.channel, start, self.text[start:end].rstrip())

    def lines_with(self, hint: str, start: int = 0) -> Iterator[Line]:
        """Every line from offset I(start) on that contains I(hint), which is lower case."""
        position = self._low.find(hint, start)
        while position >= 0:
            line = self.line_at(position)
            yield line
            end = self.text.find("\n", position)
            if end < 0:
                return
            position = self._low.find(hint, end)

    def has(self, hint: str, start: int = 0) -> bool:
        """Whether I(hint), lower case, occurs from I(start) on."""
        return self._low.find(hint, start) >= 0

    def following(self, line: Line, count: int) -> str:
        """I(line) and the I(count) lines after it, as one text."""
        position = line.position
        for _unused in range(count + 1):
            position = self.text.find("\n", position) + 1
            if position == 0:
                return self.text[line.position :][: _LINE_LIMIT * 4]
        return self.text[line.position : position][: _LINE_LIMIT * 4]


def quotes(text: str) -> bool:
    """Whether a line quotes requests, arguments or advice instead of reporting."""
    return _QUOTING.search(text) is not None


def harmless(text: str) -> bool:
    """Whether a line carries a log level below error."""
    return _HARMLESS_LEVEL.search(text) is not None and "NCCL WARN" not in text


_SYSLOG = re.compile(
    r"^(?:\w{3}\s+\d+ \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\S*)\s+\S+\s+[^\s\[:]+(?:\[\d+\])?:\s?|^\[\s*\d+\.\d+\]\s"
)


def shorten(text: str, limit: int = 300) -> str:
    """A line as evidence: without the syslog prefix, at most I(limit) characters."""
    text = _SYSLOG.sub("", text.strip()).strip()
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def rank_of(text: str) -> int | str | None:
    """The rank a line names: C([rank7]) and C(Rank 7) give 7, C([... TP7]) gives TP7 as printed."""
    found = re.search(r"\[rank(\d+)\]|\bRank (\d+)\b|\brank[ =:](\d+)\b", text)
    if found:
        return int(next(group for group in found.groups() if group))
    found = re.search(r"(?:^|[\s\[])((?:TP|PP)\d+)(?:[\s\]]|$)", text) or re.search(
        r"(?:^|[\s\[])(DP\d+)(?:[\s\]]|$)", text
    )
    return found.group(1) if found else None
