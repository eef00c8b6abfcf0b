# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Training text of the nano pair: Python's own standard library, and text made up by this file. Nothing else.

Three kinds, in one document format each:

* `code`: source files of the standard library (PSF-2.0) of the interpreter that runs this.
* `prose`: longer docstrings of those files.
* `chat`: made-up conversations in the pair's chat format: arithmetic in words, and questions about the standard library
  that are answered by the first sentence of a docstring.

The first documents of each kind are held out of training; their beginnings are the prompts that acceptance is measured on.
"""

from __future__ import annotations

import ast
import random
import sysconfig
from pathlib import Path

END = "<|endoftext|>"
START_TURN = "<|im_start|>"
END_TURN = "<|im_end|>"
MASK = "<|MASK|>"
SPECIAL_TOKENS = [END, START_TURN, END_TURN, MASK]

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)

HELD_OUT = 24
SKIPPED_DIRECTORIES = {"__pycache__", "site-packages", "dist-packages", "idlelib", "lib2to3", "ensurepip"}
NAMES = [
    "Ana",
    "Ben",
    "Cleo",
    "Dan",
    "Eva",
    "Finn",
    "Gus",
    "Hana",
    "Ivo",
    "Jin",
    "Kai",
    "Lea",
    "Max",
    "Nia",
    "Oto",
    "Pia",
]
THINGS = ["apples", "books", "coins", "stamps", "pens", "cards", "shells", "beads"]


def turn(role: str, content: str) -> str:
    return f"{START_TURN}{role}\n{content}{END_TURN}\n"


def conversation(*pairs: tuple[str, str]) -> str:
    """Question and answer turns in the format of `CHAT_TEMPLATE`."""
    return "".join(turn("user", question) + turn("assistant", answer) for question, answer in pairs)


def arithmetic(rng: random.Random) -> tuple[str, str]:
    """One word problem with its answer worked out."""
    a, b, c = rng.randrange(2, 90), rng.randrange(2, 40), rng.randrange(2, 12)
    one, two = rng.sample(NAMES, 2)
    thing = rng.choice(THINGS)
    kind = rng.randrange(5)
    if kind == 0:
        return (
            f"{one} has {a} {thing}. {two} gives {one} {b} more {thing}. How many {thing} does {one} have now?",
            f"{one} starts with {a} {thing}. After receiving {b} more, {one} has {a} + {b} = {a + b} {thing}. "
            f"The answer is {a + b}.",
        )
    if kind == 1:
        return (
            f"A box holds {c} {thing}. {one} has {b} boxes. How many {thing} are there in total?",
            f"Each box holds {c} {thing}, and there are {b} boxes. So there are {b} * {c} = {b * c} {thing}. "
            f"The answer is {b * c}.",
        )
    if kind == 2:
        return (
            f"{one} had {a + b} {thing} and sold {b} of them to {two}. How many {thing} are left?",
            f"{one} had {a + b} {thing} and sold {b}. So {a + b} - {b} = {a} {thing} are left. The answer is {a}.",
        )
    if kind == 3:
        return (
            f"{one} shares {b * c} {thing} equally among {c} friends. How many {thing} does each friend get?",
            f"There are {b * c} {thing} and {c} friends. Each friend gets {b * c} / {c} = {b} {thing}. The answer is {b}.",
        )
    return (
        f"{one} collects {a} {thing} on Monday and {b} {thing} on Tuesday. {two} has {c} times as many. "
        f"How many {thing} does {two} have?",
        f"{one} collects {a} + {b} = {a + b} {thing} in total. {two} has {c} times as many, so {two} has "
        f"{a + b} * {c} = {(a + b) * c} {thing}. The answer is {(a + b) * c}.",
    )


def standard_library() -> list[tuple[str, str]]:
    """Module name and text of every readable source file of the standard library, sorted by name."""
    root = Path(sysconfig.get_paths()["stdlib"])
    found = []
    for file in sorted(root.rglob("*.py")):
        relative = file.relative_to(root)
        if SKIPPED_DIRECTORIES & set(relative.parts):
            continue
        try:
            text = file.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # test data in other encodings
        if 400 < len(text) < 200_000 and not any(token in text for token in SPECIAL_TOKENS):
            found.append((".".join(relative.with_suffix("").parts), text))
    return found


def docstrings(module: str, text: str) -> list[tuple[str, str]]:
    """Qualified name and docstring of a module and what it defines."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return []  # files that are wrong on purpose, for the interpreter's tests
    found = []
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef)):
            doc = ast.get_docstring(node)
            if doc:
                found.append((module if isinstance(node, ast.Module) else f"{module}.{node.name}", doc))
    return found


def build(seed: int = 0, limit: int | None = None) -> tuple[list[str], dict[str, list[str]]]:
    """Training documents, shuffled, and held-out documents by kind. `limit` cuts every kind, for a smoke run."""
    rng = random.Random(seed)
    files = standard_library()
    kinds: dict[str, list[str]] = {"code": [text for dummy, text in files], "prose": [], "chat": []}
    asked = ("What does {} do?", "Describe {} in one sentence.", "What is {} for?")
    for module, text in files:
        for name, doc in docstrings(module, text):
            if len(doc) > 300:
                kinds["prose"].append(doc)
            sentence = " ".join(doc.split("\n\n")[0].split())
            if 20 < len(sentence) < 300 and ".test" not in f".{module}":
                kinds["chat"].append(conversation((rng.choice(asked).format(f"`{name}`"), sentence)))
    for dummy in range(12_000):
        kinds["chat"].append(conversation(*(arithmetic(rng) for dummy in range(rng.randrange(1, 5)))))
    train: list[str] = []
    held_out: dict[str, list[str]] = {}
    for kind, documents in kinds.items():
        rng.shuffle(documents)
        held_out[kind] = documents[:HELD_OUT]
        train += documents[HELD_OUT:][:limit]
    rng.shuffle(train)
    return train, held_out
