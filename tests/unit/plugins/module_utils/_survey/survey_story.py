# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The story's fleet as the two modules would answer it: a Proxmox host, its guest, a busy host, an alias, and trouble."""

from __future__ import annotations

import copy
import typing as t

A6000 = "NVIDIA RTX A6000"
PRO6000 = "NVIDIA RTX PRO 6000 Blackwell Workstation Edition"


def uuid(number: int) -> str:
    return f"GPU-{number:08x}-0000-4000-8000-000000000000"


def process(pid: int, command: str, memory: int | None, unit: str | None = None, **more: t.Any) -> dict[str, t.Any]:
    return {
        "pid": pid,
        "user": "root",
        "command": command,
        "unit": unit,
        "cgroup": None,
        "memory_mib": memory,
        "type": "C",
        **more,
    }


def gpu(
    machine: str,
    name: str,
    numbers: t.Sequence[int],
    module: str | None = "580.126.09",
    library: str | None = "580.126.09",
    state: str = "healthy",
    used: t.Mapping[int, int] | None = None,
    processes: t.Mapping[int, list[dict[str, t.Any]]] | None = None,
    total: int = 49140,
) -> dict[str, t.Any]:
    """gpu_facts of one host, GPUs named by number."""
    devices = [
        {
            "index": index,
            "uuid": uuid(number),
            "name": name,
            "memory_total_mib": total,
            "memory_used_mib": (used or {}).get(number, 4),
            "processes": (processes or {}).get(number, []),
            "mig_mode": False,
        }
        for index, number in enumerate(numbers)
    ]
    return {
        "schema": 1,
        "warnings": [],
        "identity": {
            "machine_id": machine,
            "boot_id": "b1",
            "gpu_uuids": [uuid(n) for n in numbers],
            "container": "none",
        },
        "driver": {
            "state": state,
            "kernel_module_version": module,
            "user_space_version": library,
            "driver_cuda": "13.0",
        },
        "devices": devices,
        "p2p": None,
    }


SURVEY: dict[str, t.Any] = {
    "schema": 1,
    "host": {
        "hostname": "h",
        "os": {"id": "ubuntu", "version": "24.04", "name": "Ubuntu 24.04.3 LTS"},
        "kernel": "6.8.12-9-pve",
        "architecture": "x86_64",
        "virtualization": "lxc",
        "cpu": {"model": "AMD EPYC 9354", "count": 64},
        "numa_nodes": 1,
        "uptime_s": 86400,
        "machine_id": "m",
        "boot_id": "b1",
    },
    "time": {"epoch": 1.0, "skew_s": 0.4, "synchronized": True, "service": "chrony", "timezone": "Etc/UTC"},
    "memory": {
        "total_mib": 262144,
        "available_mib": 200000,
        "swap_total_mib": 0,
        "swap_free_mib": 0,
        "hugepages": {"total": 0, "free": 0, "size_kib": 2048},
        "transparent_hugepages": "madvise",
    },
    "limits": {
        "nofile": {"soft": "1024", "hard": "524288"},
        "memlock": {"soft": "8388608", "hard": "8388608"},
        "nproc": None,
    },
    "disks": [
        {"mount": "/", "device": "/dev/sda1", "type": "ext4", "size_mib": 1024000, "free_mib": 512000},
        {"mount": "/dev/shm", "device": "tmpfs", "type": "tmpfs", "size_mib": 131072, "free_mib": 131072},
    ],
    "shared_memory_files": [],
    "services": [],
    "processes": [],
    "ports": [{"port": 22, "address": "0.0.0.0", "pid": 1, "command": "sshd", "unit": "ssh.service"}],
    "environments": [],
    "checkouts": [],
    "models": [],
    "cuda_toolkits": [],
    "guests": [],
    "reboot": {"required": False, "packages": []},
    "upgrades": {"tool": "unattended-upgrades", "enabled": False, "driver_excluded": False},
    "warnings": [],
}


def survey(**parts: t.Any) -> dict[str, t.Any]:
    """A host_survey_info answer; each part replaces that of a quiet host."""
    return {**copy.deepcopy(SURVEY), **parts}


def service(unit: str = "sglang.service", **more: t.Any) -> dict[str, t.Any]:
    return {
        "unit": unit,
        "kind": "sglang",
        "description": "SGLang",
        "load": "loaded",
        "active": "active",
        "sub": "running",
        "enabled": "enabled",
        "result": "success",
        "restarts": 0,
        "exit_status": 0,
        "main_pid": 100,
        "user": "root",
        "path": f"/etc/systemd/system/{unit}",
        "stale": False,
        "memory_mib": None,
        **more,
    }


def running(
    pid: int = 100, kind: str = "sglang", command: str = "python3 -m sglang.launch_server", **more: t.Any
) -> dict[str, t.Any]:
    return {
        "pid": pid,
        "parent": 1,
        "kind": kind,
        "user": "root",
        "uid": 0,
        "command": command,
        "options": {},
        "unit": None,
        "cgroup": None,
        "guest": None,
        "executable": "/opt/sglang/bin/python3",
        "executable_missing": False,
        "environment": None,
        "directory": "/",
        "rss_mib": 4096,
        "ports": [],
        **more,
    }


