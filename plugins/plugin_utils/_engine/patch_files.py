# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The patches that ship with role engine: a list in patches.json, one diff file for each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.inferlab.dflash.plugins.module_utils._engine import patching
from ansible_collections.inferlab.dflash.plugins.module_utils._engine.errors import EngineError

_KEYS = ("name", "package", "versions", "file", "before", "after", "diff")


def load(directory: str | None, versions: Mapping[str, str]) -> list[dict[str, Any]]:
    """The patches for these package versions, each with its diff's text in place of the file name.

    Raises EngineError naming what is missing; [] without a directory.
    """
    if not directory:
        return []
    root = Path(directory)
    try:
        listed = json.loads((root / "patches.json").read_text(encoding="utf-8"))["patches"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EngineError(f"{root}/patches.json cannot be read: {error}") from error
    for entry in listed:
        missing = [key for key in _KEYS if key not in entry]
        if missing:
            raise EngineError(f"{root}/patches.json: {entry.get('name', 'an entry')} lacks {', '.join(missing)}")
    chosen = patching.select(listed, versions)
    return [{**{key: entry[key] for key in _KEYS}, "diff": _text(root / entry["diff"])} for entry in chosen]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise EngineError(f"{path}: {error.strerror}") from error
