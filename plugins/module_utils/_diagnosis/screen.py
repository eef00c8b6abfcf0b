# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Literals that a line must contain before an expression can match it.

A search for a literal is some hundred times faster than a regular expression over every line, so megabytes of lines that
merely resemble an error cost little. The literals are read from the expression itself: nobody has to keep a list beside it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

# One of these strings, in lower case, is in every matching line.
AnyOf = tuple[str, ...]
_CLASS_ESCAPES = frozenset("dDwWsSbBAZ0123456789nrt")
_LEAST = 3


def _weight(element: AnyOf) -> int:
    return min(len(word) for word in element)


class Alternative:
    """One branch of an expression: what must follow what in a matching line, and the rarest of it to search for."""

    def __init__(self, elements: list[AnyOf]) -> None:
        self.elements = tuple(elements)
        self.driver: AnyOf = max((e for e in elements if _weight(e) >= _LEAST), key=_weight, default=())

    def missing(self, low: str, start: int, end: int) -> AnyOf:
        """What the line low[start:end] lacks of the literals in their order; nothing where it has all of them."""
        for element in self.elements:
            best = -1
            for word in element:
                at = low.find(word, start, end)
                if at >= 0 and (best < 0 or at + len(word) < best):
                    best = at + len(word)
            if best < 0:
                return element
            start = best
        return ()