def environment(path: str = "/opt/sglang", cuda: str | None = "13.0", **packages: str) -> dict[str, t.Any]:
    found = packages or {"sglang": "0.5.17", "torch": "2.11.0+cu130"}
    return {"path": path, "kind": "venv", "python": "3.12.3", "packages": found, "editable": {}, "torch_cuda": cuda}


def model(path: str = "/models/qwen", role: str = "target", **more: t.Any) -> dict[str, t.Any]:
    return {
        "path": path,
        "name": path.rsplit("/", 1)[-1],
        "role": role,
        "architecture": "DFlashDraftModel" if role == "drafter" else "Qwen3ForCausalLM",
        "model_type": "qwen3",
        "layers": 64,
        "hidden_size": 5120,
        "quantization": None,
        "dtype": "bfloat16",
        "size_mib": 55000,
        "weight_files": 12,
        "missing_files": [],
        "in_memory": path.startswith("/dev/shm/"),
        "copy_of": None,
        "pairs": [],
        **more,
    }


def results(facts: t.Any, answer: t.Any) -> tuple[dict[str, t.Any], dict[str, t.Any]]:
    """What a play registers from the two modules."""
    return {"ansible_facts": {"gpu": facts}, "failed": False}, {"survey": answer, "failed": False}


UNREACHABLE = {
    "unreachable": True,
    "msg": 'Task failed: Data could not be sent to remote host "192.0.2.9". Make sure this host can be reached over ssh: '
    "ssh: connect to host 192.0.2.9 port 22: No route to host",
}


def hostvars() -> dict[str, dict[str, t.Any]]:
    """The fleet as hostvars hold it after the two calls."""
    wrapper = process(4242, "python3 wrapper.py", 56000, "wrapper.service")
    training = process(5151, "torchrun train.py", 40000, "session-7.scope")
    seen_from_host = process(
        9001, "python3 -m sglang.launch_server", 30000, "pve.service", cgroup="/lxc/129/ns/system.slice/sglang.service"
    )
    big = [16, 17, 18, 19, 20, 21, 22, 23]
    ct200 = gpu(
        "m200",
        PRO6000,
        big,
        "595.71.05",
        "595.71.05",
        used={16: 56100, 19: 40100},
        processes={16: [wrapper], 19: [training]},
        total=97887,
    )
    busy = survey(
        processes=[
            running(4242, "serving", "python3 wrapper.py", unit="wrapper.service"),
            running(5151, "training", "torchrun train.py", unit="session-7.scope", executable="/root/t/bin/python"),
        ],
    )
    mismatch = gpu("m129", A6000, [1, 2], library="580.159.03", state="mismatch", used={1: 30010})
    failing = survey(
        services=[service(active="failed", sub="failed", result="signal", restarts=35, main_pid=None)],
        environments=[environment()],
        models=[
            model("/data/qwen"),
            model("/dev/shm/qwen", copy_of="/data/qwen"),
            model(
                "/data/draft", "drafter", size_mib=6200, pairs=[{"target": "/data/qwen", "ok": True, "problems": []}]
            ),
        ],
        upgrades={"tool": "unattended-upgrades", "enabled": True, "driver_excluded": False},
    )
    on_host = survey(
        processes=[
            running(
                9001,
                guest={"kind": "lxc", "id": "129"},
                user=None,
                executable="/opt/sglang/bin/python3",
                executable_missing=True,
            )
        ],
        host={
            **SURVEY["host"],
            "virtualization": "none",
            "os": {"id": "debian", "version": "13", "name": "Proxmox VE 9"},
        },
    )

    def known(facts: t.Any, answer: t.Any, address: str, expect: t.Any = None) -> dict[str, t.Any]:
        first, second = results(facts, answer)
        found = {"_survey_gpu": first, "_survey_host": second, "ansible_host": address}
        return {**found, "dflash_expect": expect} if expect else found

    return {
        "pve1": known(gpu("m1", A6000, [1, 2], used={1: 30010}, processes={1: [seen_from_host]}), on_host, "192.0.2.1"),
        "ct129": known(mismatch, failing, "192.0.2.129", {"gpu_name": "RTX A6000", "gpu_count": 2}),
        "ct200": known(ct200, busy, "192.0.2.200", {"gpu_name": "RTX PRO 6000", "gpu_count": 8, "driver": "595"}),
        "ct300": known(
            gpu("m300", A6000, [3, 4]), survey(), "192.0.2.30", {"gpu_name": "RTX PRO 6000", "gpu_count": 8}
        ),
        "gone": {"_survey_gpu": UNREACHABLE, "_survey_host": {"skipped": True}},
        "broken": {
            "_survey_gpu": {"failed": True, "msg": "Timed out after 60 second(s)."},
            "_survey_host": results(None, survey())[1],
            "ansible_host": "192.0.2.31",
        },
    }
