# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""OpenAI-compatible server over `ddtree.generate`: the stand-alone engine, for a CPU or one GPU.

    python -m ddtree.server --model DIR [--drafter DIR] --algorithm none|dflash|ddtree --port P ...

Endpoints: /v1/models, /v1/completions, /v1/chat/completions (streaming and not), /health, /health_generate, /metrics, /server_info.
An API key, if there is one, is read from a file: `--api-key-file`, or `api_key` in systemd's $CREDENTIALS_DIRECTORY. It is asked
for everywhere but on /health, /health_generate and /metrics, and appears in no argument, log or answer.

SIGTERM: the listening socket closes, requests under way are finished (`--drain-timeout` seconds at most), then the process ends.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import hmac
import json
import logging
import os
import socket
import sys
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ddtree.options import arguments

if __name__ == "__main__":
    # Wrong arguments end it here: the imports below take seconds, and systemd starts a server that ended again.
    arguments().parse_args()
    # What they make stays: looking through it for garbage would be a sixth of the start.
    gc.disable()

import torch
import uvicorn
from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse, StreamingResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.exceptions import HTTPException
from transformers import AutoTokenizer

import ddtree
from ddtree.credential import key_of, unit_key
from ddtree.drafter import Drafter
from ddtree.generate import Generator, generate
from ddtree.metrics import Metrics
from ddtree.protocol import ApiError, ChatRequest, CompletionRequest, GenerationRequest, StreamOptions, parse
from ddtree.sampling import SamplingParams
from ddtree.scheduler import Event, Job, QueueFull, Scheduler, Stopped
from ddtree.target import ModelError, Target
from ddtree.text import TextStream

log = logging.getLogger("ddtree.server")

MAX_BODY_BYTES = 16 << 20
MAX_PROMPTS = 32
DEFAULT_COMPLETION_TOKENS = 16
"""What /v1/completions generates when the request does not say, as at OpenAI; a chat may fill the context."""
HEALTH_TIMEOUT = 60.0
OPEN_PATHS = ("/health", "/health_generate", "/metrics")


@dataclass(frozen=True)
class Settings:
    """What the server is and serves; all of it is public (/server_info)."""

    model: str
    drafter: str | None
    algorithm: str
    budget: int
    block_size: int
    served_model_name: str
    context_length: int
    dtype: str
    device: str
    max_queue: int
    max_batch: int
    seed: int | None


