# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""The server over real sockets: what clients get, and how it behaves when they or the engine misbehave."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import httpx
import openai
import pytest
import torch
from ddtree import server
from serving import MODEL, NANO, Running, serving, until

PROMPT = "def add(a, b):\n"
QUESTION = [{"role": "user", "content": "A box holds 5 pens. Ana has 4 boxes. How many pens are there in total?"}]


@pytest.fixture(scope="module")
def running():
    with serving("--algorithm", "ddtree", "--budget", "8") as started:
        yield started


@pytest.fixture(scope="module")
def narrow():
    """One request at a time, one may wait."""
    with serving("--max-batch", "1", "--max-queue", "1") as started:
        yield started


def complete(running: Running, prompt: object = PROMPT, **more: object):
    asked = {"max_tokens": 24, "temperature": 0, **more}
    return running.openai.completions.create(model=MODEL, prompt=prompt, **asked)


# --- What clients get


def test_models(running) -> None:
    assert [model.id for model in running.openai.models.list()] == [MODEL]
    assert running.openai.models.retrieve(MODEL).id == MODEL
    with pytest.raises(openai.NotFoundError):
        running.openai.models.retrieve("other")


def test_completion_is_transformers_own(running) -> None:
    service = running.service
    ids = torch.tensor([service.tokenizer(PROMPT).input_ids])
    out = service.generator.target.model.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=24, do_sample=False, pad_token_id=0
    )[0, ids.shape[1] :]
    answer = complete(running)
    assert answer.choices[0].text == service.tokenizer.decode(out, skip_special_tokens=True)
    usage = answer.usage
    assert usage.prompt_tokens == ids.shape[1]
    assert usage.completion_tokens == len(out)
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    assert usage.acceptance_length == pytest.approx((len(out) - 1) / usage.verify_rounds, abs=1e-3)


def test_chat(running) -> None:
    answer = running.openai.chat.completions.create(model=MODEL, messages=QUESTION, temperature=0, max_tokens=30)
    text = running.service.tokenizer.apply_chat_template(QUESTION, tokenize=False, add_generation_prompt=True)
    assert answer.choices[0].message.content == complete(running, text, max_tokens=30).choices[0].text
    assert answer.choices[0].message.role == "assistant"
    parts = [{"role": "user", "content": [{"type": "text", "text": QUESTION[0]["content"]}]}]
    again = running.openai.chat.completions.create(model=MODEL, messages=parts, temperature=0, max_completion_tokens=30)
    assert again.choices[0].message.content == answer.choices[0].message.content


def test_streams_say_the_same_as_whole_answers(running) -> None:
    whole = complete(running)
    parts = list(complete(running, stream=True, stream_options={"include_usage": True}))
    assert "".join(part.choices[0].text for part in parts[:-1]) == whole.choices[0].text
    assert parts[-2].choices[0].finish_reason == whole.choices[0].finish_reason == "length"
    assert parts[-1].choices == []
    assert parts[-1].usage == whole.usage
    assert all(part.usage is None for part in parts[:-1])

    chat = {"model": MODEL, "messages": QUESTION, "temperature": 0, "max_tokens": 20}
    answer = running.openai.chat.completions.create(**chat)
    chunks = list(running.openai.chat.completions.create(**chat, stream=True))
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == answer.choices[0].message.content
    assert len({chunk.id for chunk in chunks}) == 1


def test_usage_in_every_event(running) -> None:
    wish = {"include_usage": True, "continuous_usage_stats": True}
    parts = list(complete(running, stream=True, extra_body={"stream_options": wish}))
    counts = [part.usage.completion_tokens for part in parts]
    assert counts == sorted(counts)
    assert counts[-1] == 24


def test_stop_strings(running) -> None:
    text = complete(running).choices[0].text
    stop = text[5:8]
    for stream in (False, True):
        answer = complete(running, stop=[stop, "never said"], stream=stream)
        if stream:
            parts = list(answer)
            said, reason = "".join(part.choices[0].text for part in parts), parts[-1].choices[0].finish_reason
        else:
            said, reason = answer.choices[0].text, answer.choices[0].finish_reason
            assert answer.usage.completion_tokens < 24
        assert said == text[: text.index(stop)]
        assert reason == "stop"


