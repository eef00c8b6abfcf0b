# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""HTTP questions to an OpenAI-compatible server. Collects only; judging the answers is readiness.py's work."""

from __future__ import annotations

import json
import re
import socket
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any

# Short, in plain English, and long enough that a drafter has something to continue.
PROMPTS = (
    "def add(a, b):\n    return",
    "The quick brown fox jumps over the lazy dog. The quick brown fox",
    "1, 2, 3, 4, 5, 6,",
    "import os\nimport sys\n\ndef main():\n",
    "Once upon a time there was",
)
_ANSWER_LIMIT = 1 << 20
_ROUNDS, _TOKENS, _GAUGE = "ddtree_verify_rounds_total", "ddtree_accepted_tokens_total", "sglang:spec_accept_length"
_METRIC = re.compile(rf"^({_ROUNDS}|{_TOKENS}|{_GAUGE})(?:\{{[^}}]*\}})? (\d+(?:\.\d+)?(?:e[+-]?\d+)?)\s*$")


@dataclass(frozen=True)
class Answer:
    """One HTTP exchange: C(status) is None when no HTTP answer came, then C(error) says why."""

    status: int | None
    body: str = ""
    error: str = ""

    def json(self) -> Any:
        """The body as JSON, or None where it is none."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None


class Client:
    """Talks to one server. Proxies are ignored on purpose: the server is on this host or on the fleet's own network."""

    def __init__(self, base_url: str, api_key: str | None = None) -> None:
        self._base = base_url.rstrip("/")
        self._headers = {"User-Agent": "inferlab-dflash", "Accept": "application/json"}
        if api_key:
            self._headers["Authorization"] = f"Bearer {api_key}"
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def request(self, path: str, payload: dict[str, Any] | None = None, timeout: float = 5.0) -> Answer:
        """GET I(path), or POST I(payload) as JSON to it. Never raises for what the server or the network does."""
        headers = dict(self._headers)
        data = None
        if payload is not None:
            data = json.dumps(payload).encode()
            headers["Content-Type"] = "application/json"
        request = urllib.request.Request(self._base + path, data=data, headers=headers)
        try:
            with self._opener.open(request, timeout=timeout) as response:
                return Answer(response.status, response.read(_ANSWER_LIMIT).decode("utf-8", "replace"))
        except urllib.error.HTTPError as exc:
            return Answer(exc.code, exc.read(_ANSWER_LIMIT).decode("utf-8", "replace"))
        except urllib.error.URLError as exc:
            return Answer(None, error=_reason(exc.reason))
        except (OSError, ValueError) as exc:
            return Answer(None, error=_reason(exc))

    def model(self) -> str | None:
        """The first model name that /v1/models lists."""
        listing = self.request("/v1/models").json()
        data = listing.get("data") if isinstance(listing, dict) else None
        if isinstance(data, list) and data and isinstance(data[0], dict):
            return data[0].get("id")
        return None

    def generate(self, model: str, prompt: str = PROMPTS[0], max_tokens: int = 1, timeout: float = 60.0) -> Answer:
        """Ask for a greedy completion of I(max_tokens) tokens."""
        payload = {"model": model, "prompt": prompt, "max_tokens": max_tokens, "temperature": 0}
        return self.request("/v1/completions", payload, timeout)

    def speculation(self) -> dict[str, float]:
        """Counters and gauges of /metrics that tell of speculation, summed over their labels; empty without metrics."""
        totals: dict[str, float] = {}
        for line in self.request("/metrics").body.splitlines():
            found = _METRIC.match(line)
            if found:
                name = found.group(1)
                totals[name] = totals.get(name, 0.0) + float(found.group(2))
        return totals


def acceptance(before: dict[str, float], after: dict[str, float]) -> float | None:
    """Tokens per verify round between two readings of the metrics; None where no round was counted."""
    rounds = after.get(_ROUNDS, 0.0) - before.get(_ROUNDS, 0.0)
    tokens = after.get(_TOKENS, 0.0) - before.get(_TOKENS, 0.0)
    if rounds > 0:
        return tokens / rounds
    # SGLang's own gauge, which the chain algorithm keeps: a mean over its last interval.
    return after.get(_GAUGE) or None


def generation(answer: Answer) -> dict[str, Any]:
    """What a completion answer says: {ok, tokens, text, acceptance_length, status, error}."""
    body = answer.json()
    result: dict[str, Any] = {
        "ok": False,
        "status": answer.status,
        "error": answer.error,
        "tokens": None,
        "text": None,
        "acceptance_length": None,
    }
    if answer.status != 200 or not isinstance(body, dict):
        if not result["error"]:
            result["error"] = _error_text(body, answer)
        return result
    choices = body.get("choices")
    usage = body.get("usage") if isinstance(body.get("usage"), dict) else {}
    first = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else None
    result["tokens"] = usage.get("completion_tokens")
    result["acceptance_length"] = usage.get("acceptance_length")
    if first is None:
        result["error"] = "the answer has no choices"
        return result
    result["text"] = first.get("text")
    # A token may decode to an empty string (half of a multi-byte character), so the count decides, not the text.
    result["ok"] = bool(result["tokens"]) if isinstance(result["tokens"], int) else bool(result["text"])
    if not result["ok"]:
        result["error"] = "the answer holds no token"
    return result


def _error_text(body: Any, answer: Answer) -> str:
    if isinstance(body, dict):
        error = body.get("error", body.get("message"))
        if isinstance(error, dict):
            error = error.get("message")
        if error:
            return f"HTTP {answer.status}: {error}"
    return f"HTTP {answer.status}"


def _reason(exc: Any) -> str:
    if isinstance(exc, (socket.timeout, TimeoutError)):
        return "timeout"
    if isinstance(exc, ConnectionRefusedError):
        return "connection refused"
    if isinstance(exc, (ConnectionResetError, BrokenPipeError)):
        return "connection reset"
    return str(exc) or type(exc).__name__
