# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a release's probe says, judged: whether its compiled parts fit together, the driver and the GPUs. Pure.

Input are the records of roles/engine/files/scripts/abi_probe.py; output are diagnosis codes, those that lie deepest first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.inferlab.dflash.plugins.module_utils._diagnosis import catalogue

Records = list[Mapping[str, Any]]

# Results of cuInit, as numbered by the CUDA driver API.
_INIT = {
    100: ("gpu_not_found", None),
    802: ("fabric_manager_fault", "not_running"),
    803: ("cuda_compat_conflict", "stub_or_preload"),
    804: ("cuda_compat_conflict", "stub_or_preload"),
}
# What the text of a failed import means; the first that matches counts.
_IMPORT_ERRORS = (
    (re.compile(r"undefined symbol: \S*nccl", re.IGNORECASE), "abi_undefined_symbol", "duplicate_nccl"),
    (re.compile(r"undefined symbol|version `\S+' not found"), "abi_undefined_symbol", None),
    (re.compile(r"driver version is insufficient|driver on your system is too old"), "cuda_driver_too_old", None),
    (re.compile(r"no kernel image is available"), "gpu_arch_unsupported", "wheel"),
    (re.compile(r"lib(?:nv|cu|nccl|torch|c10)\S*\.so\S*: cannot open shared object"), "abi_undefined_symbol", None),
)
_TOOLS = {"ninja": "ninja", "nvcc": "nvcc", "g++": "compiler"}


def judge(records: Iterable[Mapping[str, Any]], cuda: str, status: int = 0) -> dict[str, Any]:
    """``{ok, code, cause, summary, findings}``; a finding is ``{code, cause, evidence, remedy}``.

    ``cuda`` is the CUDA version the lock was made for ("13.0"); ``status`` the probe's exit status.
    """
    known = list(records)
    findings = [
        *_driver(known),
        *_driver_age(known, cuda),
        *_libraries(known),
        *_coverage(known),
        *_imports(known),
        *_death(known, status),
        *_compilers(known, cuda),
    ]
    first = findings[0] if findings else {"code": "", "cause": None, "evidence": ""}
    return {
        "ok": not findings,
        "code": first["code"],
        "cause": first["cause"],
        "summary": f"{first['code']}: {first['evidence']}" if findings else "the release, the driver and the GPUs fit",
        "findings": findings,
    }


def covers(architectures: Iterable[str], capability: tuple[int, int]) -> bool:
    """Whether kernels for these architectures run on a GPU.

    Machine code (``sm_86``) runs on the same major generation from its minor version on, except the feature-specific kinds
    (``sm_90a``), which run on nothing else; PTX (``compute_80``) is compiled by the driver for any later GPU.
    """
    major, minor = capability
    for name in architectures:
        match = re.fullmatch(r"(sm|compute)_(\d+)(\d)([a-z]?)", name)
        if not match:
            continue
        kind, of_major, of_minor, feature = match.group(1), int(match.group(2)), int(match.group(3)), match.group(4)
        if feature:
            if (of_major, of_minor) == (major, minor):
                return True
        elif (kind == "sm" and of_major == major and of_minor <= minor) or (
            kind == "compute" and (of_major, of_minor) <= (major, minor)
        ):
            return True
    return False


def _finding(code: str, cause: str | None, evidence: str) -> dict[str, Any]:
    return {"code": code, "cause": cause, "evidence": evidence, "remedy": catalogue.remedy(code, cause)}


def _of(records: Records, kind: str) -> Records:
    return [record for record in records if record["kind"] == kind]


def _driver(records: Records) -> list[dict[str, Any]]:
    for record in _of(records, "driver"):
        if record.get("error"):
            return [_finding("gpu_not_found", None, f"no driver library: {record['error']}")]
    for record in _of(records, "init"):
        if record["status"]:
            code, cause = _INIT.get(record["status"], ("gpu_not_found", None))
            return [_finding(code, cause, f"cuInit returns {record['status']}")]
    if _of(records, "init") and not _of(records, "device"):
        return [_finding("gpu_not_found", None, "the driver works and lists no GPU")]
    return []


