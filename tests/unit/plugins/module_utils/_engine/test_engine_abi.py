# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The compatibility check: its judgement on tables of evidence, and its probe on a library and a Python of the test's own."""

from __future__ import annotations

import importlib.util
import json
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.inferlab.dflash.plugins.module_utils._engine import abi

PROBE = Path(__file__).parents[5] / "roles" / "engine" / "files" / "scripts" / "abi_probe.py"
TORCH = {
    "kind": "torch",
    "cuda": "13.0",
    "architectures": ["sm_80", "sm_86", "sm_90", "sm_100", "sm_120", "compute_120"],
}
GOOD = [
    {"kind": "tool", "name": "ninja", "path": "/r/venv/bin/ninja", "version": None},
    {"kind": "tool", "name": "nvcc", "path": "/usr/local/cuda/bin/nvcc", "version": "13.0"},
    {"kind": "tool", "name": "ptxas", "path": None, "version": None},
    {"kind": "tool", "name": "g++", "path": "/usr/bin/g++", "version": None},
    {"kind": "carried", "name": "ptxas", "path": "/r/triton/backends/nvidia/bin/ptxas"},
    {"kind": "driver", "cuda": 13000, "status": 0, "error": None},
    {"kind": "init", "status": 0},
    {"kind": "device", "index": 0, "name": "NVIDIA RTX A6000", "capability": [8, 6]},
    {"kind": "device", "index": 1, "name": "NVIDIA RTX PRO 6000", "capability": [12, 0]},
    {"kind": "importing", "name": "torch"},
    {"kind": "import", "name": "torch", "ok": True, "version": "2.11.0"},
    {"kind": "importing", "name": "sgl_kernel"},
    {"kind": "import", "name": "sgl_kernel", "ok": True, "version": "0.4.5"},
    TORCH,
    {"kind": "kernels", "file": "sm100/common_ops.abi3.so", "architectures": ["sm_80", "sm_89", "sm_100", "sm_120"]},
    {"kind": "kernels", "file": "sm90/common_ops.abi3.so", "architectures": ["sm_80", "sm_90"]},
    {
        "kind": "libraries",
        "loaded": ["/r/nvidia/nccl/lib/libnccl.so.2", "/usr/lib/x86_64-linux-gnu/libcuda.so.580.126.09"],
    },
    {"kind": "end"},
]


def _with(kind: str, name: str | None = None, **values: object) -> list[dict[str, object]]:
    """GOOD with the record of this kind (and name) changed."""
    return [{**r, **values} if r["kind"] == kind and name in (None, r.get("name")) else r for r in GOOD]


def _failed(error: str, module: str = "sgl_kernel") -> list[dict[str, object]]:
    return _with("import", module, ok=False, error=error)


def test_what_fits() -> None:
    assert abi.judge(GOOD, "13.0")["ok"]


@pytest.mark.parametrize(
    ("records", "code", "cause"),
    [
        (
            _failed("ImportError: common_ops.abi3.so: undefined symbol: _ZN3c104cuda9SetDeviceEab"),
            "abi_undefined_symbol",
            None,
        ),
        (
            _failed("ImportError: libtorch_cuda.so: undefined symbol: ncclCommShrink", "torch"),
            "abi_undefined_symbol",
            "duplicate_nccl",
        ),
        (_failed("OSError: libnvrtc.so.13: cannot open shared object file"), "abi_undefined_symbol", None),
        (
            _failed("RuntimeError: The NVIDIA driver on your system is too old (found version 12080)"),
            "cuda_driver_too_old",
            None,
        ),
        (
            _failed("RuntimeError: CUDA error: no kernel image is available for execution"),
            "gpu_arch_unsupported",
            "wheel",
        ),
        (_failed("ModuleNotFoundError: No module named 'orjson'"), "engine_exception", None),
        (_with("driver", cuda=12080), "cuda_driver_too_old", None),
        (_with("init", status=803), "cuda_compat_conflict", "stub_or_preload"),
        (_with("init", status=802), "fabric_manager_fault", "not_running"),
        (_with("init", status=100), "gpu_not_found", None),
        (_with("init", status=999), "gpu_not_found", None),
        (_with("driver", cuda=None, error="libcuda.so.1: cannot open shared object file"), "gpu_not_found", None),
        ([r for r in GOOD if r["kind"] != "device"], "gpu_not_found", None),
        (_with("device", capability=[7, 5]), "gpu_arch_unsupported", "wheel"),
        (_with("kernels", architectures=["sm_90a"]), "gpu_arch_unsupported", "wheel"),
        (
            _with("libraries", loaded=["/a/libnccl.so.2.27", "/b/libnccl.so.2.28"]),
            "abi_undefined_symbol",
            "duplicate_nccl",
        ),
        (
            _with("libraries", loaded=["/usr/local/cuda/lib64/stubs/libcuda.so"]),
            "cuda_compat_conflict",
            "stub_or_preload",
        ),
        (_with("tool", "ninja", path=None), "jit_tool_missing", "ninja"),
        (_with("tool", "nvcc", path=None), "jit_tool_missing", "nvcc"),
        (_with("tool", "nvcc", version="12.4"), "jit_tool_missing", "nvcc"),
        (_with("tool", "g++", path=None), "jit_tool_missing", "compiler"),
        ([r for r in GOOD if r["kind"] != "carried"], "jit_tool_missing", "ptxas"),
    ],
)
def test_what_does_not(records: list[dict[str, object]], code: str, cause: str | None) -> None:
    verdict = abi.judge(records, "13.0")
    assert (verdict["ok"], verdict["code"], verdict["cause"]) == (False, code, cause)
    assert all(finding["remedy"] for finding in verdict["findings"])


