# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""The life of a server under test: started fresh for one configuration, ready, stopped without a trace.

``ProcessServer`` runs a child process (a container or a machine without systemd). ``TransientUnit`` runs a
systemd transient unit, which needs no unit file and no daemon-reload and so disturbs nothing else.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from . import metrics


class StartFailed(RuntimeError):
    """The server did not become ready; the message ends with the tail of its log."""


class PortTaken(RuntimeError):
    """Something answers already where the server is to listen."""


class Server(Protocol):
    """What the sweep needs of a server."""

    def start(self, argv: Sequence[str], env: Mapping[str, str]) -> None: ...

    def alive(self) -> bool: ...

    def stop(self) -> None: ...

    def log_tail(self, lines: int = 20) -> str: ...


class ProcessServer:
    """A child process in its own session; its output goes to `log`."""

    def __init__(self, log: Path, grace: float = 15.0) -> None:
        self._log, self._grace = log, grace
        self._child: subprocess.Popen[bytes] | None = None

    def start(self, argv: Sequence[str], env: Mapping[str, str]) -> None:
        with self._log.open("wb") as out:
            self._child = subprocess.Popen(
                list(argv),
                env={**os.environ, **env},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def alive(self) -> bool:
        return self._child is not None and self._child.poll() is None

    def stop(self) -> None:
        if self._child is None:
            return
        for how in (signal.SIGTERM, signal.SIGKILL):
            # The whole group: an engine's workers must not outlive it and hold the GPU.
            try:
                os.killpg(self._child.pid, how)
            except ProcessLookupError:
                break
            try:
                self._child.wait(self._grace)
            except subprocess.TimeoutExpired:
                continue
        self._child = None

    def log_tail(self, lines: int = 20) -> str:
        try:
            return "\n".join(self._log.read_text("utf-8", "replace").splitlines()[-lines:])
        except OSError as exc:
            return f"(no log: {exc})"


class TransientUnit:
    """A systemd transient unit `name` with the given `properties` (User, credentials, limits, ...)."""

    def __init__(self, name: str, properties: Sequence[str] = (), systemd_run: str = "systemd-run") -> None:
        self._name, self._properties, self._run = name, list(properties), systemd_run
        self._since = time.time()

    def start(self, argv: Sequence[str], env: Mapping[str, str]) -> None:
        self.stop()  # left over from a run that was cut off
        self._since = time.time()
        command = [self._run, "--quiet", f"--unit={self._name}", "--property=Type=exec"]
        command += [f"--property={p}" for p in self._properties]
        command += [f"--setenv={key}={value}" for key, value in env.items()]
        try:
            subprocess.run([*command, "--", *argv], check=True, capture_output=True, text=True)
        except subprocess.CalledProcessError as exc:
            raise StartFailed(f"{self._name}: {exc.stderr.strip()}\n{self.log_tail()}") from exc

    def alive(self) -> bool:
        done = subprocess.run(["systemctl", "is-active", self._name], capture_output=True, text=True, check=False)
        return done.stdout.strip() in ("active", "activating", "deactivating")

    def stop(self) -> None:
        for verb in ("stop", "reset-failed"):
            subprocess.run(["systemctl", verb, self._name], capture_output=True, check=False)

    def log_tail(self, lines: int = 20) -> str:
        command = ["journalctl", "-u", self._name, "-o", "cat", "-n", str(lines), f"--since=@{self._since:.0f}"]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def generates(url: str, model: str, api_key: str | None, timeout: float = 30.0) -> str | None:
    """None when the server completes one token, else why not. A health endpoint alone proves nothing."""
    body = json.dumps({"model": model, "prompt": "1", "max_tokens": 1, "temperature": 0}).encode()
    request = urllib.request.Request(f"{url.rstrip('/').removesuffix('/v1')}/v1/completions", data=body)
    request.add_header("Content-Type", "application/json")
    if api_key:
        request.add_header("Authorization", f"Bearer {api_key}")
    try:
        with urllib.request.urlopen(request, timeout=timeout) as response:
            reply = json.load(response)
        return None if reply.get("choices") else f"no choices in the answer: {str(reply)[:200]}"
    except urllib.error.HTTPError as exc:
        return f"HTTP {exc.code}: {exc.read(200).decode('utf-8', 'replace')}"
    except (OSError, ValueError) as exc:
        return str(exc)


def still_starting(url: str, timeout: float = 30.0) -> str | None:
    """Why a server that may generate already is not done starting, else None.

    SGLang answers requests before it has sent its own warm-up request, which would count as somebody else's in what is
    measured first; until then its /health says 503. Any other answer says nothing here.
    """
    try:
        metrics.get(url, "/health", timeout=timeout)
    except urllib.error.HTTPError as exc:
        return "its health endpoint says 503 still" if exc.code == 503 else None
    except OSError as exc:
        return str(exc)
    return None


def answers(url: str) -> bool:
    """True when anything at all speaks HTTP at `url`."""
    try:
        metrics.get(url, "/v1/models", timeout=2.0)
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


def start_ready(
    server: Server,
    argv: Sequence[str],
    env: Mapping[str, str],
    url: str,
    model: str,
    api_key: str | None,
    timeout: float,
) -> float:
    """Start `server` and wait until it generates and is done starting; seconds that took. Stops it again on failure."""
    if answers(url):
        raise PortTaken(f"something answers at {url} already; it is left alone, choose another port")
    begin = time.monotonic()
    server.start(argv, env)
    reason: str | None = "not asked yet"
    try:
        while time.monotonic() - begin < timeout:
            if not server.alive():
                raise StartFailed(f"the server ended during its start\n{server.log_tail()}")
            reason = still_starting(url) or generates(url, model, api_key)
            if reason is None:
                return time.monotonic() - begin
            time.sleep(0.25)
        raise StartFailed(f"not ready within {timeout:g} s, last answer: {reason}\n{server.log_tail()}")
    except BaseException:
        server.stop()
        raise
