# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Provoke real SGLang failures on a GPU and see whether the diagnosis names each one.

    python3 tests/gpu/provoke_failures.py OUT [--pair DIR] [--parallel 3] [--limit 360] [--only NAME ...]

DIR holds target/ and draft/ (a small dense Qwen3 pair with its DFlash drafter). OUT receives one log a failure and
results.json. Exit status 1 when a cause was not named. Takes about four minutes on one GPU.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import types
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
READY = "fired up and ready to roll"


def load_diagnosis() -> Callable[[dict], dict]:
    """The collection's diagnosis, imported from the checkout without Ansible."""
    for name in ("ansible_collections", "ansible_collections.inferlab", "ansible_collections.inferlab.dflash"):
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__path__ = []
    sys.modules["ansible_collections.inferlab.dflash"].__path__ = [str(REPO)]
    from ansible_collections.inferlab.dflash.plugins.module_utils._diagnosis import diagnose

    return diagnose


@dataclass
class Failure:
    """How to provoke one failure, and which codes name it."""

    name: str
    codes: tuple[str, ...]
    arguments: tuple[str, ...] = ()
    cause: str | None = None
    environment: dict[str, str | None] = field(default_factory=dict)
    model: str | None = None
    # What is done while the server starts, or once it serves (with its process and port).
    before: Callable[[int], object] | None = None
    once_ready: Callable[[subprocess.Popen], None] | None = None
    alone: bool = False
    healthy: bool = False


def kill_scheduler(number: int) -> Callable[[subprocess.Popen], None]:
    def kill(process: subprocess.Popen) -> None:
        for directory in Path("/proc").glob("[0-9]*"):
            try:
                command = (directory / "cmdline").read_text()
                group = os.getpgid(int(directory.name))
            except (OSError, ValueError):
                continue
            if group == process.pid and "scheduler" in command:
                os.kill(int(directory.name), number)
                return
        raise RuntimeError("no scheduler process found")

    return kill


def take_port(port: int) -> socket.socket:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen()
    return listener


def fill_gpu(_port: int) -> subprocess.Popen:
    """Another process that leaves 700 MiB of the GPU free."""
    program = (
        "import torch,time;free,_=torch.cuda.mem_get_info();"
        "x=torch.empty(free-700*2**20,dtype=torch.uint8,device='cuda');print('held',flush=True);time.sleep(600)"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    process.stdout.readline()
    return process


def drafter(pair: Path, folder: Path, name: str, change: Callable[[dict], None]) -> str:
    """A copy of the drafter with another configuration."""
    copy = folder / name
    shutil.copytree(pair / "draft", copy)
    path = copy / "config.json"
    config = json.loads(path.read_text())
    change(config)
    path.write_text(json.dumps(config))
    return str(copy)


def set_inner(key: str, value: object) -> Callable[[dict], None]:
    def change(config: dict) -> None:
        config.setdefault("dflash_config", {})[key] = value

    return change


def failures(pair: Path, folder: Path) -> list[Failure]:
    good = str(pair / "draft")
    path = folder / "bin"
    path.mkdir()
    for tool in ("sh", "env", "uname", "ldconfig"):
        found = shutil.which(tool, path="/usr/sbin:/usr/bin:/sbin:/bin")
        if found:
            (path / tool).symlink_to(found)

    def speculative(draft: str, *more: str) -> tuple[str, ...]:
        return ("--speculative-algorithm", "DFLASH", "--speculative-draft-model-path", draft, *more)

    return [
        Failure("unsupported-flag", ("server_args_invalid",), ("--no-such-option", "3"), cause="unknown_option"),
        Failure(
            "unknown-algorithm",
            ("server_args_invalid",),
            ("--speculative-algorithm", "NOSUCHTREE"),
            cause="unknown_option",
        ),
        Failure("no-drafter", ("server_args_invalid",), ("--speculative-algorithm", "DFLASH"), cause="missing_option"),
        Failure(
            "two-block-sizes",
            ("server_args_invalid",),
            speculative(good, "--speculative-num-draft-tokens", "7", "--speculative-dflash-block-size", "8"),
            cause="incompatible",
        ),
        Failure("missing-model", ("model_path_missing",), model="/srv/models/gone"),
        Failure("memory-fraction", ("kv_cache_oom",), ("--mem-fraction-static", "0.0001")),
        Failure(
            "bad-taps",
            ("draft_target_mismatch",),
            speculative(drafter(pair, folder, "taps", set_inner("target_layer_ids", [1, 3, 99]))),
            cause="target_layer_ids",
        ),
        Failure(
            "wrong-drafter",
            ("draft_target_mismatch",),
            speculative(drafter(pair, folder, "other", set_inner("target_layer_ids", [1, 3]))),
        ),
        Failure(
            "mask-token",
            ("draft_config_invalid",),
            speculative(drafter(pair, folder, "mask", set_inner("mask_token_id", 999999))),
            cause="mask_token",
        ),
        Failure("port-taken", ("port_in_use",), before=take_port, cause="http"),
        Failure("killed-scheduler", ("killed_by_signal",), once_ready=kill_scheduler(signal.SIGKILL)),
        Failure(
            "crashed-scheduler", ("killed_by_signal",), once_ready=kill_scheduler(signal.SIGSEGV), cause="native_crash"
        ),
        Failure(
            "no-compiler-tools",
            ("jit_tool_missing",),
            environment={
                "PATH": str(path),
                "CUDA_HOME": None,
                "TVM_FFI_CACHE_DIR": str(folder / "no-cache"),
                "TRITON_CACHE_DIR": str(folder / "no-triton"),
            },
        ),
        Failure("healthy", ("no_fault",), healthy=True),
        Failure("gpu-occupied", ("gpu_oom", "kv_cache_oom"), before=fill_gpu, alone=True),
    ]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def command(failure: Failure, pair: Path, port: int) -> list[str]:
    base = [
        *(sys.executable, "-m", "sglang.launch_server", "--model-path", failure.model or str(pair / "target")),
        *("--host", "127.0.0.1", "--port", str(port), "--attention-backend", "triton", "--sampling-backend", "pytorch"),
        *(
            "--grammar-backend",
            "none",
            "--context-length",
            "2048",
            "--cuda-graph-max-bs-decode",
            "2",
            "--random-seed",
            "1",
        ),
        *(
            "--skip-tokenizer-init",
            "--disable-radix-cache",
            "--disable-custom-all-reduce",
            "--mm-feature-transport",
            "cpu",
        ),
    ]
    if "--mem-fraction-static" not in failure.arguments:
        # Small, and with room for what others do to the same GPU meanwhile.
        base += ["--mem-fraction-static", "0.5", "--max-total-tokens", "20000"]
    return [*base, *failure.arguments]


def probe(port: int) -> str:
    lines = []
    for method, path, body in (
        ("GET", "/health", None),
        ("POST", "/generate", {"input_ids": [5, 6, 7], "sampling_params": {"max_new_tokens": 1, "temperature": 0}}),
    ):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data, {"Content-Type": "application/json"})
        try:
            with urllib.request.build_opener().open(request, timeout=30) as answer:
                lines.append(f"{method} {path} {answer.status}")
        except OSError as error:
            lines.append(f"{method} {path} {error}")
    return "\n".join(lines) + "\n"