def test_a_missing_driver_library_is_said_once() -> None:
    error = "libcuda.so.1: cannot open shared object file"
    records = [
        *_with("driver", cuda=None, error=error)[:-1],
        {"kind": "import", "name": "x", "ok": False, "error": error},
        GOOD[-1],
    ]
    assert [finding["code"] for finding in abi.judge(records, "13.0")["findings"]] == ["gpu_not_found"]


@pytest.mark.parametrize(
    ("status", "code"), [(-11, "killed_by_signal"), (139, "killed_by_signal"), (1, "engine_exception")]
)
def test_death_names_the_module(status: int, code: str) -> None:
    verdict = abi.judge(GOOD[: GOOD.index({"kind": "importing", "name": "sgl_kernel"}) + 1], "13.0", status)
    assert verdict["code"] == code and "sgl_kernel" in verdict["summary"]


def test_a_newer_minor_version_of_cuda_is_no_fault() -> None:
    assert abi.judge(_with("torch", cuda="13.2"), "13.2")["ok"]


@pytest.mark.parametrize(
    ("architectures", "capability", "covered"),
    [
        (["sm_80"], (8, 6), True),
        (["sm_89"], (8, 6), False),
        (["sm_90"], (12, 0), False),
        (["sm_90a"], (9, 0), True),
        (["sm_90a"], (9, 3), False),
        (["compute_90"], (12, 0), True),
        (["compute_120"], (9, 0), False),
        (["sm_100", "sm_120"], (12, 1), True),
        (["nonsense"], (8, 0), False),
    ],
)
def test_coverage(architectures: list[str], capability: tuple[int, int], covered: bool) -> None:
    assert abi.covers(architectures, capability) is covered


def _probe():
    spec = importlib.util.spec_from_file_location("abi_probe", PROBE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_architectures_of_a_fat_binary(tmp_path) -> None:
    def entry(kind: int, architecture: int, size: int) -> bytes:
        head = struct.pack("<HHIQIIHHI", kind, 0, 64, size, 0, 0, 0, 0, architecture)
        return head.ljust(64, b"\0") + b"x" * size

    body = entry(2, 80, 40) + entry(2, 120, 16) + entry(1, 90, 8)
    content = b"\x7fELF" + b"\0" * 99 + struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body
    # The same four bytes elsewhere, in code say, are no fat binary; and a cut file ends the search.
    content += (
        b"\x50\xed\x55\xba" + b"\xff" * 20 + struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 9999) + entry(2, 100, 0)[:40]
    )
    (tmp_path / "lib.so").write_bytes(content)
    assert _probe().architectures(tmp_path / "lib.so") == ["compute_90", "sm_120", "sm_80"]


def test_probe_tells_all_it_can_without_a_gpu(tmp_path) -> None:
    (tmp_path / "broken.py").write_text("raise ImportError('x.so: undefined symbol: _Z1x')\n")
    (tmp_path / "fine.py").write_text("__version__ = '1.2'\nprint('noise')\n")
    environment = {"PYTHONPATH": str(tmp_path), "PATH": "/nowhere"}
    command = [sys.executable, "-B", "-", "fine", "broken"]
    shown = subprocess.run(
        command, input=PROBE.read_text(), capture_output=True, text=True, env=environment, check=True
    )
    records = [json.loads(line) for line in shown.stdout.splitlines() if line.startswith("{")]
    assert records[0]["kind"] == "begin" and records[-1]["kind"] == "end"
    told = {r["name"]: r for r in records if r["kind"] == "import"}
    assert told["fine"]["version"] == "1.2"
    assert "undefined symbol" in told["broken"]["error"]
    assert {r["name"]: r["path"] for r in records if r["kind"] == "tool"} == {
        "ninja": None,
        "nvcc": None,
        "ptxas": None,
        "g++": None,
    }
    verdict = abi.judge(records, "13.0", shown.returncode)
    assert "abi_undefined_symbol" in [finding["code"] for finding in verdict["findings"]]
