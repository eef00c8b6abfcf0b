# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A directory of wheels on a host: what of a lock is there, and taking in what the control node sent."""

from __future__ import annotations

import hashlib
import tarfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

from ansible_collections.inferlab.dflash.plugins.module_utils._engine import manifest
from ansible_collections.inferlab.dflash.plugins.module_utils._engine.errors import EngineError


def by_hash(directories: Iterable[Path]) -> dict[str, Path]:
    """sha256 -> path of every wheel in these directories; one that does not exist holds none."""
    return {manifest.sha256(path): path for directory in directories for path in sorted(directory.glob("*.whl"))}


def missing(wanted: Iterable[tuple[str, Iterable[str]]], present: Iterable[str]) -> list[str]:
    """Names of the (name, acceptable hashes) pairs of which no build is present. Pure."""
    have = set(present)
    return [name for name, hashes in wanted if have.isdisjoint(hashes)]


def take_in(archive: Path, directory: Path, allowed: Iterable[str]) -> list[str]:
    """Unpack a tar of wheels into ``directory``, each under its name only once its hash is known to be allowed.

    Returns their names. Raises EngineError naming the first file whose hash no lock allows: it was tampered with, or
    damaged on the way.
    """
    allowed = frozenset(allowed)
    directory.mkdir(parents=True, exist_ok=True)
    taken = []
    with tarfile.open(archive) as bundle:
        for member in bundle:
            source = bundle.extractfile(member)
            name = Path(member.name).name
            if source is None or not name.endswith(".whl"):
                raise EngineError(f"{member.name} is no wheel")
            partial = directory / f".{name}.partial"
            digest = hashlib.sha256()
            with open(partial, "wb") as sink:
                for block in iter(lambda: source.read(1 << 20), b""):  # noqa: B023 (consumed in this round)
                    digest.update(block)
                    sink.write(block)
            if digest.hexdigest() not in allowed:
                partial.unlink()
                raise EngineError(
                    f"{name}: sha256 {digest.hexdigest()} is not in the lock; damaged or not the one locked"
                )
            partial.chmod(0o644)
            partial.replace(directory / name)
            taken.append(name)
    return taken


def unpacked_bytes(paths: Iterable[Path]) -> int:
    """Bytes the wheels take once installed (without byte code)."""
    total = 0
    for path in paths:
        with zipfile.ZipFile(path) as archive:
            total += sum(info.file_size for info in archive.infolist())
    return total