def test_stop_tokens_and_ignoring_the_end(running) -> None:
    tokenizer = running.service.tokenizer
    tokens = tokenizer(PROMPT + complete(running).choices[0].text).input_ids[len(tokenizer(PROMPT).input_ids) :]
    answer = complete(running, extra_body={"stop_token_ids": [tokens[6]]})
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.completion_tokens == tokens.index(tokens[6]) + 1
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    assert end in running.service.eos
    ignoring = complete(running, max_tokens=100, extra_body={"ignore_eos": True})
    assert ignoring.usage.completion_tokens == 100


def test_seeds(running) -> None:
    def sample(seed: int) -> str:
        return complete(running, temperature=1.0, seed=seed, top_p=0.95).choices[0].text

    assert sample(1) == sample(1)
    assert len({sample(seed) for seed in range(2, 5)}) > 1
    assert len({complete(running, temperature=1.0).choices[0].text for dummy in range(3)}) > 1


def test_a_default_seed_makes_the_server_repeat_itself() -> None:
    with serving("--algorithm", "none", "--seed", "5") as started:
        first, second = (complete(started, temperature=1.0).choices[0].text for dummy in range(2))
        assert first == second
        assert complete(started, temperature=1.0, seed=6).choices[0].text != first


def test_several_prompts_and_token_prompts(running) -> None:
    tokens = running.service.tokenizer(PROMPT).input_ids
    answer = complete(running, [PROMPT, "import os\n", PROMPT])
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    assert answer.choices[0].text == answer.choices[2].text == complete(running, tokens).choices[0].text
    assert answer.choices[1].text == complete(running, "import os\n").choices[0].text
    assert complete(running, [tokens, tokens]).choices[1].text == answer.choices[0].text


def test_many_clients_at_once_get_what_each_alone_would(running) -> None:
    prompts = [f"def f{number}(x):\n    return x" for number in range(9)]
    alone = [complete(running, prompt).choices[0].text for prompt in prompts]
    together: dict[int, str] = {}

    def ask(number: int) -> None:
        together[number] = complete(running, prompts[number]).choices[0].text

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [together[number] for number in range(9)] == alone


@pytest.mark.parametrize("algorithm", ["none", "dflash"])
def test_other_algorithms_serve_the_same_text(running, algorithm: str) -> None:
    with serving("--algorithm", algorithm) as started:
        assert complete(started).choices[0].text == complete(running).choices[0].text
        info = started.get("/server_info").json()
        assert info["algorithm"] == algorithm
        assert info["block_size"] == (1 if algorithm == "none" else 16)


def test_metrics_agree_with_usage(running) -> None:
    before = {name: running.metric(name) for name in ("ddtree_verify_rounds_total", "ddtree_accepted_tokens_total")}
    usage = complete(running).usage
    rounds = running.metric("ddtree_verify_rounds_total") - before["ddtree_verify_rounds_total"]
    tokens = running.metric("ddtree_accepted_tokens_total") - before["ddtree_accepted_tokens_total"]
    assert (rounds, tokens) == (usage.verify_rounds, usage.completion_tokens - 1)
    assert running.metric("ddtree_accept_length_count") == running.metric("ddtree_verify_rounds_total")
    assert running.metric("ddtree_accept_length_sum") == running.metric("ddtree_accepted_tokens_total")
    assert running.metric("ddtree_tree_nodes") == 8
    assert running.metric("ddtree_tree_build_seconds") > 0
    assert running.metric('ddtree_requests_total{outcome="completed"}') >= 1


def test_health(running) -> None:
    assert running.get("/health").json() == {"status": "ok"}
    before = running.metric('ddtree_requests_total{outcome="completed"}')
    assert running.get("/health_generate").json() == {"status": "ok"}
    assert running.metric('ddtree_requests_total{outcome="completed"}') == before + 1


# --- Requests that are refused


