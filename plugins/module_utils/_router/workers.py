# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which workers a running router has, and what changes to get to the wanted ones. Pure."""

from __future__ import annotations

import typing as t
from urllib.parse import urlsplit


def address(url: str) -> str:
    """A worker's address in one spelling: scheme, host and port, no path and no trailing slash.

    :raises ValueError: naming the value, when it is no http(s) address with a port.
    """
    parts = urlsplit(url.strip())
    try:
        port = parts.port
    except ValueError:
        port = None
    if parts.scheme not in ("http", "https") or not parts.hostname or not port or parts.path.strip("/") or parts.query:
        raise ValueError(f"{url!r} is no worker address; write http://HOST:PORT")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}:{port}"


def plan(listed: t.Sequence[t.Mapping[str, t.Any]], wanted: t.Sequence[str]) -> dict[str, t.Any]:
    """``add`` (addresses) and ``remove`` (address to id) that lead from the router's list to the wanted one.

    :arg listed: ``workers`` of the router's /workers, each with ``id`` and ``url``.
    :arg wanted: addresses.
    """
    have = {address(str(worker["url"])): str(worker["id"]) for worker in listed}
    want = [address(url) for url in wanted]
    return {
        "add": [url for url in dict.fromkeys(want) if url not in have],
        "remove": {url: identifier for url, identifier in have.items() if url not in want},
    }


def missing(listed: t.Sequence[t.Mapping[str, t.Any]], wanted: t.Sequence[str]) -> list[str]:
    """Wanted workers that the router does not list as healthy."""
    healthy = {address(str(worker["url"])) for worker in listed if worker.get("is_healthy")}
    return [url for url in dict.fromkeys(address(url) for url in wanted) if url not in healthy]
