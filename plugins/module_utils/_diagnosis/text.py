# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Log text as the rules see it: bounded, decoded, searchable by literal hints in linear time."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from . import screen

# A channel larger than this keeps its head (first failure) and its tail (last failure).
HEAD_LIMIT = 4 << 20
TAIL_LIMIT = 12 << 20
# No statement of interest is longer; expressions stay fast on lines of this size.
_LINE_LIMIT = 2000

_LONG_LINE = re.compile(rf"^([^\n]{{{_LINE_LIMIT}}})[^\n]+", re.M)
# Encoded data; a statement has spaces.
_LONG_WORD = re.compile(r"(\S{150})\S{100,}(\S{100})")
# Colours and links of a terminal, raw and as cat -v and journalctl show the escape character.
_ANSI = re.compile(r"(?:\x1b|\^\[)(?:\[[0-9;?]*[A-Za-z]|[()][A-B0-2]|\][^\x07\x1b\n]{0,300}(?:\x07|(?:\x1b|\^\[)\\))")
_UPPER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}

# Lines that quote other text or only advise: what they contain says nothing about this process.
_QUOTING = re.compile(
    r"GenerateReqInput\(|EmbeddingReqInput\(|Receive: obj=|Finish: obj=|Received request \S+|[\"'](?:prompt|messages|text)[\"']\s*:"
    r"|py-?spy|\"(?:GET|POST|HEAD|PUT|DELETE|OPTIONS) /\S* HTTP/[\d.]+\"|server_args=|Namespace\(|non-default args"
    r"|Possible (?:solutions|suggestions)|^\s*\d+\. (?:set|disable|if)|\b[Uu]sage: \S+ \[-h\]|Decode batch"
    r"|If exit code is -9|a common cause is",
)
# One of these is in every such line; a look for them is cheaper than the expression.
_QUOTING_WORDS = (
    "ReqInput(",
    "obj=",
    "Received request ",
    "prompt",
    "messages",
    "text",
    "spy",
    " HTTP/",
    "server_args=",
    "Namespace(",
    "non-default args",
    "Possible s",
    ". set",
    ". disable",
    ". if",
    "sage: ",
    "Decode batch",
    "exit code is -9",
    "common cause is",
)
# Levels below an error, as uvicorn, vLLM and the logging module print them. NCCL WARN stays: there it is the error.
_LEVELS = ("INFO", "WARNING", "DEBUG", "TRACE")
_HARMLESS_LEVEL = re.compile(rf"(?:^|[\s)\]|:])(?:{'|'.join(_LEVELS)})(?::|\s|\])")


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
    for escape, plain in (("#012", "\n"), ("#011", "\t"), ("#033", "\x1b"), ("\r\n", "\n"), ("\r", "\n"), ("\x00", "")):
        if escape in value:
            value = value.replace(escape, plain)
    if "\x1b" in value or "^[" in value:
        value = _ANSI.sub("", value)
    return value


_MESSAGE_KEYS = ("MESSAGE", "message", "msg", "log")
_STAMP_KEYS = frozenset(
    (
        "time",
        "timestamp",
        "@timestamp",
        "ts",
        "asctime",
        "stream",
        "level",
        "levelname",
        "severity",
        "__REALTIME_TIMESTAMP",
        "_SOURCE_REALTIME_TIMESTAMP",
        "PRIORITY",
    )
)
_RECORDS = json.JSONDecoder()


def unwrapped(text: str) -> str:
    """I(text) where lines that are JSON records of a logger, a container runtime or journalctl became the message they carry."""
    if '{"' not in text:
        return text
    return "\n".join(
        _message(line) if '{"' in line and line.rstrip().endswith("}") else line for line in text.split("\n")
    )


def _message(line: str) -> str:
    at = line.find('{"')
    try:
        record = _RECORDS.raw_decode(line, at)[0] if at <= 200 else {}
    except ValueError:
        return line
    if _STAMP_KEYS.isdisjoint(record):
        return line
    message = next((record[key] for key in _MESSAGE_KEYS if key in record), None)
    if isinstance(message, list) and all(isinstance(item, int) and 0 <= item < 256 for item in message):
        # journalctl's form of a message with bytes that are no text.
        message = normalise(bytes(message))
    if not isinstance(message, str):
        return line
    level = record.get("levelname") or record.get("level") or record.get("severity") or ""
    source = record.get("SYSLOG_IDENTIFIER")
    head = ""
    if source:
        head = f"{source}[{record.get('_PID', '')}]: "
    elif isinstance(level, str) and level:
        head = f"{level.upper()} "
    return f"{line[:at]}{head}{message.rstrip()}"