class Service:
    """Model, tokenizer, scheduler and metrics behind the endpoints."""

    def __init__(
        self, generator: Generator, tokenizer: Any, settings: Settings, eos: frozenset[int], api_key: str | None = None
    ) -> None:
        self.generator = generator
        self.tokenizer = tokenizer
        self.settings = settings
        self.api_key = api_key
        self.eos = eos
        self.started = int(time.time())
        self.scheduler = Scheduler(generator, settings.max_queue, settings.max_batch)
        self.metrics = Metrics(generator.block_size, self.scheduler)
        self.scheduler.observe = self.metrics.observe
        # No token stands for more bytes than the longest one, so a text of more characters than this cannot fit.
        self._most_characters = settings.context_length * max(map(len, tokenizer.get_vocab()))

    def check_model(self, name: str) -> None:
        served = self.settings.served_model_name
        if name != served:
            raise ApiError(
                404,
                f"the model {name!r} does not exist here; {served!r} is served",
                param="model",
                code="model_not_found",
            )

    def encode(self, prompt: str | list[int]) -> list[int]:
        """Tokens of a prompt, or an `ApiError` that says why it cannot be one."""
        limit = self.settings.context_length
        if isinstance(prompt, str):
            if len(prompt) > self._most_characters:
                raise ApiError(
                    400,
                    f"a prompt of {len(prompt)} characters cannot fit the context of {limit} tokens",
                    param="prompt",
                    code="context_length_exceeded",
                )
            try:
                tokens = self.tokenizer(prompt, add_special_tokens=False, verbose=False).input_ids
            except (TypeError, ValueError) as error:  # lone surrogates, for one
                raise ApiError(400, f"the prompt is not valid text: {error}", param="prompt") from None
        else:
            tokens = prompt
            wrong = next((token for token in tokens if not 0 <= token < self.generator.target.vocab_size), None)
            if wrong is not None:
                raise ApiError(400, f"token {wrong} is not in the vocabulary", param="prompt", code="invalid_value")
        if not tokens:
            raise ApiError(400, "the prompt is empty", param="prompt", code="invalid_value")
        return tokens

    def chat_prompt(self, request: ChatRequest) -> str:
        """The conversation as the model's chat template writes it."""
        if not self.tokenizer.chat_template:
            raise ApiError(400, "this model has no chat template; use /v1/completions", code="no_chat_template")
        try:
            return self.tokenizer.apply_chat_template(
                [message.plain() for message in request.messages],
                tokenize=False,
                add_generation_prompt=True,
                **request.chat_template_kwargs,
            )
        except Exception as error:  # templates raise what they like
            raise ApiError(400, f"the chat template refuses these messages: {error}", param="messages") from None

    def params(self, request: GenerationRequest, prompt: list[int], wanted: int | None) -> SamplingParams:
        """Sampling parameters of a request; `wanted` new tokens, None to fill the context."""
        room = self.settings.context_length - len(prompt)
        if room < 1 or (wanted is not None and wanted > room):
            asked = "" if wanted is None else f" and {wanted} new tokens"
            raise ApiError(
                400,
                f"{len(prompt)} prompt tokens{asked} do not fit the context of {self.settings.context_length} tokens",
                param="max_tokens" if room >= 1 else "prompt",
                code="context_length_exceeded",
            )
        stops = frozenset(request.stop_token_ids) | (frozenset() if request.ignore_eos else self.eos)
        return SamplingParams(
            max_new_tokens=wanted or room,
            temperature=request.temperature,
            top_p=request.top_p,
            top_k=max(request.top_k, 0),
            seed=self.settings.seed if request.seed is None else request.seed,
            stop_token_ids=stops,
        )


class Answers:
    """The jobs of one HTTP request and the events they send, for as long as the client stays."""

    def __init__(self, service: Service, request: Request) -> None:
        self._service = service
        self._request = request
        self._loop = asyncio.get_running_loop()
        self._events: asyncio.Queue[tuple[int, Event | None]] = asyncio.Queue()  # None: the client has gone
        self._outcome = "cancelled"
        self.jobs: list[Job] = []

    def add(self, prompt: list[int], params: SamplingParams, stop: tuple[str, ...]) -> None:
        index = len(self.jobs)

        def sink(event: Event) -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody listens any more
                self._loop.call_soon_threadsafe(self._events.put_nowait, (index, event))

        self.jobs.append(Job(prompt, params, TextStream(self._service.tokenizer, stop), sink))

    def submit(self, urgent: bool = False) -> None:
        """Queue the jobs. From here on `close` must be called, whatever happens."""
        scheduler = self._service.scheduler
        try:
            scheduler.submit(self.jobs, urgent)
        except QueueFull:
            self._service.metrics.requests.labels("refused").inc()
            raise ApiError(
                429, f"the queue is full: {scheduler.waiting} requests wait already, try again later", code="queue_full"
            ) from None
        except Stopped:
            raise ApiError(503, "the engine has stopped", code="stopped") from None
        self._watch = asyncio.ensure_future(self._watch_client())

    async def events(self) -> AsyncIterator[tuple[int, Event]]:
        """Events of all jobs until each has ended, one has failed, or the client has gone away."""
        left = len(self.jobs)
        while left:
            index, event = await self._events.get()
            if event is None:
                return
            left -= event.finish_reason is not None
            if event.error:
                self._outcome, left = "failed", 0
            elif not left:
                self._outcome = "completed"
            yield index, event

    async def _watch_client(self) -> None:
        # The body has been read, so the next message that says something is the disconnect.
        while (await self._request.receive())["type"] != "http.disconnect":
            pass
        self._events.put_nowait((0, None))

    def close(self) -> None:
        """Free the work of jobs that have not ended, and count how the request went."""
        self._watch.cancel()
        self._service.scheduler.cancel(self.jobs)
        self._service.metrics.requests.labels(self._outcome).inc()

    def usage(self) -> dict[str, Any]:
        rounds = [accepted for job in self.jobs for accepted in job.sequence.rounds]
        prompt = sum(len(job.prompt) for job in self.jobs)
        completion = sum(job.completion_tokens for job in self.jobs)
        return {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
            "acceptance_length": round(sum(rounds) / len(rounds), 4) if rounds else None,
            "verify_rounds": len(rounds),
        }


