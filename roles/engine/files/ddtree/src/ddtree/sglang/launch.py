# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""Starts SGLang's HTTP server with an API key that no argument, log line, process list or endpoint shows.

usage: python -m ddtree.sglang.launch SGLANG-ARGUMENTS...

SGLang takes its key as an argument only, prints its arguments at start and returns them from ``/server_info``. Here the key
is read from ``$CREDENTIALS_DIRECTORY/api_key`` (systemd's LoadCredential) and given to SGLang's own authorisation
middleware; ServerArgs never holds it, so nothing that prints, copies or sends ServerArgs can leak it. Without a
credential the server runs without a key, as SGLang does.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

from ddtree.credential import CredentialError, unit_key
from ddtree.sglang import ALGORITHM


class LaunchError(ValueError):
    """Arguments that this launcher does not start a server with."""


def prepare_argv(argv: Sequence[str]) -> list[str]:
    """Refuse a key in the arguments; give DDTREE the attention backend its masks are proven for, if none is named."""
    for word in argv:
        option = word.split("=", 1)[0]
        if option in ("--api-key", "--admin-api-key"):
            raise LaunchError(f"{option} would show in the process list. Put the key into the credential api_key.")
    prepared = list(argv)
    options = {word.split("=", 1)[0] for word in argv}
    algorithm = _value(argv, "--speculative-algorithm")
    backends = {"--attention-backend", "--decode-attention-backend", "--prefill-attention-backend"}
    if (algorithm or "").upper() == ALGORITHM and not options & backends:
        prepared += ["--attention-backend", "triton"]
    return prepared


def _value(argv: Sequence[str], option: str) -> str | None:
    for word, following in zip(argv, [*argv[1:], None]):
        if word == option:
            return following
        if word.startswith(option + "="):
            return word.split("=", 1)[1]
    return None


def refuse_servers_without_middleware(server_args: Any) -> None:
    """A key protects SGLang's Python HTTP server in one process; every other front end would be open."""
    if getattr(server_args, "tokenizer_worker_num", 1) != 1:
        raise LaunchError("An API key needs --tokenizer-worker-num 1.")
    for option in ("smg_grpc_mode", "grpc_mode", "grpc_port", "use_ray", "encoder_only"):
        if getattr(server_args, option, None):
            raise LaunchError(f"An API key protects the HTTP server only. Leave --{option.replace('_', '-')} out.")


class KeyedArgs:
    """ServerArgs as SGLang's own warm-up request reads them: with the key, which their repr does not show."""

    def __init__(self, server_args: Any, key: str) -> None:
        self._server_args = server_args
        self._key = key

    @property
    def api_key(self) -> str:
        return self._key

    def __getattr__(self, name: str) -> Any:
        return getattr(self._server_args, name)

    def __repr__(self) -> str:
        return f"KeyedArgs({self._server_args!r})"


def serve(server_args: Any, key: str | None) -> None:
    """Run the server until it ends."""
    from sglang.srt.entrypoints import http_server

    if key is None:
        from sglang.launch_server import run_server

        run_server(server_args)
        return
    from sglang.srt.utils.auth import add_api_key_middleware

    from ddtree.sglang import releases

    release = releases.installed()
    refuse_servers_without_middleware(server_args)
    reason = release.refuse_front_end(os.environ)
    if reason is not None:
        raise LaunchError(reason)
    add_api_key_middleware(http_server.app, api_key=key, admin_api_key=None)
    release.launch_with_key(http_server, server_args, key, KeyedArgs)


def main(argv: Sequence[str] | None = None) -> int:
    try:
        key = unit_key(os.environ)
        arguments = prepare_argv(sys.argv[1:] if argv is None else argv)
    except (CredentialError, LaunchError) as error:
        print(f"ddtree.sglang.launch: {error}", file=sys.stderr)
        return 2
    from sglang.srt.plugins import load_plugins
    from sglang.srt.server_args import prepare_server_args
    from sglang.srt.utils import kill_process_tree

    load_plugins()
    server_args = prepare_server_args(arguments)
    try:
        serve(server_args, key)
    finally:
        kill_process_tree(os.getpid(), include_parent=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
