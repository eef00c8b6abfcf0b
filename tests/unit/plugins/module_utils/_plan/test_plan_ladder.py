# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ladder: bounded, only for what a lower profile can cure, never back to what failed."""

from __future__ import annotations

import itertools

import pytest
from ansible_collections.inferlab.dflash.plugins.module_utils._plan import ladder
from ansible_collections.inferlab.dflash.plugins.module_utils._plan.wishes import normalise

#: The ladder of the design: tp 2 ddtree, tp 1 ddtree, tp 1 dflash, plain.
(DESIGN,) = normalise(
    [
        {
            "model": "/srv/t",
            "drafter": "/srv/d",
            "tp_size": 2,
            "profiles": [
                {"tp_size": 1},
                {"tp_size": 1, "algorithm": "dflash"},
                {"tp_size": 1, "algorithm": "none", "profile": "plain"},
            ],
        }
    ]
)


def failed(profile, code, cause=None):
    return {"profile": profile, "ready": False, "code": code, "cause": cause}


def ready(profile):
    return {"profile": profile, "ready": True, "code": None}


def test_the_first_attempt_is_as_wished():
    said = ladder.step(DESIGN, [])
    assert (said["action"], said["profile"], said["state"]) == ("try", ladder.AS_WISHED, "trying")
    assert (said["rung"]["tp_size"], said["rung"]["algorithm"]) == (2, "ddtree")
    assert "profiles" not in said["rung"]


def test_serving_as_wished_is_done_and_not_degraded():
    said = ladder.step(DESIGN, [ready(ladder.AS_WISHED)])
    assert (said["action"], said["state"], said["code"]) == ("done", "serving", None)


def test_the_story_of_the_design():
    attempts = [failed(ladder.AS_WISHED, "nccl_unhandled_system_error")]
    said = ladder.step(DESIGN, attempts)
    assert (said["action"], said["profile"], said["rung"]["algorithm"]) == ("try", "tp1", "ddtree")
    attempts.append(failed("tp1", "cuda_graph_capture_failed"))
    said = ladder.step(DESIGN, attempts)
    assert (said["profile"], said["rung"]["tp_size"]) == ("dflash-tp1", 1)
    attempts.append(failed("dflash-tp1", "spec_acceptance_collapsed"))
    said = ladder.step(DESIGN, attempts)
    assert said["profile"] == "plain"
    attempts.append(ready("plain"))
    said = ladder.step(DESIGN, attempts)
    assert (said["action"], said["state"], said["code"]) == ("done", "degraded", "nccl_unhandled_system_error")
    assert "plain" in said["reason"]


def test_a_profile_that_changes_nothing_about_the_cause_is_skipped():
    said = ladder.step(DESIGN, [failed(ladder.AS_WISHED, "draft_target_mismatch")])
    assert said["profile"] == "plain"
    assert [text.split(":")[0] for text in said["skipped"]] == ["tp1", "dflash-tp1"]
    assert "algorithm none" in said["skipped"][0]


def test_less_memory_is_not_cured_by_fewer_gpus():
    said = ladder.step(DESIGN, [failed(ladder.AS_WISHED, "kv_cache_oom")])
    assert said["profile"] == "dflash-tp1"


def test_an_earlier_failure_is_not_brought_back():
    (instance,) = normalise(
        [
            {
                "model": "/srv/t",
                "drafter": "/srv/d",
                "tp_size": 2,
                "profiles": [{"tp_size": 1}, {"mem_fraction": 0.6}, {"tp_size": 1, "mem_fraction": 0.6}],
            }
        ]
    )
    attempts = [failed(ladder.AS_WISHED, "nccl_unhandled_cuda_error"), failed("tp1", "gpu_oom")]
    said = ladder.step(instance, attempts)
    assert said["profile"] == "tp1-mem_fraction"
    assert "nccl_unhandled_cuda_error" in said["skipped"][0]


