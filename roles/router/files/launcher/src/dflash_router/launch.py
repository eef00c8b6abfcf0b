# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Start sglang-router with settings from the environment and its API key from systemd's credentials.

The router's own launcher takes the key on the command line, where every user of the host can read it, and imports a web
framework that only its debugging mode needs. This one reads

* ``DFLASH_ROUTER_SETTINGS``: a JSON object of fields of RouterArgs,
* ``DFLASH_ROUTER_WORKERS``: path of a JSON list of worker addresses, which may change while the router runs,
* ``$CREDENTIALS_DIRECTORY/api_key``: the key that clients must send and that workers are asked with; absent for none.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import typing as t

#: Set here only; a key among the settings would end up in the environment and so in /proc.
_REFUSED = ("api_key", "worker_urls")


class SettingsError(ValueError):
    """Settings that the router would not take; the text names the value and the way out."""


def read_settings(environ: t.Mapping[str, str], known: t.Iterable[str]) -> dict[str, t.Any]:
    """Fields of RouterArgs from the environment; raises SettingsError for anything that is not one of ``known``."""
    try:
        settings = json.loads(environ.get("DFLASH_ROUTER_SETTINGS", "{}"))
        with open(environ["DFLASH_ROUTER_WORKERS"], encoding="utf-8") as stream:
            workers = json.load(stream)
    except KeyError as exc:
        raise SettingsError("DFLASH_ROUTER_WORKERS is not set; start the router by its unit") from exc
    except (OSError, ValueError) as exc:
        raise SettingsError(f"the router's settings or workers cannot be read: {exc}") from exc
    if not isinstance(settings, dict) or not isinstance(workers, list):
        raise SettingsError("the settings must be a JSON object and the workers a JSON list")
    known = set(known)
    for name in settings:
        if name in _REFUSED:
            raise SettingsError(f"{name} is no setting: keys come as a credential, workers from their file")
        if name not in known:
            raise SettingsError(f"{name} is unknown to this sglang-router; see RouterArgs in its package")
    return {**settings, "worker_urls": [str(worker) for worker in workers]}


def read_key(environ: t.Mapping[str, str]) -> str | None:
    """The key from systemd's credentials, or None when the unit has none. Raises SettingsError for one that cannot be used.

    systemd sets ``CREDENTIALS_DIRECTORY`` only for units that load a credential, so a key that is missing there is a fault: an open
    router is not what was asked for. Where ``/`` is mounted private, as in some containers, units do not see their credentials.
    """
    directory = environ.get("CREDENTIALS_DIRECTORY")
    if not directory:
        return None
    path = os.path.join(directory, "api_key")
    try:
        with open(path, encoding="utf-8") as stream:
            key = stream.read().strip()
    except OSError as exc:
        raise SettingsError(
            f"the API key cannot be read: {exc}. Without it the router would be open to everyone. In a container whose / is mounted "
            "private, run `mount --make-rshared /` in it and start the unit again"
        ) from exc
    if not key:
        raise SettingsError(f"the API key {path} is empty; write the key into it")
    return key


def main() -> None:
    """Run the router until it is stopped; with ``--check`` only say whether it would take its settings."""
    from sglang_router.router import Router
    from sglang_router.router_args import RouterArgs

    try:
        settings = read_settings(os.environ, [field.name for field in dataclasses.fields(RouterArgs)])
        router = Router.from_args(RouterArgs(**settings, api_key=read_key(os.environ)))
    except (SettingsError, TypeError, ValueError, KeyError, OverflowError) as exc:
        sys.exit(f"dflash_router: {exc}")
    if sys.argv[1:] != ["--check"]:
        router.start()


if __name__ == "__main__":
    main()