class Form:
    """How answers of one endpoint look: `completions` or chat."""

    def __init__(self, service: Service, chat: bool) -> None:
        self.chat = chat
        prefix, kind = ("chatcmpl", "chat.completion") if chat else ("cmpl", "text_completion")
        self._kind = kind
        self._head = {
            "id": f"{prefix}-{uuid.uuid4().hex}",
            "created": int(time.time()),
            "model": service.settings.served_model_name,
        }

    def whole(self, texts: list[str], reasons: list[str | None], usage: dict[str, Any]) -> dict[str, Any]:
        choices = []
        for index, (text, reason) in enumerate(zip(texts, reasons, strict=True)):
            content = {"message": {"role": "assistant", "content": text}} if self.chat else {"text": text}
            choices.append({"index": index, **content, "logprobs": None, "finish_reason": reason})
        return {**self._head, "object": self._kind, "choices": choices, "usage": usage}

    def chunk(self, choices: list[dict[str, Any]], usage: dict[str, Any] | None = None) -> bytes:
        kind = "chat.completion.chunk" if self.chat else self._kind
        body = {**self._head, "object": kind, "choices": choices}
        if usage is not None:
            body["usage"] = usage
        return _server_sent(body)

    def part(self, index: int, event: Event) -> dict[str, Any]:
        content = {"delta": {"content": event.text} if event.text else {}} if self.chat else {"text": event.text}
        return {"index": index, **content, "logprobs": None, "finish_reason": event.finish_reason}

    def opening(self, index: int) -> dict[str, Any]:
        delta = {"role": "assistant", "content": ""}
        return {"index": index, "delta": delta, "logprobs": None, "finish_reason": None}


def _server_sent(body: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(body, ensure_ascii=False)}\n\n".encode()


async def _read_body(request: Request) -> bytes:
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MAX_BODY_BYTES:
            raise ApiError(413, f"the request body is larger than {MAX_BODY_BYTES} bytes", code="body_too_large")
    return bytes(body)


async def _answer(service: Service, request: Request, chat: bool) -> Response:
    """One completion request from its bytes to its answer."""
    wish = await run_in_threadpool(parse, ChatRequest if chat else CompletionRequest, await _read_body(request))
    service.check_model(wish.model)
    if chat:
        texts: list[str | list[int]] = [service.chat_prompt(wish)]
        wanted = wish.max_completion_tokens or wish.max_tokens
    else:
        texts = wish.prompts()
        wanted = wish.max_tokens or DEFAULT_COMPLETION_TOKENS
        if not 1 <= len(texts) <= MAX_PROMPTS:
            raise ApiError(400, f"prompt takes 1 to {MAX_PROMPTS} prompts, here are {len(texts)}", param="prompt")

    answers = Answers(service, request)
    for text in texts:
        prompt = await run_in_threadpool(service.encode, text)
        answers.add(prompt, service.params(wish, prompt, wanted), wish.stop_strings)
    answers.submit()
    form = Form(service, chat)
    if wish.stream:
        return Stream(answers, form, wish.stream_options)
    try:
        return await _whole(answers, form)
    finally:
        answers.close()