def _driver_age(records: Records, cuda: str) -> list[dict[str, Any]]:
    """A driver runs every CUDA of its own major version; only an older major is too old."""
    wanted = next((record["cuda"] for record in _of(records, "torch") if record["cuda"]), cuda)
    offered = next((record["cuda"] for record in _of(records, "driver") if record.get("cuda")), None)
    if offered is None or wanted == "none" or offered // 1000 >= int(wanted.split(".")[0]):
        return []
    text = f"the driver offers CUDA {offered // 1000}.{offered % 1000 // 10}, the wheels are for CUDA {wanted}"
    return [_finding("cuda_driver_too_old", None, text)]


def _libraries(records: Records) -> list[dict[str, Any]]:
    loaded = [path for record in _of(records, "libraries") for path in record["loaded"]]
    stand_ins = [path for path in loaded if "/libcuda.so" in path and re.search(r"/(stubs|compat)/", path)]
    if stand_ins:
        return [
            _finding("cuda_compat_conflict", "stub_or_preload", f"{stand_ins[0]} is loaded as the driver's library")
        ]
    copies = [path for path in loaded if "/libnccl.so" in path]
    if len(copies) > 1:
        return [_finding("abi_undefined_symbol", "duplicate_nccl", f"two copies of NCCL: {', '.join(copies)}")]
    return []


def _coverage(records: Records) -> list[dict[str, Any]]:
    findings = []
    torch = next((record["architectures"] for record in _of(records, "torch")), [])
    for device in _of(records, "device"):
        major, minor = device["capability"]
        # sgl_kernel loads its sm90 build on exactly 9.0 and the sm100 build on everything else.
        folder = "sm90/" if (major, minor) == (9, 0) else "sm100/"
        kernels = [(r["file"], r["architectures"]) for r in _of(records, "kernels") if r["file"].startswith(folder)]
        for name, architectures in [("torch", torch), *kernels]:
            if architectures and not covers(architectures, (major, minor)):
                text = f"{device['name']} is {major}.{minor}, {name} has {', '.join(architectures)}"
                findings.append(_finding("gpu_arch_unsupported", "wheel", text))
    return findings


def _imports(records: Records) -> list[dict[str, Any]]:
    driver_gone = bool(_driver(records))
    for record in _of(records, "import"):
        if record["ok"]:
            continue
        if driver_gone and "libcuda.so" in record["error"]:
            # An echo of the finding about the driver.
            continue
        text = f"import {record['name']}: {record['error']}"
        for pattern, code, cause in _IMPORT_ERRORS:
            if pattern.search(record["error"]):
                return [_finding(code, cause, text)]
        return [_finding("engine_exception", None, text)]
    return []


def _death(records: Records, status: int) -> list[dict[str, Any]]:
    if _of(records, "end"):
        return []
    last = next((record["name"] for record in reversed(_of(records, "importing"))), None)
    where = f"while importing {last}" if last else "before the first import"
    if status < 0 or status > 128:
        return [_finding("killed_by_signal", "native_crash", f"the check died by a signal ({status}) {where}")]
    return [_finding("engine_exception", None, f"the check ended early (exit status {status}) {where}")]


def _compilers(records: Records, cuda: str) -> list[dict[str, Any]]:
    findings = []
    tools = {record["name"]: record for record in _of(records, "tool")}
    carried: dict[str, list[str]] = {}
    for record in _of(records, "carried"):
        carried.setdefault(record["name"], []).append(record["path"])
    for name, cause in _TOOLS.items():
        if name in tools and not tools[name]["path"]:
            hint = f"; the release carries {carried[name][0]}" if carried.get(name) else ""
            findings.append(_finding("jit_tool_missing", cause, f"{name} is not on the unit's PATH{hint}"))
    if "ptxas" in tools and not tools["ptxas"]["path"] and not carried.get("ptxas"):
        findings.append(_finding("jit_tool_missing", "ptxas", "ptxas is neither on the unit's PATH nor in triton"))
    version = tools.get("nvcc", {}).get("version")
    if version and cuda != "none" and int(version.split(".")[0]) < int(cuda.split(".")[0]):
        text = f"{tools['nvcc']['path']} is of CUDA {version}, the wheels are for CUDA {cuda}"
        findings.append(_finding("jit_tool_missing", "nvcc", text))
    return findings
