# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""A scripted OpenAI server: known speed, known acceptance, faults on request. Standard library only.

A verify round takes `--step` seconds and yields one token (none), about 2.5 (dflash) or more with the
budget (ddtree). The text of a prompt is the same whatever the algorithm, as from a lossless engine at
temperature 0, except with `--fault simulated`.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import random
import signal
import time

BLOCK = 16


class Fake:
    """State and behaviour of the scripted server."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.begin = time.monotonic()
        self.requests = self.running = self.generated = self.rounds = self.accepted = 0
        self.histogram = dict.fromkeys(range(1, BLOCK + 1), 0)
        self.warming = args.warm_up > 0

    def accept(self, rng: random.Random) -> int:
        """Tokens of one verify round."""
        if self.args.algorithm == "none":
            return 1
        if self.args.fault == "simulated":
            return 6
        mean = 2.5 if self.args.algorithm == "dflash" else 2.5 + 0.06 * min(self.args.budget, 32)
        count = 1
        while count < BLOCK and rng.random() < 1 - 1 / mean:
            count += 1
        return count

    def step(self) -> float:
        """Seconds of one round now."""
        seconds = self.args.step
        if self.args.algorithm == "ddtree":
            seconds *= 1 + max(0, self.args.budget - 16) * self.args.node_cost
        if self.args.fault == "slower":
            seconds *= 1 + self.args.slope * (time.monotonic() - self.begin)
        return seconds

    def words(self, prompt: str) -> random.Random:
        """The source of the output text: of the prompt alone unless acceptance is simulated."""
        salt = f"{self.args.algorithm}{self.args.budget}" if self.args.fault == "simulated" else ""
        return random.Random(hashlib.sha256((salt + prompt).encode()).hexdigest())

    def metrics(self) -> str:
        lines = [
            f"ddtree_requests_total {self.requests}",
            f"ddtree_requests_running {self.running}",
            "ddtree_requests_waiting 0",
            f"ddtree_generation_tokens_total {self.generated}",
        ]
        if self.args.algorithm != "none":
            lines += [f"ddtree_verify_rounds_total {self.rounds}", f"ddtree_accepted_tokens_total {self.accepted}"]
            total = 0
            for length, count in self.histogram.items():
                total += count
                lines.append(f'ddtree_accept_length_bucket{{le="{length}.0"}} {total}')
            lines.append(f'ddtree_accept_length_bucket{{le="+Inf"}} {total}')
            lines += [f"ddtree_accept_length_sum {self.accepted}", f"ddtree_accept_length_count {self.rounds}"]
        return "\n".join(lines) + "\n"

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                length = next(
                    (int(h.split(":")[1]) for h in head.split("\r\n") if h.lower().startswith("content-le")), 0
                )
                body = json.loads(await reader.readexactly(length)) if length else {}
                method, path, dummy = head.split("\r\n")[0].split(" ")
                if self.args.api_key and f"Bearer {self.args.api_key}" not in head and path.startswith("/v1/"):
                    self.plain(writer, 401, {"error": {"message": "wrong API key"}})
                elif method == "GET":
                    self.get(writer, path)
                else:
                    await self.complete(writer, body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, ValueError):
            pass
        finally:
            writer.close()

    def plain(self, writer: asyncio.StreamWriter, status: int, body: object) -> None:
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        writer.write(
            f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n".encode()
        )
        writer.write(data)

    def get(self, writer: asyncio.StreamWriter, path: str) -> None:
        replies: dict[str, object] = {
            "/metrics": self.metrics(),
            "/v1/models": {"data": [{"id": "fake"}]},
            "/health": {},
            "/server_info": {
                "algorithm": self.args.algorithm,
                "budget": self.args.budget,
                "secret": "never to be recorded",
                "simulated_acceptance": self.args.confess,
            },
        }
        if path == "/health" and self.warming:
            self.plain(writer, 503, {})
            return
        self.plain(writer, 200 if path in replies else 404, replies.get(path, {"error": {"message": "not found"}}))

    async def warm_up(self) -> None:
        """As SGLang: a request of the server's own, some time after it answers others already."""
        await asyncio.sleep(self.args.warm_up)
        self.requests += 1
        self.warming = False

    async def complete(self, writer: asyncio.StreamWriter, body: dict) -> None:
        self.requests += 1
        serial = self.requests
        if self.args.fault == "errors" and serial % self.args.every == 0:
            self.plain(writer, 500, {"error": {"message": "planted error"}})
            return
        prompt = body.get("prompt") or body["messages"][-1]["content"]
        limit = body.get("max_tokens", 16)
        words, rng = self.words(prompt), random.Random(prompt)
        self.running += 1
        try:
            sent, rounds = 0, 0
            if body.get("stream"):
                writer.write(
                    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
                )
            text = ""
            while sent < limit:
                await asyncio.sleep(self.step())
                # The first token is the prefill's and belongs to no verify round.
                count = 1 if sent == 0 else min(self.accept(rng), limit - sent)
                if sent and self.args.algorithm != "none":
                    self.rounds, self.accepted, rounds = self.rounds + 1, self.accepted + count, rounds + 1
                    self.histogram[count] += 1
                sent += count
                self.generated += count
                piece = "".join(f"w{words.randrange(1000)} " for dummy in range(count))
                text += piece
                if body.get("stream"):
                    if self.args.fault == "cut" and serial % self.args.every == 0 and sent > 4:
                        writer.close()
                        return
                    await self.event(writer, {**self.choice(body, piece), "usage": self.usage(sent, rounds)})
            if body.get("stream"):
                await self.event(writer, {"choices": [], "usage": self.usage(sent, rounds)})
                writer.write(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")
            else:
                self.plain(writer, 200, {"choices": [{"text": text}], "usage": self.usage(sent, rounds)})
        finally:
            self.running -= 1

    @staticmethod
    def choice(body: dict, piece: str) -> dict:
        chat = "messages" in body
        inner = {"delta": {"content": piece}} if chat else {"text": piece}
        kind = "chat.completion.chunk" if chat else "text_completion"
        choice = {"index": 0, "finish_reason": None, **inner}
        return {"id": "x", "object": kind, "created": 0, "model": "fake", "choices": [choice]}

    @staticmethod
    def usage(sent: int, rounds: int) -> dict:
        usage = {"prompt_tokens": 5, "completion_tokens": sent, "total_tokens": 5 + sent}
        return {**usage, "acceptance_length": (sent - 1) / rounds, "verify_rounds": rounds} if rounds else usage

    @staticmethod
    async def event(writer: asyncio.StreamWriter, data: dict) -> None:
        line = f"data: {json.dumps(data)}\n\n".encode()
        writer.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
        await writer.drain()


def parser() -> argparse.ArgumentParser:
    """Options of the scripted server; those of ddtree.server that make no difference here are accepted."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--host", default="127.0.0.1")
    options.add_argument("--port", type=int, required=True)
    options.add_argument("--algorithm", choices=("none", "dflash", "ddtree"), default="none")
    options.add_argument("--budget", type=int, default=16)
    options.add_argument("--step", type=float, default=0.002)
    options.add_argument("--node-cost", type=float, default=0.02)
    options.add_argument("--fault", choices=("slower", "errors", "cut", "simulated", "exit"))
    options.add_argument("--slope", type=float, default=1.0, help="slower: how much a second")
    options.add_argument("--every", type=int, default=5, help="errors, cut: each so many requests")
    options.add_argument("--confess", action="store_true", help="say in /server_info that acceptance is simulated")
    options.add_argument("--warm-up", type=float, default=0.0, help="seconds until the server's own warm-up request")
    options.add_argument("--api-key")
    return options


async def serve(args: argparse.Namespace) -> None:
    """Serve until SIGTERM."""
    if args.fault == "exit":
        raise SystemExit("planted: the model does not fit")
    fake = Fake(args)
    server = await asyncio.start_server(fake.handle, args.host, args.port)
    warming = asyncio.create_task(fake.warm_up()) if args.warm_up else None
    done = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, done.set)
    async with server:
        await done.wait()
    if warming:
        warming.cancel()


if __name__ == "__main__":
    asyncio.run(serve(parser().parse_known_args()[0]))
