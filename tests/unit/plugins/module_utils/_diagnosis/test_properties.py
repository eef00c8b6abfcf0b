# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What must hold for every case under changes that add or remove nothing of substance; each Python looks at its part of them."""

from __future__ import annotations

import json
import random
import re

import pytest
from ansible_collections.inferlab.dflash.plugins.module_utils._diagnosis import catalogue, diagnose

from .conftest import part

NOISE = (
    "[2026-05-05 10:00:00 TP0] Decode batch, #running-req: 3, #token: 900, token usage: 0.01, cuda graph: True, #queue-req: 0",
    'INFO:     10.0.0.7:50000 - "GET /metrics HTTP/1.1" 200 OK',
    "INFO 05-05 10:00:00 [loggers.py:123] Engine 000: Avg prompt throughput: 0.0 tokens/s, Running: 0 reqs",
    "[2026-05-05 10:00:00] Ignore import error when loading sglang.srt.models.mistral: No module named 'mistral_common'",
    "WARNING 05-05 10:00:00 [config.py:1] FlashInfer is not installed, using the fallback",
    "/opt/v/lib/python3.12/site-packages/x.py:5: FutureWarning: this will change",
    "x\x00y\ufffd \x1b[31mred\x1b[0m bytes",
    "Zeile mit Umlauten äöü und İ",
    "[2026-05-05 10:00:00] Using default HuggingFace chat template",
    "",
)
LOGS = ("unit_journal", "kernel_log")


def allowed(case, code):
    """The same code, no code, or one that says only that something failed."""
    expected = {case["expected"]["code"], *case["expected"].get("also_acceptable", [])}
    return code in expected | {"unknown"}


def changed(case, change):
    channels = dict(case["input"])
    for name in LOGS:
        if isinstance(channels.get(name), str) and channels[name]:
            channels[name] = "\n".join(change(channels[name].rstrip("\n").split("\n"))) + "\n"
    return channels


def between(rng):
    """A change that puts noise between the lines and after them."""

    def add(lines):
        result = []
        for line in lines:
            # A message of the kernel that continues on unprefixed lines is one message.
            if line[:1].strip() or not result:
                result += [rng.choice(NOISE) for _unused in range(rng.randrange(4))]
            result.append(line)
        return result + [rng.choice(NOISE) for _unused in range(30)]

    return add


@pytest.mark.parametrize("seed", range(3))
def test_noise_between_the_lines(all_cases, seed):
    for case in part(all_cases, seed):
        add = between(random.Random(f"{case['id']}{seed}"))
        assert allowed(case, diagnose(changed(case, add))["code"]), case["id"]


def test_much_noise_before_and_after(all_cases):
    before, after = random.Random(1).choices(NOISE, k=300), random.Random(2).choices(NOISE, k=300)
    for case in part(all_cases):
        assert allowed(case, diagnose(changed(case, lambda lines: [*before, *lines, *after]))["code"]), case["id"]


def test_order_of_noise_is_irrelevant(all_cases):
    noise = random.Random(3).choices(NOISE, k=50)
    shuffled = random.Random(4).sample(noise, k=len(noise))
    for case in part(all_cases):
        one = diagnose(changed(case, lambda lines: [*noise, *lines]))
        other = diagnose(changed(case, lambda lines: [*shuffled, *lines]))
        assert (one["code"], one["cause"]) == (other["code"], other["cause"]), case["id"]


PREFIXES = [
    "Dec  1 00:00:00 some-host-01.example.org app[77]: ",
    "2026-12-01T00:00:00.123456+01:00 h python3[77]: ",
    "(EngineCore_DP0 pid=60) ",
    "[rank5]: ",
    "\x1b[32m|\x1b[0m ",
    "^[[36mchat-1  |^[[0m ",
    "chat-1  | ",
    "[1,3]<stderr>:",
    "2026-12-01T00:00:00.123456789Z stderr F ",
    "pod/chat-0/engine ",
    "Dec  1 00:00:00 h app[77]: #033[1;31m",
]


