# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Time and peak memory of the diagnosis over large journals.

    python tests/diagnosis_speed.py [--lines 50000]

Prints a line a journal; asserts nothing, since a loaded machine is no fault of the code.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
import tracemalloc
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / ".collections"))

from ansible_collections.inferlab.dflash.plugins.module_utils._diagnosis import diagnose
from ansible_collections.inferlab.dflash.plugins.module_utils._diagnosis.rules_engine import ROWS

PREFIX = "2026-03-03T02:10:11+0000 node7 dflash-chat[42]: "
FAULT = PREFIX + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."


def decoding(number: int) -> str:
    length = 2 + number % 100 / 100
    return (
        f"{PREFIX}[2026-03-03 02:10:11 TP{number % 8}] Decode batch, #running-req: {number % 9}, #token: {number}, token usage: 0.01,"
        f" accept len: {length:.2f}, accept rate: 0.20, cuda graph: True, gen throughput (token/s): 31.20, #queue-req: 0"
    )


def access(number: int) -> str:
    return f'{PREFIX}INFO:     127.0.0.1:{number % 60000} - "POST /v1/completions HTTP/1.1" 200 OK'


def noise(number: int) -> str:
    """Lines that differ in more than digits and hold many of the words that rules look for."""
    rng = random.Random(number)
    words = (
        "error",
        "backend",
        "config.json",
        "not found",
        "cache",
        "model",
        "dflash",
        "port",
        "watchdog",
        "memory",
        "driver version",
    )
    tail = "".join(rng.choices("abcdefghij", k=12))
    return f"{PREFIX}{' '.join(rng.choices(words, k=8))} {tail}"


WORDS = sorted(
    {
        word
        for row in ROWS
        for branch in row.branches
        for element in branch.elements
        for word in element
        if len(word) > 2
    }
)


def tail_of(number: int, length: int = 12) -> str:
    return "".join(random.Random(number).choices("abcdefghijklmnopqrstuvwxyz", k=length))


def wording(number: int) -> str:
    """The literals that the rules look for, in an order that means nothing."""
    return f"{PREFIX}{' '.join(random.Random(number).choices(WORDS, k=8))} {tail_of(number)}"


def refused(number: int) -> str:
    """Lines that match a rule and are none of its business."""
    return f"{PREFIX}INFO {tail_of(number)} asks: what is torch.OutOfMemoryError: CUDA out of memory? {tail_of(number + 1)}"


def paths(number: int) -> str:
    return f"{PREFIX}/data/{tail_of(number)} not found, missing model /x/{tail_of(number + 1)}"


def record(number: int) -> str:
    return json.dumps({"log": noise(number) + "\n", "stream": "stderr", "time": "2026-03-03T02:10:11.1Z"})


def unique(number: int) -> str:
    return f"{PREFIX}{' '.join(tail_of(8 * number + i) for i in range(8))}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Time the diagnosis over large journals.")
    parser.add_argument("--lines", type=int, default=50000)
    count = parser.parse_args().lines
    journals = {
        "serving": [decoding(n) if n % 3 else access(n) for n in range(count)],
        "adversarial": [noise(n) for n in range(count)],
        "mixed": [(decoding, access, noise)[n % 3](n) for n in range(count)],
        **{kind.__name__: [kind(n) for n in range(count)] for kind in (wording, refused, paths, record, unique)},
    }
    for name, lines in journals.items():
        text = "\n".join([*lines, FAULT])
        channels = {"unit_journal": text, "unit_show": "ActiveState=failed\nResult=exit-code\n"}
        begin = time.process_time()
        code = diagnose(channels)["code"]
        spent = time.process_time() - begin
        tracemalloc.start()
        diagnose(channels)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        print(
            f"{name}: {len(lines)} lines, {len(text) / 1e6:.1f} MB: {code} in {spent:.2f} s, {peak / 1e6:.0f} MB beside the journal"
        )


if __name__ == "__main__":
    main()
