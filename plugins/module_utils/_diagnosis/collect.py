# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fill the channels that classify.diagnose() reads, from the running system. Reads only, within time and size limits."""

from __future__ import annotations

import glob
import json
import os
import re
import socket
import struct
import time
from collections.abc import Callable
from typing import Any

from . import probe, service_facts
from .evidence import Host
from .redact import redact

_FILE_LIMIT = 1 << 20
_LIBRARY_DIRS = (
    "usr/lib/*-linux-gnu",
    "usr/lib64",
    "usr/lib",
    "usr/lib/wsl/lib",
    "usr/local/lib",
    "usr/lib/*-linux-gnu/nvidia/current",
)
_ENVIRONMENT = re.compile(
    r"^(?:PATH|LD_\w+|CUDA\w*|NCCL_\w+|HF_\w+|TRANSFORMERS_\w+|SGLANG_\w+|VLLM_\w+|TRITON_\w+|NVIDIA_\w+|TORCH\w*)="
)
_SECRET_NAME = re.compile(r"TOKEN|KEY|SECRET|PASS", re.I)


def collect(
    host: Host,
    url: str | None = None,
    model: str | None = None,
    api_key: str | None = None,
    root: str = "/",
    budget: float = 60.0,
    lines: int = 20000,
    clock: Callable[[], float] = time.monotonic,
    now: Callable[[], float] = time.time,
) -> dict[str, Any]:
    """All channels of one unit. After I(budget) seconds the rest is left out, which reads as "not collected"."""
    files = _Files(root)
    channels: dict[str, Any] = {}
    end = clock() + budget
    unit = host.show()
    if unit is not None:
        shown = {**unit, "Environment": _environment(unit).replace("\n", " ").strip()}
        channels["unit_show"] = "".join(f"{key}={value}\n" for key, value in shown.items())
    journal, last = host.journal(lines, int((unit or {}).get("NRestarts") or 0))
    if journal is not None:
        channels["unit_journal"] = journal
        if last is not None and (unit or {}).get("ActiveState") in ("active", "activating"):
            channels["seconds_since_last_line"] = max(0, int(now() - last))
    arguments = host.arguments(unit)
    steps: tuple[Callable[[], dict[str, Any]], ...] = (
        lambda: {"virtualization": host.virtualization()},
        lambda: {"server_args": arguments, "env": _environment(unit) if unit is not None else MISSING},
        lambda: _shared_memory(files),
        lambda: _listeners(files, arguments, url),
        lambda: _programs(files, unit),
        lambda: _drivers(files),
        lambda: _configurations(files, arguments),
        lambda: _answers(host, unit, url, model, api_key),
        host.kernel_log,
        host.nvidia_smi,
        lambda: {"coredumps": host.coredumps()},
        lambda: {"apt_history": files.tail("var/log/apt/history.log", 20000), "meminfo": files.read("proc/meminfo")},
    )
    for step in steps:
        if clock() >= end:
            break
        channels.update({key: value for key, value in step().items() if value is not MISSING})
    secrets = [api_key] if api_key else []
    return {key: redact(value, secrets) if isinstance(value, str) else value for key, value in channels.items()}


# A channel that could not be asked for, in contrast to None: asked, and not there.
MISSING = object()


class _Files:
    """Reads below a root directory."""

    def __init__(self, root: str) -> None:
        self.root = root.rstrip("/")

    def path(self, name: str) -> str:
        return f"{self.root}/{name.lstrip('/')}"

    def read(self, name: str) -> Any:
        try:
            with open(self.path(name), "rb") as stream:
                return stream.read(_FILE_LIMIT).decode("utf-8", "replace")
        except FileNotFoundError:
            return None
        except OSError:
            return MISSING

    def tail(self, name: str, size: int) -> Any:
        text = self.read(name)
        return text[-size:] if isinstance(text, str) else text

    def glob(self, pattern: str) -> list[str]:
        found = glob.glob(self.path(pattern))
        return sorted(path[len(self.root) :] for path in found)


def _environment(unit: dict[str, str]) -> str:
    """Those variables of the unit that decide on libraries and tools; all others may hold secrets and are left out."""
    words = re.findall(r'"([^"]*)"|(\S+)', unit.get("Environment", "").replace("\n", " "))
    pairs = [quoted or plain for quoted, plain in words]
    kept = [pair for pair in pairs if _ENVIRONMENT.match(pair) and not _SECRET_NAME.search(pair.split("=", 1)[0])]
    return "".join(f"{pair}\n" for pair in kept)


def _shared_memory(files: _Files) -> dict[str, Any]:
    path = files.path("dev/shm")
    try:
        size = os.statvfs(path)
        state = os.stat(path)
    except OSError:
        return {"df_shm": None}
    unit = size.f_frsize / 1024
    total, free = int(size.f_blocks * unit), int(size.f_bavail * unit)
    used = total - int(size.f_bfree * unit)
    share = round(100 * used / total) if total else 0
    return {
        "df_shm": f"Filesystem 1K-blocks Used Available Use% Mounted on\ntmpfs {total} {used} {free} {share}% /dev/shm\n",
        "stat_shm": f"{state.st_mode & 0o7777:o} {state.st_uid} {state.st_gid} /dev/shm\n",
    }


