# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""Tokens to text as they come, and the stop strings that end it."""

from __future__ import annotations

from typing import Any

REPLACEMENT = "\ufffd"
# A character of UTF-8 has at most four bytes, so more tokens than this without a whole character will not become one.
LONGEST_WAIT = 8


class TextStream:
    """Text of one output. Special tokens have none; half a multi-byte character waits for its other half.

    `text` is everything decoded so far, ending before a stop string once one was completed. `take` hands out what is new in it,
    holding back an ending that may turn out to be the beginning of a stop string.
    """

    def __init__(self, tokenizer: Any, stop: tuple[str, ...] = ()) -> None:
        self.text = ""
        self.stopped = False
        self._tokenizer = tokenizer
        self._stop = stop
        self._tokens: list[int] = []
        # A token's text can depend on the one before (leading spaces), so decoding starts one token group earlier.
        self._context, self._decoded = 0, 0
        self._taken = 0

    def push(self, token: int) -> bool:
        """Add one token; true if it completed a stop string."""
        self._tokens.append(token)
        waiting = len(self._tokens) - self._decoded
        new = self._pending()
        if new.endswith(REPLACEMENT) and waiting < LONGEST_WAIT:
            return False
        self._append(new)
        return self.stopped

    def finish(self) -> None:
        """No more tokens: decode what still waits."""
        if not self.stopped:
            self._append(self._pending())
        self._stop = ()

    def take(self) -> str:
        """Text that was not handed out yet."""
        end = len(self.text) if self.stopped else len(self.text) - self._held_back()
        new = self.text[self._taken : end]
        self._taken = max(self._taken, end)
        return new

    def _pending(self) -> str:
        known = self._decode(self._tokens[self._context : self._decoded])
        return self._decode(self._tokens[self._context :])[len(known) :]

    def _append(self, new: str) -> None:
        searched = max(0, len(self.text) - max(map(len, self._stop), default=0))
        self.text += new
        self._context, self._decoded = self._decoded, len(self._tokens)
        found = [at for at in (self.text.find(stop, searched) for stop in self._stop) if at >= 0]
        if found:
            self.text = self.text[: min(found)]
            self.stopped = True

    def _held_back(self) -> int:
        longest = max(map(len, self._stop), default=1) - 1
        for length in range(min(longest, len(self.text)), 0, -1):
            if any(stop.startswith(self.text[-length:]) for stop in self._stop):
                return length
        return 0

    def _decode(self, tokens: list[int]) -> str:
        return self._tokenizer.decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False)