async def _whole(answers: Answers, form: Form) -> Response:
    texts: list[str] = [""] * len(answers.jobs)
    reasons: list[str | None] = [None] * len(answers.jobs)
    async for index, event in answers.events():
        if event.error:
            raise ApiError(500, event.error, code="engine_error")
        texts[index] += event.text
        reasons[index] = event.finish_reason
    return JSONResponse(form.whole(texts, reasons, answers.usage()))


class Stream(StreamingResponse):
    """Server-sent events. Sending may be abandoned before it began, so the work is freed here, not in the iterator."""

    def __init__(self, answers: Answers, form: Form, options: StreamOptions | None) -> None:
        super().__init__(self._parts(answers, form, options or StreamOptions()), media_type="text/event-stream")
        self._answers = answers

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._answers.close()

    @staticmethod
    async def _parts(answers: Answers, form: Form, options: StreamOptions) -> AsyncIterator[bytes]:
        if form.chat:
            yield form.chunk([form.opening(index) for index in range(len(answers.jobs))])
        async for index, event in answers.events():
            if event.error:
                yield _server_sent(ApiError(500, event.error, code="engine_error").body())
                return
            yield form.chunk([form.part(index, event)], answers.usage() if options.continuous_usage_stats else None)
        if options.include_usage:
            yield form.chunk([], answers.usage())
        yield b"data: [DONE]\n\n"


async def _health_generate(service: Service, request: Request) -> Response:
    """One real token through the whole engine, in front of the queue."""
    answers = Answers(service, request)
    answers.add([min(service.eos, default=0)], SamplingParams(max_new_tokens=1), ())
    answers.submit(urgent=True)
    try:
        await asyncio.wait_for(_whole(answers, Form(service, chat=False)), HEALTH_TIMEOUT)
    except asyncio.TimeoutError:
        raise ApiError(503, f"no token was generated within {HEALTH_TIMEOUT:.0f} s", code="unhealthy") from None
    finally:
        answers.close()
    return JSONResponse({"status": "ok"})


async def _authenticate(request: Request) -> None:
    """Ask for the API key, if the server has one."""
    key = request.app.state.service.api_key
    if key is None or request.url.path in OPEN_PATHS:
        return
    scheme, dummy, given = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(), key.encode()):
        raise ApiError(401, "this server needs an API key, sent as 'Authorization: Bearer KEY'", code="invalid_api_key")


def create_app(service: Service) -> FastAPI:
    """The HTTP application. The scheduler runs from start-up to shutdown."""

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        service.scheduler.start()
        yield
        service.scheduler.stop()

    app = FastAPI(
        lifespan=lifespan, dependencies=[Depends(_authenticate)], docs_url=None, redoc_url=None, openapi_url=None
    )
    app.state.service = service
    app.include_router(_routes(service))

    @app.exception_handler(ApiError)
    async def api_error(_request: Request, error: ApiError) -> Response:
        headers = {401: {"WWW-Authenticate": "Bearer"}, 429: {"Retry-After": "1"}}.get(error.status)
        return JSONResponse(error.body(), status_code=error.status, headers=headers)

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> Response:
        what = f"{request.method} {request.url.path}: {error.detail}"
        return JSONResponse(ApiError(error.status_code, what).body(), status_code=error.status_code)

    @app.exception_handler(Exception)
    async def bug(_request: Request, error: Exception) -> Response:
        return JSONResponse(ApiError(500, f"internal error: {type(error).__name__}").body(), status_code=500)

    return app


