# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""Requests and answers of the OpenAI API, as far as this server speaks it.

A field that would change the output and is not implemented is refused, never ignored. Fields that only label a request are
accepted. Extensions beyond OpenAI, as in other servers: `top_k`, `ignore_eos`, `stop_token_ids`, `chat_template_kwargs`,
`stream_options.continuous_usage_stats`; and in `usage`: `acceptance_length` and `verify_rounds`.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

# Where a refused field may stand with a value that changes nothing.
_WITHOUT_EFFECT = (None, False, 0, 0.0, 1, "", [], {})


class ApiError(Exception):
    """An answer with an OpenAI error body."""

    def __init__(self, status: int, message: str, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.param, self.code = status, message, param, code

    def body(self) -> dict[str, Any]:
        kinds = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
        fallback = "server_error" if self.status >= 500 else "invalid_request_error"
        kind = kinds.get(self.status, fallback)
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}


def _refuse(reason: str) -> BeforeValidator:
    def check(value: Any) -> Any:
        # bool is compared by type: 1 == True, and `logprobs: true` is a wish while `n: 1` is none.
        if value is True or not any(value == harmless for harmless in _WITHOUT_EFFECT):
            raise ValueError(f"not supported: {reason}")
        return None

    return BeforeValidator(check)


def _refuse_unless(harmless: Any, reason: str) -> BeforeValidator:
    def check(value: Any) -> Any:
        if value is not None and (isinstance(value, bool) != isinstance(harmless, bool) or value != harmless):
            raise ValueError(f"not supported: {reason}")
        return None

    return BeforeValidator(check)


NO_LOGPROBS = "draft trees verify many tokens in one pass and their log-probabilities are not kept; leave logprobs out"
NO_PENALTY = "a penalty depends on the output so far, which differs from row to row of a draft tree"


class StreamOptions(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    include_usage: bool = False
    continuous_usage_stats: bool = False


class GenerationRequest(BaseModel):
    """What completions and chat completions have in common."""

    model_config = ConfigDict(strict=True, extra="forbid")

    model: str
    stream: bool = False
    stream_options: StreamOptions | None = None
    max_tokens: int | None = Field(default=None, ge=1)
    temperature: float = Field(default=1.0, ge=0.0, le=2.0, allow_inf_nan=False)
    top_p: float = Field(default=1.0, gt=0.0, le=1.0, allow_inf_nan=False)
    top_k: int = Field(default=0, ge=-1)
    seed: int | None = Field(default=None, ge=-(2**63), le=2**63 - 1)
    stop: str | list[str] | None = None
    stop_token_ids: list[int] = Field(default_factory=list, max_length=64)
    ignore_eos: bool = False

    # Labels without effect on the output.
    user: str | None = None
    metadata: dict[str, Any] | None = None
    store: bool | None = None
    service_tier: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    separate_reasoning: bool | None = None  # no reasoning parser here, so these two change nothing
    stream_reasoning: bool | None = None

    n: Annotated[None, _refuse_unless(1, "one choice per request; send the request several times instead")] = None
    frequency_penalty: Annotated[None, _refuse_unless(0, NO_PENALTY)] = None
    presence_penalty: Annotated[None, _refuse_unless(0, NO_PENALTY)] = None
    repetition_penalty: Annotated[None, _refuse_unless(1, NO_PENALTY)] = None
    min_p: Annotated[None, _refuse_unless(0, "use top_p or top_k")] = None
    logit_bias: Annotated[None, _refuse("logit_bias")] = None
    # SGLang's router adds these to every request that it hands on, at the values that change nothing.
    no_stop_trim: Annotated[None, _refuse_unless(False, "stop strings are always cut off")] = None
    skip_special_tokens: Annotated[None, _refuse_unless(True, "special tokens have no text")] = None
    return_hidden_states: Annotated[None, _refuse_unless(False, "hidden states are not kept")] = None

    @model_validator(mode="after")
    def _check_stop(self) -> GenerationRequest:
        if len(self.stop_strings) > 16 or any(not 0 < len(stop) <= 256 for stop in self.stop_strings):
            raise ValueError("stop takes up to 16 strings of 1 to 256 characters")
        if self.stream_options is not None and not self.stream:
            raise ValueError("stream_options needs stream: true")
        return self

    @property
    def stop_strings(self) -> tuple[str, ...]:
        if self.stop is None:
            return ()
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)


class CompletionRequest(GenerationRequest):
    prompt: str | list[str] | list[int] | list[list[int]]

    best_of: Annotated[None, _refuse_unless(1, "one choice per request")] = None
    # Zero is a wish too: the log-probability of the chosen token.
    logprobs: Annotated[None, _refuse_unless(False, NO_LOGPROBS)] = None
    echo: Annotated[None, _refuse_unless(False, "put the prompt in front of the text yourself")] = None
    suffix: Annotated[None, _refuse_unless("", "the model completes text at its end only")] = None

    def prompts(self) -> list[str | list[int]]:
        """One entry per wanted completion."""
        if isinstance(self.prompt, str) or (self.prompt and isinstance(self.prompt[0], int)):
            return [self.prompt]
        return list(self.prompt)


class TextPart(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    type: Literal["text"]
    text: str


def _as_parts(content: Any) -> Any:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


class Message(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    role: str
    content: Annotated[list[TextPart], BeforeValidator(_as_parts)]
    name: str | None = None

    def plain(self) -> dict[str, str]:
        """The message as chat templates take it."""
        return {"role": self.role, "content": "".join(part.text for part in self.content)}


class ChatRequest(GenerationRequest):
    messages: list[Message] = Field(min_length=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    chat_template_kwargs: dict[str, Any] = Field(default_factory=dict)

    logprobs: Annotated[None, _refuse_unless(False, NO_LOGPROBS)] = None
    top_logprobs: Annotated[None, _refuse_unless(0, NO_LOGPROBS)] = None
    tools: Annotated[None, _refuse("tools")] = None
    continue_final_message: Annotated[None, _refuse_unless(False, "the answer is always a new message")] = None
    tool_choice: Annotated[None, _refuse_unless("none", "tools")] = None
    parallel_tool_calls: bool | None = None
    response_format: Annotated[None, _refuse_unless({"type": "text"}, "structured output")] = None


def parse(kind: type[GenerationRequest], body: bytes) -> Any:
    """A request of this kind from a JSON body; `ApiError` 400 says which field is wrong and why."""
    try:
        raw = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ApiError(400, f"the request body is not valid JSON: {error}", code="invalid_json") from None
    if not isinstance(raw, dict):
        raise ApiError(400, "the request body must be a JSON object", code="invalid_json")
    try:
        # A field that is null is a field that was not given, also one that is not known here.
        return kind.model_validate({field: value for field, value in raw.items() if value is not None})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        param = str(first["loc"][0]) if first["loc"] else None
        if first["type"] == "extra_forbidden":
            raise ApiError(400, f"unknown field {place}", param=param, code="unknown_parameter") from None
        message = first["msg"].removeprefix("Value error, ")
        raise ApiError(400, f"{place}: {message}" if place else message, param=param, code="invalid_value") from None
