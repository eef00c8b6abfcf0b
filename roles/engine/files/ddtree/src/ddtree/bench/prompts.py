# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""Prompt sets: shipped by domain, JSONL of your own, and ShareGPT-style files.

Three layouts are read, told apart by their content:

* JSONL, one object a line: ``{"id", "domain", "prompt"}`` or ``{"id", "domain", "messages": [...]}``.
  ``id`` and ``domain`` may be absent.
* JSONL with ``conversations`` (or ``conversation``), as sglang's ``custom`` data set.
* one JSON list of objects with ``conversations``, as ShareGPT. The first human turn is the prompt.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class PromptError(ValueError):
    """A prompt file that cannot be used; the message names file, line and reason."""


@dataclass(frozen=True)
class Prompt:
    """One prompt: raw text for /v1/completions, or messages for /v1/chat/completions."""

    id: str
    domain: str
    text: str
    messages: tuple[dict[str, str], ...] = ()

    def as_messages(self) -> list[dict[str, str]]:
        """The chat form: the messages given, or the text as a single user turn."""
        return [dict(m) for m in self.messages] if self.messages else [{"role": "user", "content": self.text}]


def _turns(entry: dict[str, Any]) -> list[dict[str, str]] | None:
    turns = entry.get("conversations", entry.get("conversation"))
    if not isinstance(turns, list):
        return None
    roles = {"human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant", "system": "system"}
    result = []
    for turn in turns:
        role = roles.get(str(turn.get("from", turn.get("role", ""))), "user")
        result.append({"role": role, "content": str(turn.get("value", turn.get("content", "")))})
    return result


def _parse(entry: Any, where: str, default_id: str, default_domain: str) -> Prompt | None:
    """One entry as a prompt; None for a conversation without a human turn."""
    if not isinstance(entry, dict):
        raise PromptError(f"{where}: expected an object, found {type(entry).__name__}")
    ident, domain = str(entry.get("id", default_id)), str(entry.get("domain", default_domain))
    if isinstance(entry.get("prompt"), str) and entry["prompt"]:
        return Prompt(ident, domain, entry["prompt"])
    messages = entry.get("messages")
    if isinstance(messages, list) and messages:
        if not all(isinstance(m, dict) and isinstance(m.get("content"), str) for m in messages):
            raise PromptError(f"{where}: every message needs a text content")
        return Prompt(ident, domain, messages[-1]["content"], tuple(messages))
    turns = _turns(entry)
    if turns is not None:
        first = next((t for t in turns if t["role"] == "user" and t["content"]), None)
        return Prompt(ident, domain, first["content"], (first,)) if first else None
    raise PromptError(f"{where}: needs 'prompt', 'messages' or 'conversations', has {sorted(entry)}")


def load(path: str | Path) -> list[Prompt]:
    """Read a prompt file of any of the layouts above; the file's stem is the default domain."""
    path = Path(path)
    try:
        raw = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise PromptError(f"{path}: {exc}") from exc
    entries: list[tuple[str, Any]] = []
    if raw.lstrip().startswith("["):
        try:
            entries = [(f"{path} entry {i}", e) for i, e in enumerate(json.loads(raw))]
        except json.JSONDecodeError as exc:
            raise PromptError(f"{path}: not JSON: {exc}") from exc
    else:
        for number, line in enumerate(raw.splitlines(), 1):
            if not line.strip():
                continue
            try:
                entries.append((f"{path}:{number}", json.loads(line)))
            except json.JSONDecodeError as exc:
                raise PromptError(f"{path}:{number}: not JSON: {exc}") from exc
    prompts = []
    for i, (where, entry) in enumerate(entries):
        prompt = _parse(entry, where, f"{path.stem}-{i}", path.stem)
        if prompt is not None:
            prompts.append(prompt)
    if not prompts:
        raise PromptError(f"{path}: no usable prompt")
    seen: set[str] = set()
    for prompt in prompts:
        if prompt.id in seen:
            raise PromptError(f"{path}: the id {prompt.id!r} is used twice; measurements are paired by id")
        seen.add(prompt.id)
    return prompts


def load_all(paths: Iterable[str | Path]) -> list[Prompt]:
    """Read several files; a folder stands for its *.jsonl files in order of name."""
    prompts: list[Prompt] = []
    for path in map(Path, paths):
        files = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
        if not files:
            raise PromptError(f"{path}: no *.jsonl file in this folder")
        for file in files:
            prompts.extend(load(file))
    return prompts


def by_domain(prompts: Sequence[Prompt]) -> dict[str, list[Prompt]]:
    """Group prompts by domain, both in order of first appearance."""
    groups: dict[str, list[Prompt]] = {}
    for prompt in prompts:
        groups.setdefault(prompt.domain, []).append(prompt)
    return groups


def schedule(prompts: Sequence[Prompt], count: int, seed: int) -> list[Prompt]:
    """`count` prompts in whole shuffled passes over the set, the same for the same seed.

    Whole passes, so that early and late requests have the same mix and a rate that falls over time is
    the server's doing. The set is cut to its first `count` prompts when it is larger.
    """
    pool = list(prompts[:count])
    rng = random.Random(seed)
    order: list[Prompt] = []
    while len(order) < count:
        rng.shuffle(pool)
        order.extend(pool)
    return order[:count]