@pytest.mark.parametrize(
    ("change", "status", "message"),
    [
        ({"model": "gpt-9"}, 404, "the model 'gpt-9' does not exist here; 'nano' is served"),
        ({"model": None}, 400, "model: "),
        ({"prompt": None}, 400, "prompt"),
        ({"prompt": ""}, 400, "the prompt is empty"),
        ({"prompt": []}, 400, "1 to 32 prompts, here are 0"),
        ({"prompt": ["a"] * 33}, 400, "1 to 32 prompts, here are 33"),
        ({"prompt": [1, 99999]}, 400, "token 99999 is not in the vocabulary"),
        ({"prompt": [1, -1]}, 400, "token -1 is not in the vocabulary"),
        ({"prompt": {"text": "a"}}, 400, "prompt"),
        ({"prompt": "\ud800"}, 400, "not valid text"),
        ({"prompt": "word " * 5000}, 400, "do not fit the context of 4096 tokens"),
        ({"prompt": "x" * 10_000_000}, 400, "a prompt of 10000000 characters cannot fit the context of 4096 tokens"),
        ({"max_tokens": 5000}, 400, "5000 new tokens do not fit the context of 4096 tokens"),
        ({"max_tokens": 0}, 400, "max_tokens: Input should be greater than or equal to 1"),
        ({"max_tokens": "ten"}, 400, "max_tokens: Input should be a valid integer"),
        ({"max_tokens": 1.5}, 400, "max_tokens"),
        ({"temperature": -1}, 400, "temperature: Input should be greater than or equal to 0"),
        ({"temperature": "hot"}, 400, "temperature: Input should be a valid number"),
        ({"top_p": 0}, 400, "top_p"),
        ({"stream": "yes"}, 400, "stream: Input should be a valid boolean"),
        ({"seed": 2**70}, 400, "seed"),
        ({"stop": [""]}, 400, "stop takes up to 16 strings"),
        ({"stop": ["a"] * 17}, 400, "stop takes up to 16 strings"),
        ({"stream_options": {"include_usage": True}}, 400, "stream_options needs stream: true"),
        ({"logprobs": 0}, 400, "logprobs: not supported"),
        ({"logprobs": 5}, 400, "logprobs: not supported"),
        ({"n": 2}, 400, "n: not supported: one choice per request"),
        ({"best_of": 3}, 400, "best_of: not supported"),
        ({"echo": True}, 400, "echo: not supported"),
        ({"suffix": "end"}, 400, "suffix: not supported"),
        ({"logit_bias": {"5": 1}}, 400, "logit_bias: not supported"),
        ({"presence_penalty": 0.5}, 400, "presence_penalty: not supported"),
        ({"max_token": 5}, 400, "unknown field max_token"),
        ({"no_stop_trim": True}, 400, "no_stop_trim: not supported"),
        ({"skip_special_tokens": False}, 400, "skip_special_tokens: not supported"),
        ({"return_hidden_states": True}, 400, "return_hidden_states: not supported"),
    ],
)
def test_refused_completions(running, change: dict, status: int, message: str) -> None:
    body = {"model": MODEL, "prompt": PROMPT, "max_tokens": 4, **change}
    content = json.dumps({key: value for key, value in body.items() if value is not None})
    answer = running.post("/v1/completions", content=content)
    assert answer.status_code == status
    error = answer.json()["error"]
    assert message in error["message"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["type"] == ("not_found_error" if status == 404 else "invalid_request_error")
    if len(change) == 1:
        assert error["param"] == next(iter(change)) or status == 400


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"messages": []}, "messages"),
        ({"messages": "hello"}, "messages"),
        ({"messages": [{"role": "user"}]}, "messages.0.content"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]}, "should be 'text'"),
        ({"logprobs": True}, "logprobs: not supported"),
        ({"top_logprobs": 2}, "top_logprobs: not supported"),
        ({"tools": [{"type": "function"}]}, "tools: not supported"),
        ({"response_format": {"type": "json_object"}}, "response_format: not supported"),
        ({"max_completion_tokens": 9999}, "do not fit the context"),
    ],
)
def test_refused_chats(running, change: dict, message: str) -> None:
    answer = running.post("/v1/chat/completions", json={"model": MODEL, "messages": QUESTION, **change})
    assert answer.status_code == 400
    assert message in answer.json()["error"]["message"]