class _Reader:
    """Reads the syntax that the rules use; whatever it does not know counts as "could be anything"."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._at = 0

    def alternatives(self) -> list[list[AnyOf]]:
        """The branches from here to the end or to the closing bracket."""
        branches: list[list[AnyOf]] = [[]]
        run = ""
        while self._at < len(self._source) and self._source[self._at] != ")":
            char = self._source[self._at]
            if char == "|":
                self._at += 1
                run = self._flush(branches[-1], run)
                branches.append([])
            elif char == "(":
                run = self._flush(branches[-1], run)
                branches[-1] += self._group()
            else:
                literal = self._atom()
                least, most = self._quantifier()
                if literal and least >= 1:
                    run += literal
                if not literal or (least, most) != (1, 1):
                    run = self._flush(branches[-1], run)
        self._flush(branches[-1], run)
        return branches

    @staticmethod
    def _flush(branch: list[AnyOf], run: str) -> str:
        if run:
            branch.append((run,))
        return ""

    def _group(self) -> list[AnyOf]:
        opening = re.compile(r"\((?:\?(?:P<\w+>|:|<?[=!]))?").match(self._source, self._at)
        if opening is None:
            raise ValueError(f"no group at {self._at} in {self._source!r}")
        self._at = opening.end()
        branches = self.alternatives()
        self._at += 1
        least, _most = self._quantifier()
        if opening.group(0).endswith(("=", "!")) or least == 0:
            return []
        if len(branches) == 1:
            return branches[0]
        best = [max(branch, key=_weight, default=()) for branch in branches]
        return [tuple(dict.fromkeys(word for element in best for word in element))] if all(best) else []

    def _atom(self) -> str:
        """One character, as a literal in lower case or as "" where it may be several."""
        char = self._source[self._at]
        self._at += 1
        if char == "\\":
            char = self._source[self._at]
            self._at += 1
            return "" if char in _CLASS_ESCAPES else char.lower()
        if char == "[":
            end = self._source.index("]", self._at + 1)
            while self._source[end - 1] == "\\":
                end = self._source.index("]", end + 1)
            inside, self._at = self._source[self._at : end], end + 1
            return inside[0].lower() if len(inside) == 2 and inside[0].lower() == inside[1].lower() else ""
        return "" if char in ".^$" else char.lower()

    def _quantifier(self) -> tuple[int, int | None]:
        found = re.compile(r"(?:([?*+])|\{(\d+)(,\d*)?\})[?+]?").match(self._source, self._at)
        if not found:
            return 1, 1
        self._at = found.end()
        if found.group(1):
            return {"?": (0, 1), "*": (0, None), "+": (1, None)}[found.group(1)]
        return int(found.group(2)), None


@functools.cache
def read(pattern: re.Pattern) -> tuple[Alternative, ...]:
    """The branches of I(pattern), which must be case-sensitive and match within one line."""
    return tuple(Alternative(branch) for branch in _Reader(pattern.pattern).alternatives())


# In a flood of lines that are alike but no error, so many are looked at from its beginning and so many from its end.
MOST_ALIKE = 500
# Likewise for lines that have a part of the literals only.
MOST_LACKING = 5000


def tail(low: str, word: str, start: int) -> int:
    """Where the line begins from which on I(word) is in C(MOST_ALIKE) more lines; I(start) where it is in fewer."""
    end = len(low)
    for dummy in range(MOST_ALIKE):
        at = low.rfind(word, start, end)
        if at < 0:
            return start
        end = low.rfind("\n", start, at) + 1
        if end <= start:
            return start
    return end


@functools.cache
def _words_of(literal: str) -> tuple[str, ...]:
    return tuple(literal.split())


class Candidates:
    """Finds lines in a text that an expression could match; asks its words before it searches the text."""

    # Beyond this many characters of different words the question costs as much as the search.
    _MOST = 1 << 21
    _PIECE = 1 << 20

    def __init__(self, low: str) -> None:
        self._low = low
        self._words = self._distinct(low)
        self._known: dict[str, bool] = {}

    @classmethod
    def _distinct(cls, low: str) -> str | None:
        words: set[str] = set()
        most = max(cls._MOST, len(low) // 3)
        for begin in range(0, len(low), cls._PIECE):
            # Pieces overlap by a word's length, so that no word is only there in two halves.
            words.update(low[max(0, begin - 200) : begin + cls._PIECE].split())
            if len(words) * 8 > most and sum(map(len, words)) > most:
                return None
        return "\n".join(words)

    def may_hold(self, literal: str) -> bool:
        """False where I(literal) is certainly nowhere."""
        known = self._known.get(literal)
        if known is None:
            words = self._words
            known = literal in self._low if words is None else all(word in words for word in _words_of(literal))
            self._known[literal] = known
        return known

    def _may_hold_each(self, elements: tuple[AnyOf, ...]) -> bool:
        """False where an element has no word that may be anywhere; written out, since each rule asks this of each log."""
        known = self._known
        for element in elements:
            for word in element:
                held = known.get(word)
                if self.may_hold(word) if held is None else held:
                    break
            else:
                return False
        return True

    def first(self, branch: Alternative, start: int, stop: int | None, accept: Callable[[int, int], Any]) -> Any:
        """What I(accept)(begin, end) makes of the first line it accepts, from I(start) on and before I(stop)."""
        low, found = self._low, None
        stop = len(low) + 1 if stop is None else stop
        if not self._may_hold_each(branch.elements):
            return None
        for word in branch.driver:
            ahead: dict[str, int] = {}
            refused = lacking = 0
            at = low.find(word, start) if self.may_hold(word) else -1
            while 0 <= at < stop:
                begin, end = low.rfind("\n", 0, at) + 1, low.find("\n", at)
                end = len(low) if end < 0 else end
                lacks = branch.missing(low, begin, end)
                if not lacks and begin < stop:
                    result = accept(begin, end)
                    if result is not None:
                        found, stop = result, begin
                        break
                    refused += 1
                    if refused == MOST_ALIKE:
                        end = tail(low, word, end)
                elif lacks:
                    # No line before the next place of what is missing can match.
                    end = self._next(lacks, end, ahead)
                    if end < 0:
                        break
                    lacking += 1
                    if lacking == MOST_LACKING:
                        end = tail(low, word, end)
                at = low.find(word, end)
        return found

    def _next(self, element: AnyOf, start: int, ahead: dict[str, int]) -> int:
        """Where the line begins that holds the next of I(element) from I(start) on; -1 where there is none."""
        nearest = -1
        for word in element:
            at = ahead.get(word, 0)
            if 0 <= at < start:
                at = ahead[word] = self._low.find(word, start) if self.may_hold(word) else -1
            if at >= 0 and (nearest < 0 or at < nearest):
                nearest = at
        return nearest if nearest < 0 else max(start, self._low.rfind("\n", 0, nearest) + 1)
