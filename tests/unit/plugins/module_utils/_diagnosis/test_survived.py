# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a process goes on without, or got ready in spite of, is no cause; how processes are said to die by a signal."""

from __future__ import annotations

import pytest
from ansible_collections.inferlab.dflash.plugins.module_utils._diagnosis import diagnose, rules_engine, rules_unit
from ansible_collections.inferlab.dflash.plugins.module_utils._diagnosis.context import Context
from ansible_collections.inferlab.dflash.plugins.module_utils._diagnosis.text import gives_up

FAILED = "ActiveState=failed\nResult=exit-code\nExecMainCode=1\nExecMainStatus=1\n"
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
READY = "The server is fired up and ready to roll!"
ANSWERED = 'INFO:     10.0.0.5:4000 - "POST /generate HTTP/1.1" 200 OK'


def verdict(*lines, show=FAILED):
    return diagnose({"unit_journal": "\n".join(lines) + "\n", "unit_show": show})


@pytest.mark.parametrize("end", ["INFO:     Waiting for application startup", READY, None])
@pytest.mark.parametrize("shown", [True, False])
def test_the_warnings_of_a_healthy_start_lead_to_nothing(all_cases, end, shown):
    channels = next(case["input"] for case in all_cases if case["id"].endswith("provoked-healthy"))
    journal = channels["unit_journal"]
    assert "Ignore import error" in journal and "disabled: OpenAIServingResponses init failed" in journal
    # As if it had died there, which makes every word of it suspicious.
    ctx = Context(
        {"unit_journal": journal[: journal.index(end)] if end else journal, "unit_show": FAILED if shown else ""}
    )
    assert list(rules_engine.findings(ctx)) == []
    assert list(rules_unit.exception(ctx)) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "[2026-04-02 08:00:00] Reasoning parser disabled: init failed (ModuleNotFoundError: No module named 'x')",
            True,
        ),
        (
            "(EngineCore pid=7) WARNING 04-02 08:00:00 [a.py:3] Failed to import x (ImportError: y), fast path disabled",
            True,
        ),
        (
            "Apr 02 08:00:00 host sglang[9]: Ignore import error when loading a.b: cannot import name 'x' from 'torch'",
            True,
        ),
        ("deep_gemm unavailable: AttributeError: no attribute 'y'", True),
        ("FlashInfer is not available, falling back to Triton", True),
        ("Skipping import of cpp extensions due to incompatible torch version", True),
        ("Exception ignored in: <function Pool.__del__ at 0x7f00>", True),
        # An exception that ends a traceback, whatever it says.
        ("ImportError: x is not available, falling back is disabled", False),
        ("[2026-04-02 08:00:00 TP1] RuntimeError: CUDA graph capture is disabled.", False),
        ("ERROR 04-02 08:00:00 [core.py:3] torch.OutOfMemoryError: ignored", False),
        ("sglang serve: error: argument --x: ignored", False),
        # Nothing goes on without these.
        ("GPU functionality will not be available. [[ System not yet initialized (error 802) ]]", False),
        ("Cannot find the requested files in the disk cache and outgoing traffic has been disabled. To enable", False),
        ("An NVIDIA GPU may be present, but the driver is too old. Falling back to CPU.", False),
        ("skip_tokenizer_init=True: ignore_eos", False),
    ],
)
def test_what_gives_up(text, expected):
    assert gives_up(text) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Subprocess scheduler_0 (pid=7) crashed with exit code -9. Triggering SIGQUIT for cleanup...", "KILL"),
        (
            "Rank 0 scheduler died during initialization (exit code: -11). If exit code is -9 (SIGKILL), a common cause",
            "SEGV",
        ),
        ("Scheduler or DataParallelController 4001 terminated with -6", "ABRT"),
        ("failed (exitcode: -7) local_rank: 0 (pid: 30) of binary: python", "BUS"),
        ("  traceback : Signal 9 (SIGKILL) received by PID 30", "KILL"),
        ("ProcessExitedException: process 0 terminated with signal SIGSEGV", "SEGV"),
        ("Failed core proc(s): {'EngineCore_DP0': -4}", "ILL"),
        ("<SpawnProcess name='x' pid=6 parent=5 stopped exitcode=-SIGABRT>", "ABRT"),
        ("died with <Signals.SIGKILL: 9>.", "KILL"),
        ("[node:4242] Signal: Segmentation fault (11)", "SEGV"),
        ("container exited with code 139", "SEGV"),
        ("/run.sh: line 3:   77 Aborted                 (core dumped) python3 -m x", "ABRT"),
        # How a launcher takes its children down, and statuses that are none of a signal.
        ("Worker VllmWorkerProcess pid 300 died, exit code: -15", None),
        ("Subprocess scheduler_0 (pid=7) crashed with exit code 1.", None),
        ("Received signal 15. Shutting down.", None),
        ("Worker 3 did not terminate in time, killed with SIGKILL", None),
        ("host systemd[1]: x.service: Killing process 7 (python3) with signal SIGKILL.", None),
        ("clang: error: linker command failed with exit code 127", None),
        ("registered a signal handler for SIGSEGV", None),
        ("(1) potential root causes: the process is killed by SIGKILL by OOM killer", None),
    ],
)
def test_signals_of_children(text, expected):
    assert rules_unit.child_signal(text) == expected