def test_what_sglangs_router_adds_is_accepted(running) -> None:
    added = {
        "no_stop_trim": False,
        "ignore_eos": False,
        "skip_special_tokens": True,
        "return_hidden_states": False,
        "some_field_of_the_future": None,
    }
    body = {"model": MODEL, "max_tokens": 3, "stream": False, **added}
    assert running.post("/v1/completions", json={**body, "prompt": PROMPT, "echo": False}).status_code == 200
    reasoning = {
        "logprobs": False,
        "continue_final_message": False,
        "separate_reasoning": True,
        "stream_reasoning": True,
    }
    assert running.post("/v1/chat/completions", json={**body, "messages": QUESTION, **reasoning}).status_code == 200


def test_harmless_values_of_refused_fields_are_accepted(running) -> None:
    harmless = {"n": 1, "presence_penalty": 0, "frequency_penalty": 0.0, "logit_bias": None, "user": "someone"}
    assert complete(running, **harmless).choices[0].text
    chat = {"model": MODEL, "messages": QUESTION, "max_tokens": 3, "logprobs": False, "tools": []}
    assert running.post("/v1/chat/completions", json={**chat, "response_format": {"type": "text"}}).status_code == 200


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[1]", b'"text"', b"\xff\xfe", b"[" * 100_000, b'{"model": "nano", "prompt": "a", "top_p": NaN}'],
    ids=["empty", "cut", "list", "string", "bytes", "deep", "nan"],
)
def test_bodies_that_are_no_request(running, body: bytes) -> None:
    answer = running.post("/v1/completions", content=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"]


def test_bodies_that_are_too_large(running) -> None:
    answer = running.post("/v1/completions", content=b" " * (server.MAX_BODY_BYTES + 1))
    assert answer.status_code == 413
    assert answer.json()["error"]["code"] == "body_too_large"


def test_unknown_paths_and_methods_get_openai_bodies(running) -> None:
    for answer, status in ((running.get("/v2/models"), 404), (running.get("/v1/completions"), 405)):
        assert answer.status_code == status
        assert answer.json()["error"]["message"]


def test_a_server_that_refused_still_serves(running) -> None:
    assert complete(running).usage.completion_tokens == 24
    until(lambda: running.service.scheduler.running == 0)
    assert running.service.scheduler.waiting == 0


# --- Queue, fairness, clients that leave, engines that fail


def ask_in_thread(running: Running, results: list, **more: object) -> threading.Thread:
    def ask() -> None:
        try:
            results.append(complete(running, **more))
        except openai.APIError as error:
            results.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    return thread


def test_a_full_queue_is_429(narrow) -> None:
    scheduler, results = narrow.service.scheduler, []
    narrow.gate.close()
    first = ask_in_thread(narrow, results)
    until(lambda: scheduler.running == 1)
    second = ask_in_thread(narrow, results)
    until(lambda: scheduler.waiting == 1)
    answer = narrow.post("/v1/completions", json={"model": MODEL, "prompt": PROMPT})
    assert answer.status_code == 429
    assert answer.headers["Retry-After"] == "1"
    assert "the queue is full: 1 requests wait already" in answer.json()["error"]["message"]
    assert answer.json()["error"]["code"] == "queue_full"
    with pytest.raises(openai.RateLimitError):
        complete(narrow)
    assert narrow.get("/health").status_code == 200
    narrow.gate.open()
    first.join(30), second.join(30)
    assert [result.usage.completion_tokens for result in results] == [24, 24]
    assert complete(narrow).usage.completion_tokens == 24


def test_a_short_request_does_not_wait_for_a_long_one(running) -> None:
    running.gate.close()
    long, short = [], []
    slow = ask_in_thread(running, long, max_tokens=100, extra_body={"ignore_eos": True})
    until(lambda: running.service.scheduler.running == 1)
    quick = ask_in_thread(running, short, max_tokens=4)
    until(lambda: running.service.scheduler.waiting == 1)
    running.gate.allow(6)  # rounds: the engine stands still after them
    quick.join(30)
    assert short and short[0].usage.completion_tokens == 4
    assert slow.is_alive() and not long
    running.gate.open()
    slow.join(60)
    assert long[0].usage.completion_tokens == 100


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_goes_away_frees_its_work(running, stream: bool) -> None:
    before = running.metric('ddtree_requests_total{outcome="cancelled"}')
    body = json.dumps({"model": MODEL, "prompt": PROMPT, "max_tokens": 3000, "ignore_eos": True, "stream": stream})
    running.gate.close()
    with socket.create_connection(("127.0.0.1", running.port)) as client:
        head = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
        client.sendall((head + body).encode())
        until(lambda: running.service.scheduler.running == 1)
    until(lambda: any(job.cancelled for job in running.service.scheduler._running))
    running.gate.open()
    until(lambda: running.service.scheduler.running == 0)
    assert running.service.generator.running == []
    until(lambda: running.metric('ddtree_requests_total{outcome="cancelled"}') == before + 1)
    assert complete(running).usage.completion_tokens == 24


def test_a_waiting_client_that_goes_away_leaves_the_queue(narrow) -> None:
    scheduler, results = narrow.service.scheduler, []
    narrow.gate.close()
    first = ask_in_thread(narrow, results)
    until(lambda: scheduler.running == 1)
    body = json.dumps({"model": MODEL, "prompt": PROMPT})
    with socket.create_connection(("127.0.0.1", narrow.port)) as client:
        head = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
        client.sendall((head + body).encode())
        until(lambda: scheduler.waiting == 1)
    until(lambda: scheduler._waiting[0].cancelled)
    narrow.gate.open()
    first.join(30)
    until(lambda: scheduler.waiting == 0)
    assert results[0].usage.completion_tokens == 24


def test_a_failing_round_fails_its_requests_and_no_others(running, monkeypatch, caplog) -> None:
    step, failures = running.service.generator.step, [RuntimeError("out of everything")]

    def broken():
        if failures:
            raise failures.pop()
        return step()

    monkeypatch.setattr(running.service.generator, "step", broken)
    with pytest.raises(openai.InternalServerError, match="the engine failed on this request"):
        complete(running)
    assert "out of everything" in caplog.text
    assert complete(running).usage.completion_tokens == 24

    failures.append(RuntimeError("again"))
    with pytest.raises(openai.APIError, match="the engine failed on this request"):
        list(complete(running, stream=True))
    assert running.get("/health_generate").status_code == 200


def test_an_engine_that_ended_is_unhealthy() -> None:
    with serving("--algorithm", "none") as started:
        started.service.scheduler.stop()
        started.service.scheduler.join(30)
        assert started.get("/health").status_code == 503
        assert started.get("/health_generate").status_code == 503
        answer = started.post("/v1/completions", json={"model": MODEL, "prompt": PROMPT})
        assert answer.status_code == 503
        assert answer.json()["error"]["type"] == "server_error"


# --- The API key


def test_an_api_key_is_asked_for_and_never_shown(tmp_path, caplog, capfd) -> None:
    key = "sk-marked-0123456789"
    (tmp_path / "key").write_text(key + "\n", encoding="utf-8")
    with serving("--algorithm", "none", key_file=tmp_path / "key") as started:
        assert complete(started).usage.completion_tokens == 24
        for headers in (
            {},
            {"Authorization": "Bearer wrong"},
            {"Authorization": key},
            {"Authorization": f"Basic {key}"},
        ):
            for path in ("/v1/models", "/server_info"):
                answer = started.get(path, headers=headers)
                assert answer.status_code == 401
                assert answer.headers["WWW-Authenticate"] == "Bearer"
                assert answer.json()["error"]["code"] == "invalid_api_key"
            assert started.post("/v1/completions", headers=headers, json={}).status_code == 401
        with pytest.raises(openai.AuthenticationError):
            openai.OpenAI(base_url=f"{started.url}/v1", api_key="other", max_retries=0).models.list()
        seen = ""
        for path in ("/health", "/health_generate", "/metrics"):
            answer = started.get(path)
            assert answer.status_code == 200
            seen += answer.text
        seen += started.get("/server_info", headers={"Authorization": f"Bearer {key}"}).text
        seen += repr(started.service.settings)
    out = capfd.readouterr()
    assert key not in seen + caplog.text + out.out + out.err


def test_where_the_key_comes_from(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    (tmp_path / "api_key").write_text(" from-systemd \n", encoding="utf-8")
    assert server.read_api_key(None) == "from-systemd"
    (tmp_path / "other").write_text("from-file", encoding="utf-8")
    assert server.read_api_key(tmp_path / "other") == "from-file"


# --- The process


PAIR = ["--model", str(NANO / "target"), "--drafter", str(NANO / "drafter"), "--device", "cpu"]


def process(*words: str, **more: object) -> subprocess.Popen:
    source = Path(server.__file__).resolve().parents[1]
    environment = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", "ddtree.server", *words],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        **more,
    )


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def test_sigterm_drains() -> None:
    port = free_port()
    child = process(*PAIR, "--port", str(port), "--served-model-name", MODEL)
    try:
        url = f"http://127.0.0.1:{port}"

        def ready() -> bool:
            assert child.poll() is None, child.stdout.read()
            try:
                return httpx.get(f"{url}/health").status_code == 200
            except httpx.TransportError:
                return False

        until(ready, 90)
        body = {"model": MODEL, "prompt": PROMPT, "max_tokens": 120, "ignore_eos": True, "stream": True}
        with httpx.stream("POST", f"{url}/v1/completions", json=body, timeout=60) as answer:
            lines = answer.iter_lines()
            next(lines)
            child.send_signal(signal.SIGTERM)
            rest = list(lines)
        assert rest[-2:] == ["data: [DONE]", ""]
        assert json.loads(rest[-4].removeprefix("data: "))["choices"][0]["finish_reason"] == "length"
        assert child.wait(60) in (0, -signal.SIGTERM)
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{url}/health")
    finally:
        child.kill()
        child.communicate()


def test_a_port_in_use_is_named_before_anything_is_loaded(capsys, monkeypatch) -> None:
    monkeypatch.setattr(server, "load_service", lambda _options: pytest.fail("the model was loaded"))
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        assert server.main([*PAIR, "--port", str(port)]) == 1
    assert re.search(rf"^ddtree\.server: .*Address already in use.*{port}", capsys.readouterr().err)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--algorithm", "medusa"], "argument --algorithm: invalid choice: 'medusa'"),
        (["--budge", "5"], "unrecognized arguments: --budge 5"),
        (["--port", "many"], "argument --port: invalid int value: 'many'"),
    ],
)
def test_a_wrong_command_line(capsys, words: list[str], message: str) -> None:
    with pytest.raises(SystemExit) as end:
        server.main([*PAIR, *words])
    assert end.value.code == 2
    assert message in capsys.readouterr().err