def _listeners(files: _Files, arguments: Any, url: str | None) -> dict[str, Any]:
    """Who listens on the unit's port, in the form of ss -ltnp."""
    ports = set()
    found = re.search(r":(\d+)/?$", url or "")
    if found:
        ports.add(int(found.group(1)))
    option = service_facts.options(arguments if isinstance(arguments, str) else "").get("--port", "")
    if option.isdigit():
        ports.add(int(option))
    result = []
    for table, family in (("proc/net/tcp", socket.AF_INET), ("proc/net/tcp6", socket.AF_INET6)):
        text = files.read(table)
        if not isinstance(text, str):
            continue
        for line in text.splitlines()[1:]:
            words = line.split()
            if len(words) < 10 or words[3] != "0A":
                continue
            address, port = words[1].rsplit(":", 1)
            number = int(port, 16)
            if number in ports:
                holder = _holder(files, words[9])
                users = f' users:(("{holder[1]}",pid={holder[0]},fd={holder[2]}))' if holder else ""
                result.append(f"LISTEN 0 0 {_address(address, family)}:{number} *:*{users}\n")
    return {"ss_listen": "".join(result)}


def _address(text: str, family: int) -> str:
    raw = bytes.fromhex(text)
    words = [struct.pack(">I", struct.unpack("<I", raw[i : i + 4])[0]) for i in range(0, len(raw), 4)]
    name = socket.inet_ntop(family, b"".join(words))
    return f"[{name}]" if family == socket.AF_INET6 else name


def _holder(files: _Files, inode: str) -> tuple[int, str, int] | None:
    wanted = f"socket:[{inode}]"
    for directory in files.glob("proc/[0-9]*/fd")[:5000]:
        try:
            names = os.listdir(files.path(directory))
        except OSError:
            continue
        for name in names[:4096]:
            try:
                if os.readlink(files.path(f"{directory}/{name}")) == wanted:
                    pid = directory.split("/")[-2]
                    comm = files.read(f"proc/{pid}/comm")
                    return int(pid), comm.strip() if isinstance(comm, str) else "?", int(name)
            except OSError:
                continue
    return None


def _programs(files: _Files, unit: dict[str, str] | None) -> dict[str, Any]:
    """What ExecStart points to, whether ninja lies beside it, and the packages of its virtual environment."""
    found = re.search(r"path=(\S+)", (unit or {}).get("ExecStart", ""))
    if not found:
        return {}
    program = found.group(1)
    result: dict[str, Any] = {"stat_exec": _stat(files, program)}
    directory = os.path.dirname(program)
    ninja = f"{directory}/ninja"
    result["stat_venv_ninja"] = f"{ninja}\n" if os.path.exists(files.path(ninja)) else ""
    packages = []
    for path in files.glob(f"{os.path.dirname(directory)}/lib/python3*/site-packages/*.dist-info"):
        name, _dash, version = os.path.basename(path)[: -len(".dist-info")].rpartition("-")
        packages.append(f"{name}=={version}\n")
    if packages:
        result["pip_freeze"] = "".join(packages)
    return result


def _stat(files: _Files, path: str) -> str:
    full = files.path(path)
    if os.path.islink(full):
        target = os.readlink(full)
        state = "" if os.path.exists(full) else " (broken)"
        return f"{path} -> {target}{state}\n"
    if not os.path.lexists(full):
        return f"stat: cannot statx '{path}': No such file or directory\n"
    return f"{os.stat(full).st_mode & 0o7777:o} {path}\n"


def _drivers(files: _Files) -> dict[str, Any]:
    """Versions of the loaded module and of the libraries, from files alone."""
    libraries: list[str] = []
    for directory in _LIBRARY_DIRS:
        for name in ("libnvidia-ml.so.*.*", "libcuda.so.*.*"):
            libraries += files.glob(f"{directory}/{name}")
    kernel = os.uname().release
    modules = files.read("proc/modules")
    return {
        "proc_driver_nvidia_version": files.read("proc/driver/nvidia/version"),
        "sys_module_nvidia_version": files.read("sys/module/nvidia/version"),
        "library_files": "".join(f"{path}\n" for path in sorted(set(libraries))),
        "lsmod": "".join(f"{line}\n" for line in modules.splitlines() if line.startswith(("nvidia", "nouveau")))
        if isinstance(modules, str)
        else MISSING,
        "uname_r": f"{kernel}\n",
        "kernel_cmdline": files.read("proc/cmdline"),
    }


def _configurations(files: _Files, arguments: Any) -> dict[str, Any]:
    """config.json of target and drafter where the arguments name directories."""
    options = service_facts.options(arguments if isinstance(arguments, str) else "")
    result: dict[str, Any] = {}
    for channel, names in (
        ("target_config_json", ("--model-path", "--model")),
        ("draft_config_json", ("--speculative-draft-model-path", "--drafter")),
    ):
        path = next((options[name] for name in names if options.get(name)), None)
        if path and path.startswith("/"):
            result[channel] = files.read(f"{path}/config.json")
            if channel == "target_config_json":
                result["stat_model"] = _stat(files, path)
    return result


def _answers(
    host: Host, unit: dict[str, str] | None, url: str | None, model: str | None, api_key: str | None
) -> dict[str, Any]:
    """The HTTP probe: health, and one real token where the unit is up."""
    if not url or (unit or {}).get("ActiveState") not in ("active", "activating"):
        return {}
    client = probe.Client(url, api_key)
    health = client.request("/health")
    lines = [f"GET /health {health.status or health.error}"]
    if health.status is not None:
        limit = 30.0
        answer = client.generate(model or client.model() or "default", timeout=limit)
        outcome = answer.status or (f"timeout after {limit:.0f}s" if answer.error == "timeout" else answer.error)
        if answer.status == 200 and not probe.generation(answer)["ok"]:
            outcome = "503 no token in the answer"
        lines.append(f"POST /v1/completions {outcome}")
    return {"http_probe": "".join(f"{line}\n" for line in lines)}


def manifest(channels: dict[str, Any]) -> str:
    """What a bundle holds, as JSON: channel -> size in characters, null for what does not exist on the host."""
    return json.dumps(
        {key: None if value is None else len(str(value)) for key, value in sorted(channels.items())}, indent=2
    )