def readable(value: Any) -> str:
    """A log channel's value as lines of plain text."""
    return unwrapped(normalise(value))


def shortened(text: str) -> str:
    """I(text) with every line cut to the length that the rules read."""
    return _LONG_LINE.sub(r"\1", text)


def without_repeats(text: str) -> str:
    """I(text), lines cut, without the third and later line that differ in digits only, counted anew in every run.

    Access logs and decode lines are most of a journal; rules look for the first line of a kind.
    """
    seen: dict[bytes, int] = {}
    kept = []
    shapes = text.encode("utf-8", "surrogatepass").translate(None, b"0123456789").split(b"\n")
    for line, shape in zip(text.split("\n"), shapes):
        if len(line) > _LINE_LIMIT // 4:
            line, shape = _LONG_WORD.sub(r"\1...\2", line[:_LINE_LIMIT]), shape[:_LINE_LIMIT]
        if "systemd[" in line or "server_args=" in line:
            seen.clear()
            kept.append(line)
            continue
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
        self.text = without_repeats(readable(value)) if compact else shortened(normalise(value))
        # Offsets must stay equal; a few letters (as the dotted capital I) become two when lowered.
        low = self.text.lower()
        self._low = low if len(low) == len(self.text) else self.text.translate(_UPPER)
        self._candidates = screen.Candidates(self._low)
        self._quoting: dict[int, bool] = {}
        self._harmless: dict[int, bool] = {}

    def __bool__(self) -> bool:
        return bool(self.text.strip())

    def line_at(self, position: int) -> Line:
        """The line that holds offset I(position)."""
        start = self.text.rfind("\n", 0, position) + 1
        end = self.text.find("\n", position)
        end = len(self.text) if end < 0 else end
        return Line(self.channel, start, self.text[start:end].rstrip())

    def lines_with(self, hint: str, start: int = 0, every: bool = False) -> Iterator[Line]:
        """The lines from offset I(start) on that contain I(hint), which is lower case; of very many (unless I(every)) both ends."""
        count = 0
        position = self._low.find(hint, start) if self._candidates.may_hold(hint) else -1
        while position >= 0:
            line = self.line_at(position)
            yield line
            end = self.text.find("\n", position)
            if end < 0:
                return
            count += 1
            if count == screen.MOST_ALIKE and not every:
                end = screen.tail(self._low, hint, end)
            position = self._low.find(hint, end)

    def first(self, branch: screen.Alternative, start: int, stop: int | None, accept: Callable[[Line], Any]) -> Any:
        """What I(accept) makes of the first line from I(start) and before I(stop) that I(branch) could match and it accepts."""
        return self._candidates.first(
            branch,
            start,
            stop,
            lambda begin, end: accept(Line(self.channel, begin, self.text[begin:end].rstrip())),
        )

    def search(self, pattern: re.Pattern, start: int = 0) -> tuple[re.Match, Line] | None:
        """The first line from I(start) on in which I(pattern) matches."""

        def accept(line: Line) -> tuple[re.Match, Line] | None:
            match = pattern.search(line.text)
            return (match, line) if match else None

        best: tuple[re.Match, Line] | None = None
        for branch in screen.read(pattern):
            best = self.first(branch, start, best[1].position if best else None, accept) or best
        return best

    def quotes(self, line: Line) -> bool:
        """L(quotes, quotes) of a line of this log, asked once."""
        known = self._quoting.get(line.position)
        if known is None:
            known = self._quoting[line.position] = quotes(line.text)
        return known

    def harmless(self, line: Line) -> bool:
        """L(harmless, harmless) of a line of this log, asked once."""
        known = self._harmless.get(line.position)
        if known is None:
            known = self._harmless[line.position] = harmless(line.text)
        return known

    def has(self, hint: str, start: int = 0) -> bool:
        """Whether I(hint), lower case, occurs from I(start) on."""
        return self._candidates.may_hold(hint) and self._low.find(hint, start) >= 0

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
    return any(word in text for word in _QUOTING_WORDS) and _QUOTING.search(text) is not None


def harmless(text: str) -> bool:
    """Whether a line carries a log level below error."""
    return (
        any(level in text for level in _LEVELS) and _HARMLESS_LEVEL.search(text) is not None and "NCCL WARN" not in text
    )


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
