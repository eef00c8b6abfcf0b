# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a staged model lacks, and whether there is room for it. Pure; private to this collection."""

from __future__ import annotations

import typing as t

# Space that staging leaves free: logs and caches of the running services share the file system.
RESERVE_BYTES = 256 * 1024 * 1024


class StagingError(ValueError):
    """Staging that must not begin; the text says why and what helps."""


def differences(wanted: t.Mapping[str, t.Any], present: t.Mapping[str, t.Any]) -> list[str]:
    """Paths whose content differs between two manifests, missing and surplus ones included, sorted."""
    left = {entry["path"]: entry["sha256"] for entry in wanted["files"]}
    right = {entry["path"]: entry["sha256"] for entry in present["files"]}
    return sorted(path for path in set(left) | set(right) if left.get(path) != right.get(path))


def drifted(kept: t.Mapping[str, t.Any] | None, seen: t.Mapping[str, tuple[int, int]]) -> list[str]:
    """Files of a staged directory that changed since its manifest was written, by size and time in nanoseconds.

    :param seen: path to (size, mtime_ns) of what is there now.
    """
    if kept is None:
        return sorted(seen)
    expected = {entry["path"]: (entry["size"], entry["mtime_ns"]) for entry in kept["files"]}
    return sorted(path for path in set(expected) | set(seen) if expected.get(path) != seen.get(path))


def to_send(wanted: t.Mapping[str, t.Any], have: t.Mapping[str, str]) -> list[dict[str, t.Any]]:
    """Entries of ``wanted`` that have to travel; ``have`` maps path to SHA-256 of what a killed run already brought."""
    return [entry for entry in wanted["files"] if have.get(entry["path"]) != entry["sha256"]]


def check_space(need: int, free: int, folder: str) -> None:
    """Refuse before the first byte when ``need`` bytes do not fit into ``free`` with the reserve left over.

    :raises StagingError: naming both sizes and the folder.
    """
    if need + RESERVE_BYTES > free:
        raise StagingError(
            f"{folder} has {free / 2**30:.2f} GiB free, the model needs {need / 2**30:.2f} GiB and {RESERVE_BYTES / 2**30:.2f} GiB stay in reserve; "
            "free space there, or set models_directory to a larger file system"
        )


def check_source(manifest: t.Mapping[str, t.Any], source: str) -> None:
    """Refuse a directory that is no model: there must be a config.json and at least one weight file.

    :raises StagingError: naming what is missing.
    """
    names = {entry["path"] for entry in manifest["files"]}
    if "config.json" not in names:
        raise StagingError(f"{source} is not a model directory: it has no config.json")
    if not any(name.endswith(".safetensors") for name in names):
        raise StagingError(f"{source} is not a model directory: it has no .safetensors file")