def _routes(service: Service) -> APIRouter:
    router = APIRouter()
    model = {
        "id": service.settings.served_model_name,
        "object": "model",
        "created": service.started,
        "owned_by": "inferlab-ddtree",
        "max_model_len": service.settings.context_length,
    }

    @router.get("/v1/models")
    async def models() -> Response:
        return JSONResponse({"object": "list", "data": [model]})

    @router.get("/v1/models/{name:path}")
    async def one_model(name: str) -> Response:
        service.check_model(name)
        return JSONResponse(model)

    @router.post("/v1/completions")
    async def completions(request: Request) -> Response:
        return await _answer(service, request, chat=False)

    @router.post("/v1/chat/completions")
    async def chat_completions(request: Request) -> Response:
        return await _answer(service, request, chat=True)

    @router.get("/health")
    async def health() -> Response:
        if not service.scheduler.is_alive():
            raise ApiError(503, "the engine has stopped", code="unhealthy")
        return JSONResponse({"status": "ok"})

    @router.get("/health_generate")
    async def health_generate(request: Request) -> Response:
        return await _health_generate(service, request)

    @router.get("/metrics")
    async def metrics() -> Response:
        return Response(generate_latest(service.metrics.registry), media_type=CONTENT_TYPE_LATEST)

    @router.get("/server_info")
    async def server_info() -> Response:
        return JSONResponse({"engine": "inferlab-ddtree", "version": ddtree.__version__, **asdict(service.settings)})

    return router


def read_api_key(file: Path | None) -> str | None:
    """The key, or None if the server shall be open. Raises CredentialError."""
    return unit_key(os.environ) if file is None else key_of(file)


def load_service(options: argparse.Namespace) -> Service:
    """Read the checkpoints and generate once, so that a pair that cannot work fails now and not at the first request."""
    device = options.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = options.dtype
    if dtype == "auto":
        dtype = "float32" if device == "cpu" else "bfloat16"
    for name in ("budget", "max_queue", "max_batch"):
        if getattr(options, name) < 1:
            raise ModelError(f"--{name.replace('_', '-')} must be at least 1, not {getattr(options, name)}")
    started = time.monotonic()
    drafter = None
    if options.algorithm != "none":
        if not options.drafter:
            raise ModelError(f"--algorithm {options.algorithm} needs --drafter")
        drafter = Drafter.load(options.drafter, dtype, device)
    target = Target.load(options.model, dtype, device)
    generator = Generator(target, drafter, options.algorithm, options.budget, options.block_size)
    try:
        tokenizer = AutoTokenizer.from_pretrained(options.model, local_files_only=True)
    except (OSError, ValueError) as error:
        raise ModelError(f"{options.model} has no usable tokenizer: {error}") from error
    context = options.context_length or target.max_positions or 4096
    if target.max_positions and not 2 <= context <= target.max_positions:
        raise ModelError(f"--context-length {context} is not between 2 and the model's {target.max_positions}")
    settings = Settings(
        model=options.model,
        drafter=options.drafter if drafter else None,
        algorithm=options.algorithm,
        budget=generator.budget,
        block_size=generator.block_size,
        served_model_name=options.served_model_name or Path(options.model).resolve().name,
        context_length=context,
        dtype=dtype,
        device=device,
        max_queue=options.max_queue,
        max_batch=options.max_batch,
        seed=options.seed,
    )
    service = Service(generator, tokenizer, settings, target.eos, read_api_key(options.api_key_file))
    generate(generator, [[min(target.eos, default=0)]], SamplingParams(max_new_tokens=4))
    log.info("ready after %.1f s: %s", time.monotonic() - started, settings)
    return service


def main(argv: list[str] | None = None) -> int:
    """Run the server until SIGTERM or SIGINT. Returns 1, with the reason on stderr, when it cannot start."""
    options = arguments().parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    try:
        # Tried before the model is loaded, so that a port in use is known at once.
        family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
        socket.create_server((options.host, options.port), family=family).close()
        service = load_service(options)
    except (OSError, ModelError, ValueError) as error:
        print(f"ddtree.server: {error}", file=sys.stderr)
        return 1
    gc.freeze()
    gc.enable()
    config = uvicorn.Config(
        create_app(service),
        host=options.host,
        port=options.port,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=options.drain_timeout,
    )
    uvicorn.Server(config).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
