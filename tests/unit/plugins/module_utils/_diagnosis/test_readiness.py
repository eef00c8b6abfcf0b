# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.inferlab.dflash.plugins.module_utils._diagnosis import probe, readiness
from ansible_collections.inferlab.dflash.plugins.module_utils._diagnosis.wait import wait

UP = {"LoadState": "loaded", "ActiveState": "active", "SubState": "running", "NRestarts": "0"}
SETTINGS = readiness.Settings(timeout=600, stall_timeout=60, max_restarts=1)


def observed(now, unit=None, lines=(), health=None, generation=None, activity=None):
    return {
        "now": now,
        "unit": UP if unit is None else unit,
        "lines": lines,
        "health": health,
        "generation": generation,
        "activity": activity or {},
    }


def verdict_after(*observations, settings=SETTINGS):
    state = readiness.begin(0)
    for seen in observations:
        readiness.step(state, seen)
    return readiness.verdict(state, settings)[0]


def good(acceptance=None):
    return {"ok": True, "tokens": 1, "text": "x", "acceptance_length": acceptance, "status": 200, "error": ""}


def bad(error="timeout"):
    return {"ok": False, "tokens": None, "text": None, "acceptance_length": None, "status": None, "error": error}


def test_health_alone_is_never_ready():
    assert verdict_after(observed(5, health=200)) == "wait"
    assert verdict_after(observed(5, health=200, generation=bad())) == "wait"


def test_a_generation_is_ready():
    assert verdict_after(observed(5, health=200, generation=good())) == "ready"


@pytest.mark.parametrize(
    ("unit", "expected"),
    [
        ({"LoadState": "not-found", "ActiveState": "inactive"}, "unit_missing"),
        ({"LoadState": "masked", "ActiveState": "inactive"}, "unit_masked"),
        ({"LoadState": "bad-setting", "ActiveState": "inactive"}, "unit_bad"),
        ({**UP, "ActiveState": "failed", "Result": "signal"}, "dead"),
        ({**UP, "ActiveState": "inactive", "Result": "success"}, "dead"),
        ({**UP, "ActiveState": "activating", "SubState": "auto-restart", "NRestarts": "1"}, "wait"),
        ({**UP, "ActiveState": "activating", "SubState": "auto-restart", "NRestarts": "2"}, "crash_loop"),
    ],
)
def test_unit_states(unit, expected):
    assert verdict_after(observed(1, unit=unit)) == expected


def test_old_restarts_of_a_running_unit_are_no_crash_loop():
    assert (
        verdict_after(observed(1, unit={**UP, "NRestarts": "7"}), observed(2, unit={**UP, "NRestarts": "8"})) == "wait"
    )
    assert (
        verdict_after(observed(1, unit={**UP, "NRestarts": "7"}), observed(2, unit={**UP, "NRestarts": "9"}))
        == "crash_loop"
    )


def test_a_restart_discards_what_the_dead_process_answered():
    settings = readiness.Settings(requests=2, max_restarts=1)
    restarted = {**UP, "NRestarts": "1"}
    assert (
        verdict_after(observed(1, generation=good()), observed(2, unit=restarted, generation=good()), settings=settings)
        == "wait"
    )


def test_stalled_without_a_new_line():
    assert verdict_after(observed(0, lines=["Init torch distributed begin."]), observed(61)) == "stalled"


def test_progress_lines_postpone_the_stall():
    polls = [observed(t, lines=[f"Loading safetensors checkpoint shards: {t}% Completed"]) for t in range(0, 300, 50)]
    assert verdict_after(*polls) == "wait"


def test_own_probes_in_the_access_log_are_no_progress():
    polls = [observed(t, lines=[f'INFO: 127.0.0.1:{4000 + t} - "GET /health HTTP/1.1" 503']) for t in range(0, 100, 10)]
    assert verdict_after(*polls) == "stalled"


def test_a_repeated_line_is_no_progress():
    polls = [observed(t, lines=[f"[2026-01-01 00:00:{t:02}] retry in {t} seconds"]) for t in range(0, 100, 10)]
    assert verdict_after(*polls) == "stalled"


@pytest.mark.parametrize("activity", [{"read_bytes": 1 << 30}, {"compilers": ["cicc"]}])
def test_silent_work_is_progress(activity):
    assert verdict_after(observed(0), observed(59, activity=activity), observed(118)) == "wait"


def test_timeout_even_when_things_move():
    assert verdict_after(observed(601, lines=["something new"])) == "timeout"


def test_collapsed_acceptance_is_a_failure_and_one_answer_is_not_enough():
    settings = readiness.Settings(requests=3, min_acceptance_length=1.05)
    polls = [observed(t, generation=good(1.0)) for t in range(3)]
    assert verdict_after(*polls[:2], settings=settings) == "wait"
    assert verdict_after(*polls, settings=settings) == "collapsed"
    assert verdict_after(*[observed(t, generation=good(2.5)) for t in range(3)], settings=settings) == "ready"


def test_unknown_acceptance_is_not_collapsed():
    settings = readiness.Settings(requests=1, min_acceptance_length=1.05)
    assert verdict_after(observed(0, generation=good(None)), settings=settings) == "ready"


