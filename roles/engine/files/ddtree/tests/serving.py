# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""A real server in this process, over real sockets, and a gate that holds its engine between rounds."""

from __future__ import annotations

import argparse
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import uvicorn
from ddtree import server
from openai import OpenAI

NANO = Path(__file__).resolve().parents[2] / "nano-pair"
MODEL = "nano"


def options(*words: str) -> argparse.Namespace:
    """Command line of a server for the nano pair."""
    pair = ("--model", str(NANO / "target"), "--drafter", str(NANO / "drafter"), "--served-model-name", MODEL)
    return server.arguments().parse_args([*pair, "--device", "cpu", *words])


@dataclass
class Gate:
    """Lets an engine take a limited number of rounds, or any number when open."""

    service: server.Service
    _permits: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    _open: bool = True

    def __post_init__(self) -> None:
        step = self.service.generator.step

        def gated():
            if not self._open:
                self._permits.acquire()
            return step()

        self.service.generator.step = gated

    def close(self) -> None:
        self._open = False

    def open(self) -> None:
        self._open = True
        self._permits.release()

    def allow(self, rounds: int) -> None:
        self._permits.release(rounds)


@dataclass
class Running:
    """A started server."""

    service: server.Service
    port: int
    gate: Gate
    key: str | None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def openai(self) -> OpenAI:
        return OpenAI(base_url=f"{self.url}/v1", api_key=self.key or "none", max_retries=0, timeout=60)

    def get(self, path: str, **more: object) -> httpx.Response:
        return httpx.get(self.url + path, timeout=60, **more)

    def post(self, path: str, **more: object) -> httpx.Response:
        return httpx.post(self.url + path, timeout=60, **more)

    def metric(self, name: str) -> float:
        """A sample by its name and labels; 0 if it has not been counted yet."""
        lines = [line for line in self.get("/metrics").text.splitlines() if line.startswith(name + " ")]
        return float(lines[0].split()[1]) if lines else 0.0


@contextmanager
def serving(*words: str, key_file: Path | None = None) -> Iterator[Running]:
    """Serve the nano pair with these options until the block ends."""
    chosen = options(*words)
    chosen.api_key_file = key_file
    service = server.load_service(chosen)
    gate = Gate(service)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        config = uvicorn.Config(server.create_app(service), log_config=None, timeout_graceful_shutdown=20)
        http = uvicorn.Server(config)
        thread = threading.Thread(target=http.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        until(lambda: http.started)
        try:
            yield Running(service, listener.getsockname()[1], gate, service.api_key)
        finally:
            gate.open()
            http.should_exit = True
            thread.join(30)
            service.scheduler.join(30)


def until(condition: Callable[[], object], seconds: float = 30) -> None:
    """Wait for something that another thread brings about; fails loudly if it never does."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)
