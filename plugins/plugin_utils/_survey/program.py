# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The survey as one program for Python's standard input, and its answer read back."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.inferlab.dflash.plugins import module_utils
from ansible_collections.inferlab.dflash.plugins.module_utils._survey.bare import MARK

ROOT = "ansible_collections.inferlab.dflash.plugins.module_utils"
ENTRY = f"{ROOT}._survey.answer"
IMPORT = re.compile(r"^ *from (\.*)([\w.]*) import (\([^)]*\)|[^\n]*)", re.MULTILINE)


def sources(entry: str = ENTRY, folder: Path | None = None) -> dict[str, str]:
    """Return {name: source} of a module of module_utils, of what it imports from there, and of the packages around them."""
    folder = folder or Path(next(iter(module_utils.__path__)))
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


def program(given: Mapping[str, Any]) -> bytes:
    """Return the program that surveys a host with these options."""
    sent = zlib.compress(json.dumps({"sources": sources(), "given": given}).encode(), 6)
    text = (Path(next(iter(module_utils.__path__))) / "_survey" / "bare.py").read_text(encoding="utf-8")
    return f"{text}\n\nmain({base64.b64encode(sent).decode()!r}, {ENTRY!r})\n".encode()


def answer(output: str) -> dict[str, Any] | None:
    """Return the answer in what the program printed, or None where there is none that is whole."""
    line = next((line for line in reversed(output.splitlines()) if line.startswith(MARK)), None)
    try:
        said = json.loads(line[len(MARK) :]) if line else None
    except ValueError:
        return None
    return said if isinstance(said, dict) else None
