# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""The wire: one streamed OpenAI request, timed event by event.

Two clients with one interface. ``RawClient`` is asyncio and ``json`` only, and is the default: a client that
spends as long on an event as the server spends on a step measures itself. ``OpenAIClient`` is the official
package, to show that what is measured is what its users get.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import urlsplit

from .prompts import Prompt


@dataclass(frozen=True)
class Sampling:
    """What is asked of the server for every prompt; part of the result record."""

    max_tokens: int = 64
    temperature: float = 0.0
    seed: int | None = None
    ignore_eos: bool = True
    endpoint: str = "completions"

    def body(self, model: str, prompt: Prompt) -> dict[str, Any]:
        """The request body, streaming, with usage in every event where the server can do that."""
        body: dict[str, Any] = {
            "model": model,
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
            "stream": True,
            "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        }
        if self.ignore_eos:
            body["ignore_eos"] = True
        if self.seed is not None:
            body["seed"] = self.seed
        if self.endpoint == "chat":
            body["messages"] = prompt.as_messages()
        else:
            body["prompt"] = prompt.text
        return body

    @property
    def path(self) -> str:
        """URL path below the base."""
        return "/v1/chat/completions" if self.endpoint == "chat" else "/v1/completions"


@dataclass
class Outcome:
    """One request as the client saw it. Times are seconds; `start` is on the clock of time.perf_counter."""

    prompt_id: str
    domain: str
    start: float = 0.0
    ttft: float = 0.0
    latency: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
    events: list[tuple[float, int | None]] = field(default_factory=list)
    """(seconds since the event before, tokens so far or None) for each event with text after the first."""
    first_event_tokens: int | None = None
    text: str = ""
    accept_length: float | None = None
    verify_rounds: int | None = None
    error: str | None = None
    """``kind: detail``; kinds: http_NNN, connect, timeout, protocol, empty, server."""

    @property
    def ok(self) -> bool:
        return self.error is None


class ApiError(Exception):
    """A request that failed in a way that has a kind."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(f"{kind}: {detail}")


class Client(Protocol):
    """A source of decoded stream events for one request."""

    name: str

    def events(self, body: dict[str, Any], path: str) -> AsyncIterator[dict[str, Any]]: ...

    async def close(self) -> None: ...


class RawClient:
    """HTTP/1.1 and server-sent events on asyncio streams, connections kept alive."""

    name = "raw"

    def __init__(self, url: str, api_key: str | None = None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"not an http(s) URL: {url!r}")
        self._host = parts.hostname
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._prefix = parts.path.rstrip("/").removesuffix("/v1")
        self._head = f"Host: {parts.netloc}\r\nAccept: text/event-stream\r\nContent-Type: application/json\r\n"
        if api_key:
            self._head += f"Authorization: Bearer {api_key}\r\n"
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        while self._idle:
            reader, writer = self._idle.pop()
            if not reader.at_eof() and not writer.is_closing():
                return reader, writer
            writer.close()
        try:
            return await asyncio.open_connection(self._host, self._port, ssl=self._tls, limit=1 << 20)
        except OSError as exc:
            raise ApiError("connect", str(exc)) from exc

    async def events(self, body: dict[str, Any], path: str) -> AsyncIterator[dict[str, Any]]:
        reader, writer = await self._connect()
        reusable = False
        try:
            data = json.dumps(body).encode()
            head = f"POST {self._prefix}{path} HTTP/1.1\r\n{self._head}Content-Length: {len(data)}\r\n\r\n"
            writer.write(head.encode("latin-1") + data)
            await writer.drain()
            status, headers = await _read_head(reader)
            chunks = _body(reader, headers)
            if status != 200:
                detail = b"".join([c async for c in chunks]).decode("utf-8", "replace")
                raise ApiError(f"http_{status}", detail[:300])
            buffer = b""
            finished = False
            async for chunk in chunks:
                buffer += chunk
                while b"\n" in buffer:
                    line, buffer = buffer.split(b"\n", 1)
                    if not line.startswith(b"data:"):
                        continue
                    payload = line[5:].strip()
                    if payload == b"[DONE]":
                        finished = True
                        continue
                    try:
                        yield json.loads(payload)
                    except json.JSONDecodeError as exc:
                        raise ApiError("protocol", f"event is not JSON: {payload[:120]!r}") from exc
            if not finished:
                raise ApiError("protocol", "the stream ended without [DONE]")
            reusable = "chunked" in headers.get("transfer-encoding", "") and headers.get("connection", "") != "close"
        except (asyncio.IncompleteReadError, ConnectionError) as exc:
            raise ApiError("connect", f"connection lost: {exc}") from exc
        finally:
            if reusable:
                self._idle.append((reader, writer))
            else:
                writer.close()

    async def close(self) -> None:
        for dummy, writer in self._idle:
            writer.close()
        self._idle.clear()


async def _read_head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    block = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *rest = block.split("\r\n")
    try:
        status = int(first.split(" ", 2)[1])
    except (IndexError, ValueError) as exc:
        raise ApiError("protocol", f"not HTTP: {first[:80]!r}") from exc
    headers = {}
    for line in rest:
        name, sep, value = line.partition(":")
        if sep:
            headers[name.strip().lower()] = value.strip().lower()
    return status, headers


async def _body(reader: asyncio.StreamReader, headers: dict[str, str]) -> AsyncIterator[bytes]:
    """The body piece by piece: chunked, by length, or until the peer closes."""
    if "chunked" in headers.get("transfer-encoding", ""):
        while True:
            size = int((await reader.readuntil(b"\r\n")).split(b";")[0], 16)
            data = await reader.readexactly(size + 2)
            if size == 0:
                return
            yield data[:-2]
    elif "content-length" in headers:
        yield await reader.readexactly(int(headers["content-length"]))
    else:
        while data := await reader.read(65536):
            yield data


class OpenAIClient:
    """The official client; fields it does not know are passed through its extra_body."""

    name = "openai"

    def __init__(self, url: str, api_key: str | None = None) -> None:
        from openai import AsyncOpenAI  # optional: only who asks for this client needs it

        base = url.rstrip("/").removesuffix("/v1")
        self._client = AsyncOpenAI(base_url=f"{base}/v1", api_key=api_key or "none", max_retries=0, timeout=None)

    async def events(self, body: dict[str, Any], path: str) -> AsyncIterator[dict[str, Any]]:
        import openai

        fields = dict(body)
        extra = {k: fields.pop(k) for k in ("ignore_eos",) if k in fields}
        create = self._client.chat.completions.create if "messages" in fields else self._client.completions.create
        try:
            async for event in await create(**fields, extra_body=extra):
                yield event.model_dump()
        except openai.APIStatusError as exc:
            raise ApiError(f"http_{exc.status_code}", str(exc)[:300]) from exc
        except openai.APIConnectionError as exc:
            raise ApiError("connect", str(exc)[:300]) from exc
        except openai.APIError as exc:
            raise ApiError("server", str(exc)[:300]) from exc

    async def close(self) -> None:
        await self._client.close()


def make_client(name: str, url: str, api_key: str | None = None) -> Client:
    """`raw` or `openai`; ValueError for another name, ImportError when the package is absent."""
    if name == "raw":
        return RawClient(url, api_key)
    if name == "openai":
        return OpenAIClient(url, api_key)
    raise ValueError(f"unknown client {name!r}: raw or openai")


def _piece(event: dict[str, Any]) -> str:
    choices = event.get("choices") or []
    if not choices:
        return ""
    delta = choices[0].get("delta")
    if isinstance(delta, dict):
        return (delta.get("reasoning_content") or "") + (delta.get("content") or "")
    return choices[0].get("text") or ""


async def ask(client: Client, model: str, prompt: Prompt, sampling: Sampling, timeout: float) -> Outcome:
    """Send one request, read its stream to the end, and never raise for what the server does.

    `timeout` (seconds) bounds the whole request.
    """
    out = Outcome(prompt.id, prompt.domain)
    pieces: list[str] = []
    out.start = last = time.perf_counter()

    async def read() -> None:
        nonlocal last
        async for event in client.events(sampling.body(model, prompt), sampling.path):
            now = time.perf_counter()
            if event.get("error"):
                raise ApiError("server", json.dumps(event["error"])[:300])
            usage = event.get("usage") or {}
            piece = _piece(event)
            if piece:
                pieces.append(piece)
                if not out.ttft:
                    out.ttft = now - out.start
                    out.first_event_tokens = usage.get("completion_tokens")
                else:
                    out.events.append((now - last, usage.get("completion_tokens")))
                last = now
            if usage:
                out.output_tokens = usage.get("completion_tokens") or out.output_tokens
                out.input_tokens = usage.get("prompt_tokens") or out.input_tokens
                out.accept_length = usage.get("acceptance_length", out.accept_length)
                out.verify_rounds = usage.get("verify_rounds", out.verify_rounds)

    try:
        await asyncio.wait_for(read(), timeout)
    except asyncio.TimeoutError:
        out.error = f"timeout: no end within {timeout:g} s"
    except ApiError as exc:
        out.error = str(exc)
    # The end of a request is its last text, as in sglang's benchmark; a failed one ends when it failed.
    out.latency = (last if pieces and out.ok else time.perf_counter()) - out.start
    out.text = "".join(pieces)
    if out.ok and not pieces:
        out.error = "empty: the stream carried no text"
    if not out.output_tokens:
        out.output_tokens = len(pieces)
    return out
