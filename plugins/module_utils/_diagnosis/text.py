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
    r"|If exit code is -9|a common cause is|potential root causes"
    # The program's own text, which a traceback or a warning shows.
    r"|\braise [\w.]+\(|\bwarnings\.warn\(|\blog(?:ger|ging)?\.\w+\(",
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
    "potential root causes",
    "raise ",
    "warnings.warn(",
    "log",
)
# Levels below an error, as uvicorn, vLLM and the logging module print them. NCCL WARN stays: there it is the error.
_LEVELS = ("INFO", "WARNING", "DEBUG", "TRACE")
_HARMLESS_LEVEL = re.compile(rf"(?:^|[\s)\]|:])(?:{'|'.join(_LEVELS)})(?::|\s|\])")
# Words of a process that does without something and goes on. On a GPU server the CPU is no way to go on.
_GIVEN_UP = re.compile(
    r"\b[Ii]gnor(?:ed?|ing)\b|(?<!-)\b[Ss]kip(?:s|ped|ping)?\b(?!-)|\b[Ff]allbacks?\b|\b[Nn]on-fatal\b"
    r"|\b(?:[Ff]all(?:s|ing|en)?|[Ff]ell|[Rr]oll(?:s|ed|ing)?)[ -]?back\b(?! (?:to|on) (?:the )?(?:CPU|cpu)\b)"
    r"|\b(?:[Uu]sing|will (?:be|use|run|try)|(?:is|are) used)\b[^\n]{0,80} instead\b"
    r"|\bwill be (?:unavailable|disabled|turned off)\b|\b[Oo]ptional (?:dependency|package|module|feature|library|extension)\b"
    r"|[;,.] (?:[Ww]ill )?[Uu]s(?:e|es|ing) (?:the |its )?(?:default|native|slow\w*|eager|plain|naive|torch|PyTorch|Triton|legacy|built-?in)\b"
    r"|\b(?:[Cc]ontinu|[Pp]roceed|[Rr]unn)\w* without\b|\b(?:will not|won't|not) be used\b|\b[Dd]isabling\b"
    r"|(?<!traffic has been )\b[Dd]isabled(?=\s*(?:[:(,;.]|$|because\b|due\b|since\b|as\b))"
    r"|\b(?:[Uu]navailable|[Nn]ot (?:available|installed|importable))[:,]? \(?(?:[\w.]+(?:Error|Exception)\b|[Nn]o module named|cannot import)"
)
_GIVEN_UP_WORDS = (
    "gnor",
    "kip",
    "back",
    "nstead",
    "on-fatal",
    "without",
    "be used",
    "will be ",
    "ptional ",
    " us",
    " Us",
    "isabl",
    "navailable",
    "ot available",
    "ot installed",
    "ot importable",
)
# What an engine or a logger puts before a message.
_HEAD = re.compile(
    r"(?:\[[^\]\n]*\]|\([^)\n]*\)|(?:ERROR|CRITICAL|FATAL|WARNING|INFO)\b:?|[EWI]?\d[\d:.,T/-]*|[|:])\s*"
)
# An exception as its traceback ends, or a refusal of a command line: whatever else such a line says, the process did not go on.
# The same name may stand in a sentence on something else, which has such a word or a bracket before it.
_RAISED = re.compile(r"(?:^|[\s\]:>|])(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception)(?::|$)|\w: error: ")
_SENTENCE = re.compile(
    r"[Ff]ail|[Cc]annot|[Cc]an't|[Cc]ould(?: not|n't)|[Uu]nable|[Ii]mport|[Ll]oad|[Ii]nit|[Uu]navail|\bnot\b|[Mm]issing|[Dd]isabl|[Ii]gnor|[Ss]kip"
    r"|[Ff]all|[Ww]arn|\([^)]*$"
)
# The lines of a traceback between its first one and the exception.
_MOST_TRACEBACK = 1 << 16
_MOST_CHAINED = 10
# Other processes may write between a traceback and what announces it.
_MOST_ABOVE = 8


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
        self._given_up: dict[int, bool] = {}

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

    def gave_up(self, line: Line) -> bool:
        """Whether I(line), or what announces the traceback that it ends, only says what the process goes on without; asked once."""
        known = self._given_up.get(line.position)
        if known is None:
            known = gives_up(line.text) or any(
                gives_up(text) and (text.rstrip().endswith(":") or "Exception ignored" in text)
                for text in self.introduction(line)
            )
            self._given_up[line.position] = known
        return known

    def introduction(self, line: Line) -> list[str]:
        """What stands before the traceback that I(line) ends: the head of its first line, else the lines above that may belong to it."""
        words = "traceback (most recent call last)"
        for dummy in range(_MOST_CHAINED):
            at = self._low.rfind(words, max(0, line.position - _MOST_TRACEBACK), line.position)
            if at < 0:
                return []
            begin, end = self.text.rfind("\n", 0, at) + 1, self.text.find("\n", at)
            if any(_raised(text) for text in self.text[end + 1 : line.position].split("\n")):
                return []
            head = self.text[begin:at]
            # Where other lines of the traceback have it too it is a prefix.
            below = self.text[end + 1 : end + 1 + _LINE_LIMIT].split("\n")[:_MOST_ABOVE]
            shared = line.text.startswith(head) or any(text.startswith('  File "', at - begin) for text in below)
            if not shared and _message_of(head).strip("|: "):
                return [head]
            above = self._above(begin)
            first = above[-1] if above else line
            if not _raised(first.text):
                return [item.text for item in above]
            if not any("above exception" in item.text for item in above):
                return [item.text for item in above[:-1]]
            # A chain of exceptions has the introduction of its first one.
            line = first
        return []

    def _above(self, position: int) -> list[Line]:
        """The lines above I(position), the nearest first, up to an exception; empty messages and what lies further are left out."""
        found: list[Line] = []
        while position > 0 and len(found) < _MOST_ABOVE:
            line = self.line_at(position - 1)
            position = line.position
            if _message_of(line.text):
                found.append(line)
                if _raised(line.text):
                    break
        return found

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


def _message_of(text: str) -> str:
    """I(text) without what syslog, engines and loggers put before a message."""
    text, end = _SYSLOG.sub("", text.strip()).strip(), 0
    while found := _HEAD.match(text, end):
        end = found.end()
    return text[end:]


def gives_up(text: str) -> bool:
    """Whether a line tells what the process goes on without: an optional part that is missing, a faster way that is closed."""
    if not any(word in text for word in _GIVEN_UP_WORDS) or _GIVEN_UP.search(text) is None:
        return False
    return "Exception ignored" in text or not _raised(text)


def _raised(text: str) -> bool:
    """Whether a line is how a traceback ends."""
    found = _RAISED.search(text) if "Error" in text or "Exception" in text or "error: " in text else None
    return found is not None and _SENTENCE.search(text, 0, found.start()) is None


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
