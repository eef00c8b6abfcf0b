# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What module engine_info reports, read from a host or from a tree that stands in for one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.inferlab.dflash.plugins.module_utils._engine import build, foreign, host, manifest, usage

DRIFT_SHOWN = 50
_RECORDED = ("backend", "lock", "created", "python", "packages", "plugin", "patches")


@dataclass(frozen=True)
class Places:
    """Where to look; ``releases`` and ``instances`` are absolute paths as the host sees them, below ``root``."""

    root: Path
    releases: str
    instances: str

    def at(self, path: str) -> Path:
        return self.root / path.lstrip("/")


def host_offers(places: Places, python: str) -> dict[str, Any]:
    """Python, C library, processor and room, as module engine_info documents them."""
    return {
        "python": host.python(python),
        "glibc": host.glibc(),
        "machine": host.machine(),
        "free_bytes": host.free_bytes(places.at(places.releases)),
    }


def releases(places: Places, only: str | None, verify: str) -> list[dict[str, Any]]:
    """The releases on disk, oldest first; ``verify`` as in build.inspect."""
    directory = places.at(places.releases)
    needed = usage.links(places.at(places.instances), Path(places.releases), directory)
    known = [entry for entry in build.finished(directory) if only in (None, entry["id"])]
    found = []
    for identifier in (entry["id"] for entry in sorted(known, key=lambda entry: (entry["created"], entry["id"]))):
        state = build.inspect(directory / identifier, verify)
        recorded = state["manifest"] or {}
        found.append(
            {
                "id": identifier,
                "path": f"{places.releases}/{identifier}",
                "state": state["state"],
                "drift": state["drift"][:DRIFT_SHOWN],
                "drift_count": len(state["drift"]),
                **{key: recorded.get(key) for key in _RECORDED},
                "instances": needed.get(identifier, []),
            }
        )
    return found


def wheel_files(places: Places, directory: str) -> list[dict[str, str]]:
    """Name and sha256 of the wheels in a directory."""
    return [{"name": path.name, "sha256": manifest.sha256(path)} for path in sorted(places.at(directory).glob("*.whl"))]


def foreign_engines(places: Places, search: Sequence[str], depth: int) -> list[dict[str, Any]]:
    """Engines that are not releases, with paths as the host sees them."""
    own = places.at(places.releases).parent
    found = []
    for start in search:
        for entry in foreign.find(places.at(start), depth, skip=own):
            found.append({**entry, "path": "/" + str(Path(entry["path"]).relative_to(places.root))})
    return found
