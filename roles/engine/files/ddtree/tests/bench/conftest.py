# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""A scripted server as a child process, and a small prompt set."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ddtree.bench import control

FAKE = Path(__file__).with_name("fake_server.py")


@pytest.fixture
def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


@pytest.fixture
def fake(free_port):
    """Start the scripted server with options; returns its URL."""
    children = []

    def start(*options: str) -> str:
        url = f"http://127.0.0.1:{free_port}"
        children.append(subprocess.Popen([sys.executable, str(FAKE), "--port", str(free_port), *options]))
        deadline = time.monotonic() + 20
        while not control.answers(url):
            assert children[-1].poll() is None and time.monotonic() < deadline, "the scripted server did not start"
            time.sleep(0.02)
        return url

    yield start
    for child in children:
        child.terminate()
        child.wait()


@pytest.fixture
def prompt_file(tmp_path):
    path = tmp_path / "prompts.jsonl"
    rows = [
        {"id": f"{domain}-{i}", "domain": domain, "prompt": f"{domain} number {i}"}
        for domain in ("code", "prose")
        for i in range(6)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path