def test_a_cause_after_readiness_counts_and_one_before_it_does_not():
    kill = "Subprocess scheduler_0 (pid=7) crashed with exit code -9. Triggering SIGQUIT for cleanup..."
    assert verdict(OOM, READY, kill)["code"] == "killed_by_signal"
    assert verdict(READY, OOM, kill)["code"] == "gpu_oom"


def test_the_readiness_of_another_run_says_nothing():
    ended = "Apr 02 08:00:00 host systemd[1]: a.service: Main process exited, code=exited, status=1/FAILURE"
    again = "Apr 02 08:00:05 host systemd[1]: a.service: Scheduled restart job, restart counter is at 1."
    assert verdict(OOM, ended, again, READY)["code"] == "gpu_oom"
    # Before its arguments a run has printed warnings only.
    assert verdict("collect2: fatal error: cannot find 'ld'", "server_args=1", READY)["code"] != "jit_tool_missing"


def test_a_fault_of_the_pair_outlives_readiness():
    assert verdict("DFLASH mask_token_id must be set in the draft config.", READY)["code"] == "draft_config_invalid"


def test_a_request_that_failed_is_named_only_where_nothing_else_is():
    refused = "ValueError: the input is longer than the context"
    found = verdict(READY, refused, ANSWERED, "RuntimeError: the engine's own")
    assert found["evidence"] == ["RuntimeError: the engine's own"]
    assert verdict(READY, refused, ANSWERED)["evidence"] == [refused]
    # The same words again, and then no answer any more.
    assert verdict(READY, refused, ANSWERED, refused, "RuntimeError: an echo")["evidence"] == [refused]
    fatal = ["Scheduler hit an exception: Traceback (most recent call last):", refused, ANSWERED]
    assert verdict(READY, *fatal, "RuntimeError: an echo")["evidence"][0] == refused


def test_a_fallback_does_not_excuse_the_crash_that_follows_it():
    warning = "[2026-04-02 08:00:00] FlashInfer is not available, falling back to Triton"
    crash = ["Traceback (most recent call last):", '  File "a.py", line 1, in f', "ValueError: the cause"]
    assert verdict(warning, *crash)["evidence"] == ["ValueError: the cause"]
    assert verdict(warning, *crash[:-1], OOM)["code"] == "gpu_oom"


def test_a_fallback_may_print_a_chain_of_exceptions():
    chain = [
        "[2026-04-02 08:00:00] Fused sampler failed, falling back to PyTorch:",
        "Traceback (most recent call last):",
        '  File "a.py", line 1, in f',
        "KeyError: 'x'",
        "",
        "During handling of the above exception, another exception occurred:",
        "",
        "Traceback (most recent call last):",
        '  File "b.py", line 1, in g',
        "RuntimeError: no sampler",
    ]
    assert verdict(*chain, "ValueError: the cause")["evidence"] == ["ValueError: the cause"]
    prefixed = [f"Apr 02 08:00:00 host sglang[9]: {line}" for line in [*chain, "ValueError: the cause"]]
    assert verdict(*prefixed)["evidence"] == ["ValueError: the cause"]
