# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""GPU facts in the form of gpu_facts, made small, for the tests of the planning."""

from __future__ import annotations

import typing as t

PRO6000 = "NVIDIA RTX PRO 6000 Blackwell Workstation Edition"
A6000 = "NVIDIA RTX A6000"


def uuid(number: int) -> str:
    return f"GPU-{number:08x}-0000-4000-8000-000000000000"


def process(pid: int = 4242, memory: int | None = 56000, unit: str | None = "wrapper.service", **more: t.Any) -> dict:
    return {
        "pid": pid,
        "user": "root",
        "command": "python train.py",
        "unit": unit,
        "cgroup": None,
        "memory_mib": memory,
        **more,
    }


def device(
    number: int, used: int | None = 4, name: str = PRO6000, processes: list | None = None, **more: t.Any
) -> dict:
    return {
        "index": number,
        "uuid": uuid(number),
        "name": name,
        "memory_total_mib": 97887,
        "memory_used_mib": used,
        "processes": processes or [],
        **more,
    }


def gpu(devices: list, state: str = "healthy", machine: str = "m1", p2p: list | None = None, **driver: t.Any) -> dict:
    return {
        "identity": {
            "machine_id": machine,
            "boot_id": "b",
            "gpu_uuids": [d["uuid"] for d in devices],
            "container": None,
        },
        "driver": {"state": state, "kernel_module_version": "595.71.05", "user_space_version": "595.71.05", **driver},
        "devices": devices,
        "p2p": p2p,
        "warnings": [],
    }


NO_GPU = gpu([], state="no_gpu", kernel_module_version=None, user_space_version=None)


def link(one: int, two: int, kind: str | None, ok: bool | None = True) -> dict:
    return {"a": uuid(one), "b": uuid(two), "link": kind, "ok": ok}
