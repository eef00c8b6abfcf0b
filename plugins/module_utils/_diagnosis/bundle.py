# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The evidence as one archive: a file per channel and the verdict. Secrets were removed when the channels were collected."""

from __future__ import annotations

import io
import json
import os
import tarfile
import tempfile
from typing import Any

from .collect import manifest
from .text import normalise


def write(path: str, unit: str, channels: dict[str, Any], verdict: dict[str, Any]) -> None:
    """Write a gzipped tar to I(path), mode 0600, in one step. OSError where that fails."""
    name = unit.replace("/", "_")
    directory = os.path.dirname(path) or "."
    descriptor, temporary = tempfile.mkstemp(dir=directory, prefix=".evidence-")
    try:
        with os.fdopen(descriptor, "wb") as stream, tarfile.open(fileobj=stream, mode="w:gz") as archive:
            _add(archive, f"{name}/verdict.json", json.dumps(verdict, indent=2, default=str) + "\n")
            _add(archive, f"{name}/manifest.json", manifest(channels) + "\n")
            for channel, value in sorted(channels.items()):
                if value is not None:
                    _add(archive, f"{name}/{channel}.txt", normalise(value))
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _add(archive: tarfile.TarFile, name: str, text: str) -> None:
    data = text.encode("utf-8", "replace")
    member = tarfile.TarInfo(name)
    member.size = len(data)
    member.mode = 0o600
    archive.addfile(member, io.BytesIO(data))