@pytest.mark.parametrize(
    "code", ["driver_library_mismatch", "port_in_use", "gpu_hardware_fault", "unknown", "nonsense"]
)
def test_what_no_profile_cures_stops_at_once(code):
    said = ladder.step(DESIGN, [failed(ladder.AS_WISHED, code)])
    assert (said["action"], said["state"], said["code"], said["rung"]) == ("stop", "failed", code, None)
    assert code in said["reason"]


def test_a_missing_code_stops():
    assert ladder.step(DESIGN, [{"profile": ladder.AS_WISHED, "ready": False}])["code"] == "unknown"


def test_the_cause_decides_where_it_is_known():
    assert ladder.step(DESIGN, [failed(ladder.AS_WISHED, "engine_stalled", "nccl_init")])["profile"] == "tp1"
    assert ladder.step(DESIGN, [failed(ladder.AS_WISHED, "engine_stalled", "graph_capture")])["profile"] == "dflash-tp1"
    assert ladder.step(DESIGN, [failed(ladder.AS_WISHED, "model_path_missing", "path")])["action"] == "stop"
    assert ladder.step(DESIGN, [failed(ladder.AS_WISHED, "model_path_missing", "draft")])["profile"] == "plain"


def test_without_profiles_it_fails_after_one_attempt():
    said = ladder.step({**DESIGN, "profiles": []}, [failed(ladder.AS_WISHED, "gpu_oom")])
    assert (said["action"], said["reason"]) == ("stop", "there is no lower profile")


def test_the_limit_of_attempts():
    said = ladder.step(DESIGN, [failed(ladder.AS_WISHED, "killed_by_signal")], most=1)
    assert (said["action"], said["reason"]) == ("stop", "the limit of 1 attempts is reached")


def test_it_always_ends_whatever_is_diagnosed():
    codes = ["killed_by_signal", "gpu_oom", "nccl_unhandled_cuda_error", "engine_stalled"]
    for sequence in itertools.product(codes, repeat=4):
        attempts = []
        for code in sequence:
            said = ladder.step(DESIGN, attempts)
            if said["action"] != "try":
                break
            assert said["profile"] not in [attempt["profile"] for attempt in attempts]
            attempts.append(failed(said["profile"], code))
        assert ladder.step(DESIGN, attempts)["action"] == "stop"


def test_a_planned_instance_keeps_the_first_of_its_gpus():
    planned = {
        **DESIGN,
        "gpus": ["GPU-aaaa", "GPU-bbbb"],
        "devices": [{"index": 0}, {"index": 1}],
        "env": {"CUDA_VISIBLE_DEVICES": "GPU-aaaa,GPU-bbbb", "NCCL_P2P_DISABLE": "1"},
    }
    rung = ladder.step(planned, [failed(ladder.AS_WISHED, "nccl_unhandled_cuda_error")])["rung"]
    assert (rung["gpus"], rung["devices"]) == (["GPU-aaaa"], [{"index": 0}])
    assert rung["env"] == {"CUDA_VISIBLE_DEVICES": "GPU-aaaa", "NCCL_P2P_DISABLE": "1"}
    # Fewer visible GPUs are no cure of their own.
    said = ladder.step(planned, [failed(ladder.AS_WISHED, "ready_but_not_serving")])
    assert said["profile"] == "dflash-tp1"


def test_env_is_merged_args_are_appended_and_named_gpus_are_cut():
    base = {**DESIGN, "env": {"A": "1"}, "args": ["--x"], "gpus": ["GPU-aaaa", "GPU-bbbb"]}
    rung = ladder.effective(base, {"profile": "p", "tp_size": 1, "env": {"B": "2"}, "args": ["--y"]})
    assert rung["env"] == {"A": "1", "B": "2"}
    assert rung["args"] == ["--x", "--y"]
    assert rung["gpus"] == ["GPU-aaaa"]
    assert base["gpus"] == ["GPU-aaaa", "GPU-bbbb"]
