# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a model comes from, written as one string. Pure; private to this collection."""

from __future__ import annotations

import re
import typing as t

BUILTIN = ("nano-target", "nano-drafter")
FORMS = "/PATH on the host, builtin:NAME, control:/PATH on the control node, host:NAME:/PATH, hub:ORG/NAME@REVISION"


class ReferenceError(ValueError):
    """A model reference that cannot be understood; the text names it and the forms that can."""


class Reference(t.NamedTuple):
    """A parsed reference.

    kind: path, builtin, control, host or hub; ``name``: directory name of the staged copy; ``location``: path, builtin name or
    repository; ``host`` and ``revision`` where the kind has them.
    """

    kind: str
    name: str
    location: str
    host: str | None = None
    revision: str | None = None


def _directory_name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text.strip("/")).strip(".-") or "model"


def _path(text: str, reference: str) -> str:
    if not text.startswith("/") or "/../" in text + "/":
        raise ReferenceError(f"model {reference!r}: the path must be absolute and without '..'")
    return text.rstrip("/") or "/"


def parse(reference: str) -> Reference:
    """Parse ``reference``.

    :raises ReferenceError: an unknown form, an unknown builtin, a relative path, or a hub repository without a pinned revision.
    """
    if not isinstance(reference, str) or not reference.strip():
        raise ReferenceError(f"a model reference is missing or empty ({reference!r}); use one of: {FORMS}")
    text = reference.strip()
    if text.startswith("/"):
        path = _path(text, reference)
        return Reference("path", _directory_name(path.rsplit("/", 1)[-1]), path)
    kind, separator, rest = text.partition(":")
    if not separator:
        raise ReferenceError(f"model {reference!r} is not understood; use one of: {FORMS}")
    if kind == "builtin":
        if rest not in BUILTIN:
            raise ReferenceError(f"model {reference!r}: there is no builtin {rest!r}; there are: {', '.join(BUILTIN)}")
        return Reference("builtin", rest, rest)
    if kind == "control":
        path = _path(rest, reference)
        return Reference("control", _directory_name(path.rsplit("/", 1)[-1]), path)
    if kind == "host":
        host, separator, path = rest.partition(":")
        if not separator or not host:
            raise ReferenceError(f"model {reference!r}: write host:NAME:/PATH, NAME being a host of the inventory")
        return Reference(
            "host", _directory_name(_path(path, reference).rsplit("/", 1)[-1]), _path(path, reference), host=host
        )
    if kind == "hub":
        repository, separator, revision = rest.partition("@")
        if not re.match(r"^[A-Za-z0-9][\w.-]*/[\w.-]+$", repository):
            raise ReferenceError(
                f"model {reference!r}: {repository!r} is not a repository name; write hub:ORG/NAME@REVISION"
            )
        if not separator or not revision:
            raise ReferenceError(
                f"model {reference!r}: pin a revision (a commit hash), so that every host gets the same files: hub:{repository}@REVISION"
            )
        return Reference(
            "hub", _directory_name(f"{repository.replace('/', '--')}-{revision[:12]}"), repository, revision=revision
        )
    raise ReferenceError(f"model {reference!r}: the form {kind!r} is not known; use one of: {FORMS}")
