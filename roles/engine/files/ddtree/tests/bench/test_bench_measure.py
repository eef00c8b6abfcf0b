# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""Measurements of a scripted server over real sockets."""

from __future__ import annotations

import asyncio
import json

import pytest
from ddtree.bench import client, control, load, metrics, prompts, record
from ddtree.bench.__main__ import main
from ddtree.bench.measure import Load, ServerUnusable, measure

SAMPLING = client.Sampling(max_tokens=24)

# What readers of sglang's bench_serving look for (0.5.17, sglang/benchmark/serving.py), as far as it applies to any server.
SGLANG_FIELDS = {
    *("tag", "backend", "dataset_name", "request_rate", "max_concurrency", "server_info", "duration", "completed"),
    *("total_input_tokens", "total_output_tokens", "request_throughput", "input_throughput", "output_throughput"),
    *("total_throughput", "concurrency", "accept_length", "max_output_tokens_per_s", "max_concurrent_requests"),
    *(
        f"{statistic}_{name}_ms"
        for statistic in ("mean", "median", "std", "p90", "p95", "p99")
        for name in ("e2e_latency", "ttft", "tpot", "itl")
    ),
}
SGLANG_DETAILS = {"input_lens", "output_lens", "ttfts", "itls", "generated_texts", "errors"}


def run(url, prompt_file, sampling=SAMPLING, wanted=None, **options):
    wanted = wanted or Load(requests=12, concurrency=4, warmup=1, timeout=20)
    pool = prompts.load(prompt_file)
    return asyncio.run(measure(url, "fake", pool, sampling, wanted, dataset="t", **options))


@pytest.mark.parametrize("which", ["raw", "openai"])
def test_closed_loop_counts_tokens_and_acceptance(fake, prompt_file, which):
    if which == "openai":
        pytest.importorskip("openai")
    row = run(fake("--algorithm", "ddtree", "--budget", "16"), prompt_file, client=which)
    assert (row["completed"], row["total_output_tokens"], row["error_kinds"]) == (12, 288, {})
    assert row["max_concurrent_requests"] == 4 == row["max_concurrency"]
    accept = row["accept"]
    # 23 tokens of each request come from verify rounds, one from its prefill.
    assert accept["source"] == "histogram"
    assert sum(int(k) * v for k, v in accept["histogram"].items()) == 12 * 23
    assert accept["length"] == pytest.approx(12 * 23 / accept["rounds"])
    assert row["foreign_requests"] == 0
    assert 0 < row["mean_ttft_ms"] < row["mean_e2e_latency_ms"]
    assert row["mean_itl_ms"] == pytest.approx(row["mean_tpot_ms"], rel=0.02)
    low, high = row["ci"]["steady_output_throughput"]
    assert low <= row["steady_output_throughput"] <= high
    assert set(row) >= SGLANG_FIELDS and not set(row) & SGLANG_DETAILS
    json.dumps(row, allow_nan=False)
    assert row["server_info"] == {"algorithm": "ddtree", "budget": 16, "simulated_acceptance": False}
    assert "never to be recorded" not in json.dumps(row)


def test_plain_server_has_no_acceptance_and_chat_works(fake, prompt_file):
    row = run(fake(), prompt_file, client.Sampling(max_tokens=8, endpoint="chat"), details=True)
    assert row["accept"] == {"length": None, "rounds": None, "histogram": {}, "source": "none"}
    assert set(row) >= SGLANG_FIELDS | SGLANG_DETAILS
    assert row["output_lens"] == [8] * 12 and row["errors"] == [""] * 12
    assert all(text.startswith("w") for text in row["generated_texts"])


def test_poisson_offsets_have_the_asked_rate_and_are_seeded():
    offsets = load.poisson_offsets(4001, 10.0, seed=2)
    assert offsets == load.poisson_offsets(4001, 10.0, seed=2) and offsets[0] == 0.0
    assert offsets[-1] / 4000 == pytest.approx(0.1, rel=0.05)
    with pytest.raises(ValueError, match="above 0"):
        load.poisson_offsets(3, 0, 1)


