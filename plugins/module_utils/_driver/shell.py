# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a command that changes packages. Private to this collection."""

from __future__ import annotations

import os
import subprocess
import typing as t

from ansible_collections.inferlab.dflash.plugins.module_utils._driver.quiet import Quiet
from ansible_collections.inferlab.dflash.plugins.module_utils._gpu.host import search_path

# needrestart does nothing, no front end asks, no change log is shown.
ENVIRONMENT = {
    "DEBIAN_FRONTEND": "noninteractive",
    "NEEDRESTART_SUSPEND": "1",
    "NEEDRESTART_MODE": "l",
    "APT_LISTCHANGES_FRONTEND": "none",
    "UCF_FORCE_CONFFOLD": "1",
    "LC_ALL": "C",
}


class Failed(Exception):
    """A package command failed; the message holds what it said."""


def act(argv: t.Sequence[str], log: str, quiet: Quiet | None = None) -> None:
    """Run it, with its output appended to the log file and in a session of its own: neither a lost connection nor the end of
    this process stops it half way. Raises Failed with its last lines."""
    os.makedirs(os.path.dirname(log), exist_ok=True)
    with open(log, "ab") as file:
        start = file.tell()
        file.write(f"# {' '.join(argv)}\n".encode())
        file.flush()
        # run_command starts no session of its own: a package transaction must outlive this process.
        code = subprocess.call(  # pylint: disable=ansible-bad-function
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env={**os.environ, **ENVIRONMENT, "PATH": search_path()},
            start_new_session=True,
            pass_fds=quiet.descriptors if quiet else [],
        )
    if code != 0:
        with open(log, "rb") as file:
            file.seek(start)
            words = file.read().decode("utf-8", "replace").splitlines()
        raise Failed(f"{argv[0]} ended with status {code}: " + " / ".join(words[-15:]))