@pytest.mark.parametrize("prefix", PREFIXES)
def test_prefixes(all_cases, prefix):
    for case in part(all_cases, PREFIXES.index(prefix)):

        def add(lines):
            return [prefix + line if line[:1].strip() and "systemd[" not in line else line for line in lines]

        assert allowed(case, diagnose(changed(case, add))["code"]), case["id"]


def docker_record(line):
    return json.dumps({"log": line + "\n", "stream": "stderr", "time": "2026-12-01T00:00:00.1Z"})


def logger_record(line):
    return json.dumps({"asctime": "2026-12-01 00:00:00,1", "name": "engine", "message": line}, ensure_ascii=False)


def journal_record(line):
    """As journalctl -o json prints it; a message with control characters is a list of bytes."""
    found = re.match(
        r"\w{3} +\d+ [\d:]{8} \S+ (?P<SYSLOG_IDENTIFIER>[^\s\[:]+)\[(?P<_PID>\d+)\]: (?P<MESSAGE>.*)$", line
    )
    record = {"__REALTIME_TIMESTAMP": "1796083200000000", **(found.groupdict() if found else {"MESSAGE": line})}
    if len(line) % 2:
        record["MESSAGE"] = list(record["MESSAGE"].encode())
    return json.dumps(record)


@pytest.mark.parametrize("record", [docker_record, logger_record, journal_record])
def test_records_of_loggers(all_cases, codes, record):
    """A log that was kept as JSON records gives the verdict of its lines."""
    for case in part(all_cases):

        def wrap(lines):
            return [line if line.startswith("{") else record(line) for line in lines]

        assert diagnose(changed(case, wrap))["code"] == codes[case["id"]], case["id"]


def test_bytes_of_another_encoding(all_cases, codes):
    for case in part(all_cases):
        lines = "Ger\xe4t \x80 f\xfcr\n".encode("cp1252", "replace")
        channels = {
            k: lines + v.encode() + lines if isinstance(v, str) and v and k in LOGS else v
            for k, v in case["input"].items()
        }
        assert diagnose(channels)["code"] == codes[case["id"]], case["id"]


def test_cutting_the_head_never_names_another_cause(all_cases):
    for case in part(all_cases):
        lines = str(case["input"].get("unit_journal") or "").rstrip("\n").split("\n")
        for cut in range(1, len(lines)):
            channels = {**case["input"], "unit_journal": "\n".join(lines[cut:]) + "\n"}
            code = diagnose(channels)["code"]
            # Where two faults are in one log, the second is left when the first is cut off.
            second = case["expected"].get("secondary_codes", [])
            assert allowed(case, code) or code in catalogue.GENERIC or code in second, (case["id"], cut, code)


def test_missing_channels_never_name_another_cause_in_the_engine(all_cases):
    """Without the side channels the engine's own words decide, or nothing does."""
    for case in part(all_cases):
        for name in ("unit_show", "df_shm", "env", "server_args", "ss_listen"):
            if name not in case["input"] or name in case["expected"].get("decided_by", ()):
                continue
            channels = {key: item for key, item in case["input"].items() if key != name}
            code = diagnose(channels)["code"]
            assert allowed(case, code) or code in catalogue.GENERIC or code == "no_fault", (case["id"], name, code)


def test_windows_line_ends_bytes_and_lists(all_cases, codes):
    for case in part(all_cases):
        expected = codes[case["id"]]
        assert diagnose(changed(case, lambda lines: [line + "\r" for line in lines]))["code"] == expected, case["id"]
        as_bytes = {k: v.encode() if isinstance(v, str) and k in LOGS else v for k, v in case["input"].items()}
        assert diagnose(as_bytes)["code"] == expected, case["id"]


def test_upper_bound_on_what_is_returned(all_cases):
    for case in part(all_cases):
        channels = changed(case, lambda lines: [*lines, "x" * 100_000])
        verdict = diagnose(channels)
        assert all(len(str(item)) < 5000 for item in verdict["parsed"].values())