def test_a_wrong_command_line_is_said_before_torch_is_imported() -> None:
    """systemd starts a server that ended again and again; each import of torch and transformers takes seconds of a core."""
    code = (
        "import runpy, sys; sys.modules['torch'] = None; sys.argv = ['server', '--port', '1'];"
        "runpy.run_module('ddtree.server', run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, "required: --model" in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--model", "/nowhere"], "/nowhere is no model directory"),
        (["--drafter", "/nowhere"], "/nowhere is no drafter directory"),
        (["--model", str(NANO / "target"), "--drafter", ""], "--algorithm ddtree needs --drafter"),
        (["--drafter", str(NANO / "target")], "expected ['DFlashDraftModel']"),
        (["--budget", "0"], "--budget must be at least 1, not 0"),
        (["--max-queue", "0"], "--max-queue must be at least 1, not 0"),
        (["--block-size", "17"], "block size 17 is not between 2 and 16"),
        (["--context-length", "5000"], "--context-length 5000 is not between 2 and the model's 4096"),
        (["--api-key-file", "/nowhere/key"], "No such file"),
    ],
)
def test_a_server_that_cannot_start_says_why(capsys, words: list[str], message: str) -> None:
    assert server.main([*PAIR, "--port", str(free_port()), *words]) == 1
    assert message in capsys.readouterr().err


def test_a_drafter_of_another_target(tmp_path, capsys) -> None:
    config = json.loads((NANO / "drafter/config.json").read_text(encoding="utf-8"))
    config["num_target_layers"] = 99
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (tmp_path / "model.safetensors").symlink_to(NANO / "drafter/model.safetensors")
    assert server.main([*PAIR, "--port", str(free_port()), "--drafter", str(tmp_path)]) == 1
    assert "drafter and target are not a pair: made for 99 target layers, found 6" in capsys.readouterr().err