def provoke(failure: Failure, pair: Path, out: Path, limit: float) -> dict:
    """Channels of one provoked failure."""
    port = free_port()
    held = failure.before(port) if failure.before else None
    environment = {**os.environ, **{key: value for key, value in failure.environment.items() if value is not None}}
    for key, value in failure.environment.items():
        if value is None:
            environment.pop(key, None)
    log = out / f"{failure.name}.log"
    argv = command(failure, pair, port)
    end = time.monotonic() + limit
    http = None
    with log.open("w", encoding="utf-8") as stream:
        process = subprocess.Popen(
            argv, stdout=stream, stderr=subprocess.STDOUT, env=environment, start_new_session=True
        )
        acted = False
        while process.poll() is None and time.monotonic() < end:
            if not acted and READY in log.read_text(errors="replace"):
                acted = True
                if failure.healthy:
                    http = probe(port)
                    break
                if failure.once_ready:
                    failure.once_ready(process)
                    end = min(end, time.monotonic() + 30)
            time.sleep(0.5)
        alive = process.poll() is None
        status = process.returncode
        if alive:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if isinstance(held, socket.socket):
        held.close()
    elif isinstance(held, subprocess.Popen):
        held.kill()
        held.wait()
    channels = {
        "unit_journal": log.read_text(errors="replace"),
        "server_args": " ".join(argv[3:]),
        "unit_show": "ActiveState=active\nSubState=running\n" if alive else unit_state(status),
    }
    if http is not None:
        channels["http_probe"] = http
    return channels


def unit_state(status: int) -> str:
    """What systemd would show for a process that ended so."""
    if status < 0:
        return f"ActiveState=failed\nResult=signal\nExecMainCode=2\nExecMainStatus={-status}\n"
    result = "exit-code" if status else "success"
    state = "failed" if status else "inactive"
    return f"ActiveState={state}\nResult={result}\nExecMainCode=1\nExecMainStatus={status}\n"


def main() -> int:
    parser = argparse.ArgumentParser(description="Provoke SGLang failures and diagnose them.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--pair", type=Path, default=Path("/tmp/pocket/dense"))
    parser.add_argument("--parallel", type=int, default=3)
    parser.add_argument("--limit", type=float, default=100, help="seconds a failure may take to show")
    parser.add_argument("--only", nargs="*", default=[])
    options = parser.parse_args()
    diagnose = load_diagnosis()
    options.out.mkdir(parents=True, exist_ok=True)
    results = {}

    def judge(failure: Failure) -> None:
        begin = time.monotonic()
        channels = provoke(failure, options.pair, options.out, options.limit)
        verdict = diagnose(channels)
        right = verdict["code"] in failure.codes and failure.cause in (None, verdict["cause"])
        results[failure.name] = {"ok": right, "expected": failure.codes, **verdict, "channels": list(channels)}
        (options.out / f"{failure.name}.json").write_text(
            json.dumps({k: v for k, v in channels.items() if k != "unit_journal"})
        )
        evidence = verdict["evidence"][0] if verdict["evidence"] else ""
        label = verdict["code"] + (f"/{verdict['cause']}" if verdict["cause"] else "")
        print(
            f"{'ok' if right else 'FAIL'}  {failure.name}  {label}  {time.monotonic() - begin:.0f} s  {evidence[:150]}",
            flush=True,
        )

    with tempfile.TemporaryDirectory() as folder:
        wanted = [
            item for item in failures(options.pair, Path(folder)) if not options.only or item.name in options.only
        ]
        with concurrent.futures.ThreadPoolExecutor(options.parallel) as pool:
            list(pool.map(judge, [item for item in wanted if not item.alone]))
        for item in wanted:
            if item.alone:
                judge(item)
    (options.out / "results.json").write_text(json.dumps(results, indent=2, default=str))
    wrong = [name for name, result in results.items() if not result["ok"]]
    print(f"{len(results) - len(wrong)} passed, {len(wrong)} failed")
    return 1 if wrong or not results else 0


if __name__ == "__main__":
    sys.exit(main())
