# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for an inference engine: dies, hangs or serves as its first argument says, in the words of real engines."""

from __future__ import annotations

import ctypes
import http.server
import json
import mmap
import os
import signal
import socket
import sys
import time


def say(text: str) -> None:
    print(text, flush=True)


def signalled(name: str) -> None:
    say("[2026-01-01 00:00:00 TP0] Init torch distributed begin.")
    os.kill(os.getpid(), getattr(signal, f"SIG{name}"))


def exit_zero(_unused: str) -> None:
    say("[2026-01-01 00:00:00 TP2] Scheduler hit an exception: Traceback (most recent call last):")
    say("torch.AcceleratorError: CUDA error: an illegal memory access was encountered")
    say("[2026-01-01 00:00:01] Received sigquit from a child process. It usually means the child failed.")


def stop_by_kill(_unused: str) -> None:
    def handler(_number: int, _frame: object) -> None:
        say("[2026-01-01 00:00:00] SIGTERM received. Draining requests and shutting down...")
        os.kill(os.getpid(), signal.SIGKILL)

    signal.signal(signal.SIGTERM, handler)
    say("The server is fired up and ready to roll!")
    time.sleep(3600)


def load_slowly(_unused: str) -> None:
    say("[2026-01-01 00:00:00 TP0] Load weight begin. avail mem=78.84 GB")
    time.sleep(3600)


def hang(_unused: str) -> None:
    say("[2026-01-01 00:00:00 TP0] Init torch distributed begin.")
    say("[2026-01-01 00:00:00 TP1] Init torch distributed begin.")
    time.sleep(3600)


def bind(port: str) -> None:
    listener = socket.socket()
    listener.bind(("0.0.0.0", int(port)))


def model(path: str) -> None:
    with open(f"{path}/config.json", encoding="utf-8") as stream:
        json.load(stream)


def raises(_unused: str) -> None:
    raise IndexError("list index out of range")


def load_library(path: str) -> None:
    ctypes.CDLL(path, mode=os.RTLD_NOW)


def fill_shm(size: str) -> None:
    descriptor = os.open("/dev/shm/nccl-stand-in", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        os.posix_fallocate(descriptor, 0, int(size))
    finally:
        os.unlink("/dev/shm/nccl-stand-in")


def touch_shm(size: str) -> None:
    """A sparse segment larger than the file system: writing to it ends in a bus error."""
    descriptor = os.open("/dev/shm/psm_stand_in", os.O_RDWR | os.O_CREAT, 0o600)
    os.unlink("/dev/shm/psm_stand_in")
    os.ftruncate(descriptor, int(size))
    with mmap.mmap(descriptor, int(size)) as memory:
        for offset in range(0, int(size), mmap.PAGESIZE):
            memory[offset] = 1


def allocate(size: str) -> None:
    say(str(len(bytearray(int(size)))))


def open_files(count: str) -> None:
    held = [os.open("/dev/null", os.O_RDONLY) for _unused in range(int(count))]
    say(str(len(held)))


def arguments(_unused: str) -> None:
    import argparse

    parser = argparse.ArgumentParser(prog="launch_server.py")
    parser.add_argument("--model-path")
    parser.parse_args(["--model-path", "/m", "--speculative-ddtree-budget", "16"])


def serve(mode: str) -> None:
    """serve: answers; mute: health only; chain-MODE: answers with an acceptance length."""
    kind, port = mode.split("@")

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.answer({"data": [{"id": "stand-in"}]})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if kind == "mute":
                time.sleep(3600)
            usage = {"completion_tokens": body["max_tokens"]}
            if kind == "collapsed":
                usage["acceptance_length"] = 1.0
            self.answer({"choices": [{"text": "x"}], "usage": usage})

        def answer(self, document: dict) -> None:
            data = json.dumps(document).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    say(f"server_args=ServerArgs(api_key='{os.environ.get('STAND_IN_KEY', '')}')")
    if kind != "mute":
        say("The server is fired up and ready to roll!")
    http.server.ThreadingHTTPServer(("127.0.0.1", int(port)), Handler).serve_forever()


WAYS = {
    "signal": signalled,
    "exit-zero": exit_zero,
    "stop-by-kill": stop_by_kill,
    "load-slowly": load_slowly,
    "hang": hang,
    "bind": bind,
    "model": model,
    "raise": raises,
    "library": load_library,
    "fill-shm": fill_shm,
    "touch-shm": touch_shm,
    "allocate": allocate,
    "open-files": open_files,
    "arguments": arguments,
    "serve": serve,
}

if __name__ == "__main__":
    WAYS[sys.argv[1]](sys.argv[2] if len(sys.argv) > 2 else "")
