# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""The API key as a systemd credential. A key that was meant to be there and is not must never leave a server open."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


class CredentialError(ValueError):
    """A key that cannot be used; the text names the file, the reason and the way out, and never the key."""


def key_of(file: Path) -> str:
    """The key in ``file``: one word. Raises CredentialError."""
    try:
        key = file.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise CredentialError(f"{file}: the API key cannot be read: {error}") from error
    if not key or any(c.isspace() for c in key):
        raise CredentialError(f"{file}: the API key must be one word without spaces. Write it as one line.")
    return key


def unit_key(environ: Mapping[str, str]) -> str | None:
    """The key of the unit's credential ``api_key``, None for a unit without one.

    systemd sets ``CREDENTIALS_DIRECTORY`` only for units that load a credential. An empty or missing directory is therefore a fault:
    where ``/`` is mounted private, as in some containers, systemd fills a directory that the unit does not see.
    """
    directory = environ.get("CREDENTIALS_DIRECTORY")
    if not directory:
        return None
    file = Path(directory) / "api_key"
    if file.exists():
        return key_of(file)
    try:
        others = any(Path(directory).iterdir())
    except OSError:
        others = False
    if others:
        return None
    raise CredentialError(
        f"{directory}: systemd gave this unit credentials, but none can be seen there; without its API key the server would be open "
        "to everyone. In a container whose / is mounted private, run `mount --make-rshared /` in it and start the unit again."
    )
