# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""What the interpreter takes and a GPU's compiler refuses: the kernels of hybrid targets compiled, without a GPU, in a process without the interpreter."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="triton is not installed")

COMPILE = """
import json, sys
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from ddtree.sglang import conv, recurrent

def compiled(kernel, capability, constants, pointers):
    signature = {
        name: "constexpr" if name in constants else pointers.get(name, "*fp32" if name.endswith("_ptr") else "i32")
        for name in kernel.arg_names
    }
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants)
    options = {"num_warps": 4, "num_stages": 1}
    return triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options).metadata.shared

half = dict.fromkeys(("q_ptr", "k_ptr", "v_ptr", "a_ptr", "b_ptr", "out_ptr"), "*bf16")
model = {"H": 16, "HV": 48, "K": 128, "V": 128}
budgets = [16, 32, 64]
found = {}
for capability in map(int, sys.argv[1:]):
    verify = {**model, "BLOCK_V": 64, "BLOCK_K": 32, "SQUARINGS": 3, "PRECISION": "tf32x3"}
    state = {**model, "N": 17, "BLOCK_V": 32, "MAX_DEPTH": 15, "requests": 17}
    taps = {"HAS_BIAS": True, "SILU": True, "BLOCK": 128, "TAPS": conv.WIDTH}
    short = {n: "*bf16" for n in ("x_ptr", "weight_ptr", "bias_ptr", "state_ptr", "window_ptr", "out_ptr")}
    indices = ("step_ptr", "out_slot_ptr", "parent_ptr")
    integers = {"slot_ptr": "*i32", "window_slot_ptr": "*i32", "mask_ptr": "*u8", **dict.fromkeys(indices, "*i64")}
    links = dict.fromkeys(("child_ptr", "sibling_ptr", "parent_ptr"), "*i32")
    found[capability] = [
        *(
            compiled(recurrent._verify_kernel, capability, {**verify, "N": n, "N_POW2": n}, {**half, **integers, "scale": "fp32"})
            for n in budgets
        ),
        compiled(recurrent._state_kernel, capability, {**state, "INTO_SLOTS": False}, integers),
        compiled(recurrent._state_kernel, capability, {**state, "INTO_SLOTS": True}, integers),
        compiled(recurrent._ancestors_kernel, capability, {"N": 64, "N_POW2": 64, "MAX_DEPTH": 15}, integers),
        compiled(conv._tree_conv_kernel, capability, taps, {**short, **integers}),
        compiled(conv._parents_kernel, capability, {"N": 65, "N_POW2": 128, "DOUBLINGS": 7}, links),
    ]
print(json.dumps(found))
"""

SHARED_BYTES = {86: 99 * 1024}
"""Shared memory that a block may have, by compute capability: RTX A6000, and as little as RTX PRO 6000 Blackwell's (CUDA programming guide)."""


def test_kernels_compile_and_fit_the_smaller_cards(tmp_path: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    environment["PYTHONPATH"] = str(Path(__file__).resolve().parents[2] / "src")
    environment["TRITON_CACHE_DIR"] = str(tmp_path)
    code = tmp_path / "compile_kernels.py"
    code.write_text(COMPILE)
    words = [sys.executable, str(code), *map(str, SHARED_BYTES)]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    for capability, shared in json.loads(done.stdout).items():
        assert len(shared) == 8
        assert max(shared) <= SHARED_BYTES[int(capability)]
