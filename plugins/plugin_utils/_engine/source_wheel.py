# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A wheel from a pure Python source tree, the same to the byte wherever it is made.

Its hash is part of a release's id, so a build backend (which need not be installed on the control node, and writes its
own version and the time into what it makes) would not do. Supported is what the plugin needs: a static ``[project]``
table and packages below ``src/``.
"""

from __future__ import annotations

import base64
import hashlib
import io
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomllib
from ansible_collections.inferlab.dflash.plugins.module_utils._engine.errors import EngineError


@dataclass(frozen=True)
class Wheel:
    """A wheel in memory."""

    name: str
    version: str
    filename: str
    content: bytes

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()


def make(source: Path) -> Wheel:
    """The wheel of the project in ``source``; raises EngineError naming what is missing or not supported."""
    try:
        project = tomllib.loads((source / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    except (OSError, KeyError, tomllib.TOMLDecodeError) as error:
        raise EngineError(f"{source}/pyproject.toml: no readable [project] table ({error})") from error
    if project.get("dynamic") or not {"name", "version"} <= project.keys():
        raise EngineError(f"{source}/pyproject.toml: [project] must state name and version, and nothing dynamic")
    files = _sources(source / "src")
    distribution = project["name"].replace("-", "_")
    info = f"{distribution}-{project['version']}.dist-info"
    files[f"{info}/METADATA"] = _metadata(project).encode()
    files[f"{info}/WHEEL"] = (
        b"Wheel-Version: 1.0\nGenerator: inferlab.dflash\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    entry_points = _entry_points(project)
    if entry_points:
        files[f"{info}/entry_points.txt"] = entry_points.encode()
    files[f"{info}/RECORD"] = _record(files, info).encode()
    filename = f"{distribution}-{project['version']}-py3-none-any.whl"
    return Wheel(project["name"], project["version"], filename, _archive(files))


def _sources(root: Path) -> dict[str, bytes]:
    paths = sorted(p for p in root.rglob("*") if p.is_file() and "__pycache__" not in p.parts and p.suffix != ".pyc")
    files = {path.relative_to(root).as_posix(): path.read_bytes() for path in paths}
    files = {name: content for name, content in files.items() if ".egg-info/" not in name}
    if not files:
        raise EngineError(f"{root} holds no package")
    return files


def _metadata(project: dict[str, Any]) -> str:
    lines = ["Metadata-Version: 2.1", f"Name: {project['name']}", f"Version: {project['version']}"]
    if "requires-python" in project:
        lines.append(f"Requires-Python: {project['requires-python']}")
    lines += [f"Requires-Dist: {requirement}" for requirement in project.get("dependencies", [])]
    for extra, requirements in sorted(project.get("optional-dependencies", {}).items()):
        lines.append(f"Provides-Extra: {extra}")
        for requirement in requirements:
            base, _separator, marker = requirement.partition(";")
            marker = f"({marker.strip()}) and extra == '{extra}'" if marker else f"extra == '{extra}'"
            lines.append(f"Requires-Dist: {base.strip()} ; {marker}")
    return "\n".join(lines) + "\n"


def _entry_points(project: dict[str, Any]) -> str:
    groups = {"console_scripts": project.get("scripts", {}), **project.get("entry-points", {})}
    sections = []
    for group, entries in sorted(groups.items()):
        if entries:
            sections.append(
                "\n".join([f"[{group}]", *(f"{name} = {target}" for name, target in sorted(entries.items()))])
            )
    return "\n\n".join(sections) + "\n" if sections else ""


def _record(files: dict[str, bytes], info: str) -> str:
    lines = []
    for name, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(content)}")
    return "\n".join([*lines, f"{info}/RECORD,,"]) + "\n"


def _archive(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    # Stored, not deflated: two versions of zlib may pack the same bytes differently.
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, date_time=(2020, 1, 1, 0, 0, 0))
            entry.external_attr = 0o644 << 16
            entry.create_system = 3
            archive.writestr(entry, content)
    return buffer.getvalue()
