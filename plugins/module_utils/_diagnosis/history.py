# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Memory of what was tried: a remedy that did not cure falsifies its cause.

Reads the records that dflash_history writes: one JSON object a line with instance, event (ready, failed, rolled_back, remedy),
profile, code, cause and remedy.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from . import catalogue

# What is likely next when the remedy for a code was applied and the code came back.
NEXT_LIKELY: dict[str, tuple[str, ...]] = {
    "driver_library_mismatch": (
        "container_gpu_unavailable",
        "driver_packages_mixed",
        "nccl_unhandled_cuda_error",
        "gpu_hardware_fault",
    ),
    "driver_module_missing": ("driver_open_module_required", "driver_packages_mixed", "gpu_not_found"),
    "driver_open_module_required": ("gpu_not_found", "driver_packages_mixed"),
    "gpu_not_found": ("gpu_hardware_fault", "driver_open_module_required"),
    "fabric_manager_fault": ("gpu_hardware_fault", "driver_library_mismatch"),
    "cuda_driver_too_old": ("cuda_compat_conflict", "driver_library_mismatch"),
    "cuda_compat_conflict": ("driver_library_mismatch", "container_gpu_unavailable"),
    "gpu_arch_unsupported": ("abi_undefined_symbol", "jit_tool_missing"),
    "abi_undefined_symbol": ("cuda_compat_conflict", "gpu_arch_unsupported"),
    "jit_tool_missing": ("gpu_arch_unsupported", "ulimit_too_low"),
    "nccl_unhandled_system_error": ("shm_too_small", "ulimit_too_low", "port_in_use", "engine_stalled"),
    "nccl_unhandled_cuda_error": ("driver_library_mismatch", "gpu_oom", "gpu_hardware_fault", "abi_undefined_symbol"),
    "shm_too_small": ("nccl_unhandled_system_error", "ulimit_too_low"),
    "ulimit_too_low": ("nccl_unhandled_system_error", "host_oom_killed"),
    "kv_cache_oom": ("gpu_oom", "draft_target_mismatch"),
    "gpu_oom": ("kv_cache_oom", "cuda_graph_capture_failed"),
    "host_oom_killed": ("shm_too_small", "killed_by_signal"),
    "cuda_graph_capture_failed": ("gpu_oom", "engine_stalled", "gpu_hardware_fault"),
    "engine_stalled": ("gpu_hardware_fault", "nccl_unhandled_cuda_error", "shm_too_small"),
    "spec_acceptance_collapsed": ("draft_target_mismatch", "draft_config_invalid", "server_args_invalid"),
    "killed_by_signal": ("abi_undefined_symbol", "host_oom_killed", "gpu_hardware_fault"),
    "engine_exception": ("abi_undefined_symbol", "server_args_invalid", "gpu_hardware_fault"),
}


# Beside another code these only say that something failed.
_SAY_NOTHING = frozenset({"engine_exception", "killed_by_signal", "start_limit_hit"})
_FILE_LIMIT = 4 << 20


def parse(text: str) -> list[dict[str, Any]]:
    """Records of a history file; lines that are none are skipped, since a killed writer may leave half a line."""
    records = []
    for line in text.splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict):
            records.append(record)
    return records


def read(path: str) -> list[dict[str, Any]]:
    """Records of the file I(path); none where it does not exist or may not be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return parse(stream.read()[-_FILE_LIMIT:])
    except OSError:
        return []


def of_instance(records: Iterable[dict[str, Any]], unit: str) -> list[dict[str, Any]]:
    """The records of the instance whose unit is I(unit), oldest first."""
    name = unit[: -len(".service")] if unit.endswith(".service") else unit
    names = {unit, name, name[len("dflash-") :] if name.startswith("dflash-") else name}
    return [item for item in records if item.get("instance") in names]


def reconsider(verdict: dict[str, Any], records: Iterable[dict[str, Any]], unit: str) -> dict[str, Any]:
    """I(verdict) in the light of what was tried on I(unit) since it last served.

    Adds tried (what was applied for this code), falsified, and next_likely (codes to look at next: first those that the
    evidence itself names; those that were falsified too come last).
    """
    code = str(verdict.get("code"))
    tried: list[str] = []
    falsified: list[str] = []
    for item in of_instance(records, unit):
        if item.get("event") == "ready":
            tried, falsified = [], []
        elif item.get("event") == "remedy":
            falsified.append(str(item.get("code")))
            if item.get("code") == code and item.get("cause") in (None, verdict.get("cause")):
                tried.append(str(item.get("remedy") or "its remedy"))
    result = {**verdict, "tried": tried, "falsified": bool(tried), "next_likely": []}
    if not tried:
        return result
    beside = [item for item in verdict.get("secondary_codes", []) if item not in _SAY_NOTHING]
    candidates = dict.fromkeys([*beside, *NEXT_LIKELY.get(code, ())])
    result["next_likely"] = sorted((item for item in candidates if item != code), key=lambda item: item in falsified)
    names = "; ".join(f"{item} ({catalogue.CODES[item].meaning.rstrip('.')})" for item in result["next_likely"][:3])
    result["remedy"] = f"Remedy applied, cause not cured ({tried[-1]}). Look next at: {names or 'the full evidence'}."
    return result


def degraded(records: Iterable[dict[str, Any]], unit: str) -> dict[str, Any] | None:
    """{wanted, profile, code, cause} where the profile that serves is not the one that was tried first."""
    own = of_instance(records, unit)
    last = next((index for index in range(len(own) - 1, -1, -1) if own[index].get("event") == "ready"), None)
    if last is None:
        return None
    serving = own[last].get("profile")
    first = None
    for item in reversed(own[:last]):
        if item.get("event") != "failed" or item.get("profile") == serving:
            break
        first = item
    if first is None:
        return None
    return {"wanted": first.get("profile"), "profile": serving, "code": first.get("code"), "cause": first.get("cause")}
