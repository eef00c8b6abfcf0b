# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The survey as one program for a host's Python, and its answer read back."""

from __future__ import annotations

import ast
import base64
import json
import marshal
import re
import zlib
from collections.abc import Mapping
from importlib.util import MAGIC_NUMBER
from itertools import accumulate
from pathlib import Path
from typing import Any

from ansible_collections.inferlab.dflash.plugins import module_utils
from ansible_collections.inferlab.dflash.plugins.module_utils._survey.bare import MARK

ROOT = "ansible_collections.inferlab.dflash.plugins.module_utils"
ENTRY = f"{ROOT}._survey.answer"
IMPORT = re.compile(r"^ *from (\.*)([\w.]*) import (\([^)]*\)|[^\n]*)", re.MULTILINE)


def sources(entry: str = ENTRY, folder: Path | None = None) -> dict[str, str]:
    """Return {name: source} of a module of module_utils, of what it imports from there, and of the packages around them."""
    folder = folder or _folder()
    found: dict[str, str] = {}

    def file_of(name: str) -> Path | None:
        base = folder.joinpath(*name.split(".")[ROOT.count(".") + 1 :])
        return next((file for file in (base.with_suffix(".py"), base / "__init__.py") if file.is_file()), None)

    def take(name: str) -> None:
        file = file_of(name)
        if name in found or file is None:
            return
        found[name] = file.read_text(encoding="utf-8")
        take(name.rpartition(".")[0])
        here = name.split(".") if file.name == "__init__.py" else name.split(".")[:-1]
        for dots, module, names in IMPORT.findall(found[name]):
            base = ".".join([*(here[: len(here) + 1 - len(dots)] if dots else []), *filter(None, [module])])
            if not base.startswith(ROOT):
                continue
            take(base)
            for word in re.findall(r"\w+", names):
                take(f"{base}.{word}")

    take(entry)
    parts = ROOT.split(".")
    for number in range(1, len(parts) + 1):
        # The collection's outer packages are empty.
        found.setdefault(".".join(parts[:number]), "")
    return found


def _folder() -> Path:
    return Path(next(iter(module_utils.__path__)))


def plain(source: str) -> str:
    """Return the same program without docstrings, annotations, and typing where nothing else needs it.

    A host would compile all that for nothing. What stays is as it was written.
    """
    text = source.encode()
    starts = list(accumulate(map(len, text.splitlines(keepends=True)), initial=0))
    cuts: list[tuple[int, int, bytes]] = []

    def begin(node: ast.expr | ast.stmt | ast.arg) -> int:
        return starts[node.lineno - 1] + node.col_offset

    def end(node: ast.expr | ast.stmt) -> int:
        return starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)

    def look(node: ast.AST) -> None:
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node, clean=False):
            first, last = begin(node.body[0]), end(node.body[0])
            instead = b"pass" if len(node.body) == 1 else b"\n" * text.count(b"\n", first, last)
            cuts.append((first, last, instead))
        if isinstance(node, ast.FunctionDef):
            given = node.args
            for argument in [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]:
                if argument and argument.annotation:
                    cuts.append((begin(argument) + len(argument.arg.encode()), end(argument.annotation), b""))
            if node.returns:
                cuts.append((text.rindex(b"->", 0, begin(node.returns)), end(node.returns), b""))
        for child in ast.iter_child_nodes(node):
            # In a class an annotation can make a field.
            if isinstance(child, ast.AnnAssign) and child.value and not isinstance(node, ast.ClassDef):
                cuts.append((end(child.target), end(child.annotation), b""))
            if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
                look(child)

    look(ast.parse(source))
    for first, last, instead in sorted(cuts, reverse=True):
        text = text[:first] + instead + text[last:]
    if not re.search(rb"\bt\.", text):
        text = re.sub(rb"(?m)^import typing as t$", b"", text)
    return text.decode()


def packed() -> str:
    """Return what is the same for every host: the survey's modules as code for hosts with this Python, and as source for all others."""
    modules = {name: plain(source) for name, source in sources().items()}
    code = {name: compile(source, name, "exec", dont_inherit=True) for name, source in modules.items()}
    return f"{MAGIC_NUMBER.hex()} {_text(marshal.dumps(code))}\n{_text(json.dumps(modules).encode())}\n"


def _text(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data)).decode()


def program(given: Mapping[str, Any], modules: str) -> tuple[str, bytes]:
    """Return the arguments of Python and its standard input: the program that surveys a host with these options.

    Args:
        modules: what `packed` returned.
    """
    text = plain((_folder() / "_survey" / "bare.py").read_text(encoding="utf-8"))
    text += f"\nmain({ENTRY!r}, sys.stdin.read())\n"
    # Python reads a program on its standard input word by word, so it gets the program's length and reads the rest as data.
    return f"import sys; exec(sys.stdin.read({len(text)}))", f"{text}{json.dumps(given)}\n{modules}".encode()


def answer(output: str) -> dict[str, Any] | None:
    """Return the answer in what the program printed, or None where there is none that is whole."""
    line = next((line for line in reversed(output.splitlines()) if line.startswith(MARK)), None)
    try:
        said = json.loads(line[len(MARK) :]) if line else None
    except ValueError:
        return None
    return said if isinstance(said, dict) else None
