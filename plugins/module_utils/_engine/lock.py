# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lock files: pip requirements with exact versions and hashes, and one ``# lock:`` line that says what they are for."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ansible_collections.inferlab.dflash.plugins.module_utils._engine.errors import EngineError

_PIN = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==([A-Za-z0-9.!+_-]+)$")
_HASH = re.compile(r"^--hash=sha256:([0-9a-f]{64})$")
# Above a pin with several builds, tools/resolve_lock.py says which hash is which.
_BUILD = re.compile(r"^# \S+ (\S+): ([0-9a-f]{64})$", re.MULTILINE)
_META = re.compile(r"^# lock:\s*(.*)$", re.MULTILINE)
_META_KEYS = ("name", "backend", "python", "machine", "glibc", "cuda")


@dataclass(frozen=True)
class Pin:
    """One package of a lock; ``hashes`` lists the sha256 of every build that may be installed, the preferred one first.

    ``builds`` are the full versions of these ("2.13.0+cpu"), in the same order; ``version`` is the public one.
    """

    name: str
    version: str
    hashes: tuple[str, ...]
    builds: tuple[str, ...]


@dataclass(frozen=True)
class Lock:
    """A parsed lock; the meta fields are strings as written (``python`` "3.11", ``cuda`` "13.0" or "none")."""

    name: str
    backend: str
    python: str
    machine: str
    glibc: str
    cuda: str
    pins: tuple[Pin, ...]
    text: str

    @property
    def meta(self) -> dict[str, str]:
        """The fields of the ``# lock:`` line."""
        return {key: getattr(self, key) for key in _META_KEYS}

    @property
    def hashes(self) -> frozenset[str]:
        """Every sha256 that the lock allows."""
        return frozenset(digest for pin in self.pins for digest in pin.hashes)


def normalise(name: str) -> str:
    """A distribution's name as PEP 503 compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def parse(text: str) -> Lock:
    """Read a lock; raises EngineError naming the line for anything that is not ``name==version`` with sha256 hashes."""
    meta = _meta(text)
    builds = {digest: version for version, digest in _BUILD.findall(text)}
    pins: dict[str, Pin] = {}
    for line in text.replace("\\\n", " ").splitlines():
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        match = _PIN.match(words[0])
        hashes = [_HASH.match(word) for word in words[1:]]
        if not match or not hashes or not all(hashes):
            raise EngineError(f"lock {meta['name']}: not 'name==version --hash=sha256:...': {line.strip()[:120]!r}")
        digests = tuple(h.group(1) for h in hashes if h)
        versions = tuple(builds.get(digest, match.group(2)) for digest in digests)
        pin = Pin(normalise(match.group(1)), match.group(2), digests, versions)
        if pin.name in pins:
            raise EngineError(f"lock {meta['name']}: {pin.name} is pinned twice")
        pins[pin.name] = pin
    if not pins:
        raise EngineError(f"lock {meta['name']}: no package in it")
    return Lock(pins=tuple(pins.values()), text=text, **meta)


def _meta(text: str) -> dict[str, str]:
    match = _META.search(text)
    if not match:
        raise EngineError("not a lock: no '# lock: name=... backend=...' line; write it with tools/resolve_lock.py")
    meta = dict(word.split("=", 1) for word in match.group(1).split() if "=" in word)
    missing = [key for key in _META_KEYS if not meta.get(key)]
    if missing:
        raise EngineError(f"the '# lock:' line lacks {', '.join(missing)}")
    return {key: meta[key] for key in _META_KEYS}
