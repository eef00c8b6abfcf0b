# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpu_context_info: what each answer of the driver means for planning."""

from __future__ import annotations

from ansible_collections.inferlab.dflash.plugins.modules.gpu_context_info import sort_answers


def test_dead_unknown_and_opened_are_told_apart():
    answers = {
        "GPU-a": {"ok": True, "cuda_error": None, "reason": None},
        "GPU-b": {"ok": False, "cuda_error": 999, "reason": "cuInit: error 999, unknown error"},
        "GPU-c": {"ok": None, "cuda_error": None, "reason": "libcuda.so.1 cannot be loaded"},
    }
    said = sort_answers(answers)
    assert said["opened"] == ["GPU-a"]
    assert said["dead"] == {"GPU-b": "cuInit: error 999, unknown error"}
    assert said["unknown"] == {"GPU-c": "libcuda.so.1 cannot be loaded"}