def test_stage_is_the_last_one_seen():
    state = readiness.begin(0)
    lines = ["[TP0] Load weight begin. avail mem=78 GB", "Loading safetensors checkpoint shards:  50% Completed | 2/4"]
    readiness.step(state, observed(1, lines=lines))
    assert (state.stage, state.detail) == ("weights", "50%")
    readiness.step(state, observed(2, lines=["Capture cuda graph begin."]))
    assert state.stage == "graph capture"


def test_progress_names_the_stages_and_when_they_began():
    state = readiness.begin(0)
    for now, line in (
        (1, "Load weight begin."),
        (2, "Loading safetensors checkpoint shards: 5%"),
        (9, "Capture cuda graph begin."),
    ):
        readiness.step(state, observed(now, lines=[line]))
    assert state.progress == [{"stage": "weights", "seconds": 1}, {"stage": "graph capture", "seconds": 9}]


def test_acceptance_comes_from_the_log_where_no_answer_tells_it():
    line = "Decode batch, #running-req: 1, accept len: 1.00, accept rate: 0.00, block accept len: 9.00"
    settings = readiness.Settings(requests=1, min_acceptance_length=1.05)
    assert verdict_after(observed(1, lines=[line], generation=good(None)), settings=settings) == "collapsed"


class FakeHost:
    unit = "x.service"

    def __init__(self, units):
        self._units = iter(units)

    def show(self):
        return next(self._units)

    def new_lines(self):
        return []

    def activity(self, unit):
        return {}


class FakeClient:
    def __init__(self, health, completion):
        self._health, self._completion = iter(health), iter(completion)
        self.asked, self.metrics = [], iter(())

    def request(self, path):
        return probe.Answer(next(self._health))

    def model(self):
        return "m"

    def generate(self, model, prompt, max_tokens, timeout):
        self.asked.append(max_tokens)
        return next(self._completion)

    def speculation(self):
        return next(self.metrics)


def test_wait_goes_on_until_a_generation_works():
    answers = [
        probe.Answer(None, error="timeout"),
        probe.Answer(200, '{"choices": [{"text": "x"}], "usage": {"completion_tokens": 1}}'),
    ]
    clock = iter(range(100))
    state, verdict, _sentence = wait(
        FakeHost([UP] * 4),
        FakeClient([None, 503, 200, 200], answers),
        SETTINGS,
        clock=lambda: next(clock),
        sleep=lambda s: None,
    )
    assert verdict == "ready"
    assert (state.failed_generations, len(state.generations)) == (1, 1)


def test_wait_reads_acceptance_from_the_difference_of_the_metrics():
    answer = probe.Answer(200, '{"choices": [{"text": "x"}], "usage": {"completion_tokens": 32}}')
    client = FakeClient([200] * 3, [answer] * 3)
    rounds, tokens = "ddtree_verify_rounds_total", "ddtree_accepted_tokens_total"
    client.metrics = iter(
        [
            {},
            {rounds: 5.0, tokens: 6.0},
            {rounds: 15.0, tokens: 36.0},
            {rounds: 15.0, tokens: 36.0},
            {rounds: 25.0, tokens: 56.0},
        ]
    )
    settings = readiness.Settings(requests=3, min_acceptance_length=1.05)
    clock = iter(range(100))
    state, verdict, _sentence = wait(
        FakeHost([UP] * 3), client, settings, clock=lambda: next(clock), sleep=lambda s: None
    )
    assert (verdict, client.asked, state.acceptance_length) == ("ready", [1, 32, 32], 2.5)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('ddtree_verify_rounds_total 4.0\nddtree_accepted_tokens_total{a="b"} 6\n', 1.5),
        (
            'ddtree_verify_rounds_total{tp_rank="0"} 2\nddtree_verify_rounds_total{tp_rank="1"} 2\nddtree_accepted_tokens_total 8e0\n',
            2.0,
        ),
        ('# HELP x\nsglang:spec_accept_length{engine_type="unified",model_name="m"} 2.63\n', 2.63),
        ("other_total 4\n", None),
    ],
)
def test_metrics(text, expected, monkeypatch):
    client = probe.Client("http://127.0.0.1:1")
    monkeypatch.setattr(client, "request", lambda path: probe.Answer(200, text))
    assert probe.acceptance({}, client.speculation()) == expected


@pytest.mark.parametrize(
    ("answer", "ok"),
    [
        (probe.Answer(200, '{"choices": [{"text": ""}], "usage": {"completion_tokens": 1}}'), True),
        (probe.Answer(200, '{"choices": [{"text": "a"}]}'), True),
        (probe.Answer(200, '{"choices": [{"text": ""}]}'), False),
        (probe.Answer(200, '{"choices": []}'), False),
        (probe.Answer(200, "<html>"), False),
        (probe.Answer(500, '{"error": {"message": "boom"}}'), False),
        (probe.Answer(None, error="connection refused"), False),
    ],
)
def test_generation(answer, ok):
    assert probe.generation(answer)["ok"] is ok