def test_open_loop_sends_all_and_honours_the_cap(fake, prompt_file):
    wanted = Load(requests=12, concurrency=2, rate=500.0, timeout=20)
    row = run(fake("--step", "0.01"), prompt_file, wanted=wanted)
    assert row["completed"] == 12 and row["request_rate"] == 500.0


def test_errors_are_counted_by_kind_and_do_not_enter_the_latencies(fake, prompt_file):
    row = run(fake("--fault", "errors", "--every", "4"), prompt_file)
    assert row["error_kinds"] == {"http_500": 3} and row["error_rate"] == 0.25
    assert row["completed"] == 9 and "planted error" in row["error_samples"][0]


def test_a_stream_that_breaks_off_is_an_error(fake, prompt_file):
    row = run(fake("--fault", "cut", "--every", "6"), prompt_file)
    assert row["error_kinds"] == {"connect": 2} and row["completed"] == 10


def test_a_request_that_takes_too_long_is_a_timeout(fake, prompt_file):
    wanted = Load(requests=2, concurrency=2, warmup=0, timeout=0.2)
    assert run(fake("--step", "5"), prompt_file, wanted=wanted)["error_kinds"] == {"timeout": 2}


def test_api_key_is_sent_and_a_refusal_is_no_measurement(fake, prompt_file):
    url = fake("--api-key", "k1")
    assert run(url, prompt_file, api_key="k1")["completed"] == 12
    with pytest.raises(ServerUnusable, match="http_401"):
        run(url, prompt_file)


def test_warm_up_together_meets_the_server_at_its_full_batch_before_anything_is_measured(fake, prompt_file):
    url = fake()
    row = run(url, prompt_file, wanted=Load(requests=6, concurrency=3, warmup=1, warmup_together=3))
    assert (row["completed"], row["foreign_requests"], row["warmup_requests"]) == (6, 0, 4)
    assert metrics.snapshot(url).first(metrics.REQUESTS) == 10


def test_foreign_traffic_is_counted(fake, prompt_file):
    url = fake()

    def meddle(done, total, dummy):
        if done == 3:
            assert control.generates(url, "fake", None) is None

    assert run(url, prompt_file, progress=meddle)["foreign_requests"] == 1


def outcome(events, tokens, first=None):
    made = client.Outcome("p", "d", ttft=1.0, latency=1.0 + sum(e[0] for e in events), events=events)
    made.output_tokens, made.first_event_tokens = tokens, first
    return made


@pytest.mark.parametrize(
    ("events", "tokens", "first", "expected"),
    [
        ([(0.3, 4), (0.2, 5)], 5, 1, [0.1, 0.1, 0.1, 0.2]),
        ([(0.4, None), (0.2, None)], 5, None, [0.2, 0.2, 0.1, 0.1]),
        ([], 1, 1, []),
    ],
)
def test_tokens_of_one_event_share_its_gap(events, tokens, first, expected):
    assert record.token_gaps(outcome(events, tokens, first)) == pytest.approx(expected)


def test_command_line_writes_a_row_a_domain(fake, prompt_file, tmp_path):
    url, out = fake("--algorithm", "dflash"), tmp_path / "out.jsonl"
    options = ["--prompts", str(prompt_file), "--requests", "6", "--max-tokens", "8", "--output", str(out)]
    assert main(["run", "--url", f"{url}/v1", *options, "--concurrency", "2"]) == 0
    assert [json.loads(line)["domain"] for line in out.read_text().splitlines()] == ["code", "prose"]
    assert main(["run", "--url", url, *options, "--domain", "poetry"]) == 2
    assert main(["idle", "--url", url, "--watch", "0.1"]) == 0
    assert main(["idle", "--url", "http://127.0.0.1:9", "--watch", "0.1"]) == 3
