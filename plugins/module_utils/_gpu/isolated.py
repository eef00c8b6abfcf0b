# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Calls into native libraries of the driver, in a child that may hang or die without harm. Private to this collection."""

from __future__ import annotations

import json
import os
import select
import signal
import time
import typing as t


def call(function: t.Callable[[], t.Any], timeout: float) -> tuple[t.Any, str | None]:
    """(answer, None), or (None, reason) when the child hung, died by a signal or raised. The answer travels as JSON."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        # Whatever happens here, the child ends without the parent's exit handlers.
        try:
            os.close(reader)
            try:
                answer = {"answer": function()}
            except Exception as error:
                answer = {"error": f"{type(error).__name__}: {error}"}
            with os.fdopen(writer, "w") as stream:
                json.dump(answer, stream)
        finally:
            os._exit(0)
    os.close(writer)
    received = bytearray()
    deadline = time.monotonic() + timeout
    complete = False
    while not complete:
        ready = select.select([reader], [], [], max(0.0, deadline - time.monotonic()))[0]
        if not ready:
            break
        part = os.read(reader, 65536)
        complete = not part
        received += part
    os.close(reader)
    if not complete:
        os.kill(child, signal.SIGKILL)
        # A child that is stuck in the kernel does not even die; it is not waited for.
        os.waitpid(child, os.WNOHANG)
        return None, f"no answer within {timeout:g} s"
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        return None, f"ended by signal {signal.Signals(os.WTERMSIG(status)).name[3:]}"
    try:
        answer = json.loads(received.decode())
    except ValueError:
        return None, f"ended with status {status} and no answer"
    return answer.get("answer"), answer.get("error")
