# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Modules of the collection as single files that need only Python, for a machine without Ansible."""

from __future__ import annotations

import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile
from typing import Any

COLLECTIONS = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".collections"))


def pack(module: str, arguments: dict[str, Any], target: str) -> None:
    """Let Ansible pack a module with its arguments (it does so for each run) and keep the file. The module runs here once."""
    with tempfile.TemporaryDirectory() as temporary:
        environment = {
            **os.environ,
            "ANSIBLE_COLLECTIONS_PATH": COLLECTIONS,
            "ANSIBLE_KEEP_REMOTE_FILES": "1",
            "ANSIBLE_PIPELINING": "0",
            "ANSIBLE_REMOTE_TEMP": temporary,
        }
        argv = ["ansible", "localhost", "-i", "localhost,", "-c", "local", "-m", f"inferlab.dflash.{module}"]
        # It may well fail here, for what it looks at is on another machine.
        if arguments:
            argv += ["-a", json.dumps(arguments)]
        subprocess.run(argv, env=environment, check=False, stdout=subprocess.DEVNULL)
        packed = glob.glob(f"{temporary}/**/AnsiballZ_{module}.py", recursive=True)
        if not packed:
            sys.exit(f"Ansible left no packed {module} behind; is its bin directory in PATH?")
        os.makedirs(os.path.dirname(os.path.abspath(target)), exist_ok=True)
        shutil.copy(packed[0], target)


def call(target: str, options: list[str] | None = None, path: str | None = None) -> dict[str, Any]:
    """Run a packed module: its result, failed or not."""
    environment = {**os.environ, **({"PYTHONPATH": path} if path else {})}
    out = subprocess.run([sys.executable, *(options or []), target], capture_output=True, env=environment, check=False)
    try:
        return json.loads(out.stdout)
    except ValueError:
        sys.exit(f"the module failed: {out.stdout.decode()[-2000:]}{out.stderr.decode()[-2000:]}")
