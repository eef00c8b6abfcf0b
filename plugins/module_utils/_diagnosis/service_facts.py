# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the channels that describe a unit, its process, its arguments and its answers."""

from __future__ import annotations

import json
import re
import signal
from statistics import median
from typing import Any

from .text import normalise

ACCEPT_HINTS = ("accept len", "acceptance length")
_ACCEPT_WINDOW = 500
_ACCEPT = re.compile(r"(?:accept len|[Mm]ean acceptance length):\s*(\d+(?:\.\d+)?)")
_BLOCK_ACCEPT = re.compile(r"block accept len:\s*\d+(?:\.\d+)?")
_RATE = re.compile(r"accept rate:\s*(\d+(?:\.\d+)?)")
_PERCENT_RATE = re.compile(r"acceptance rate:\s*(\d+(?:\.\d+)?)\s*%")
_THROUGHPUT = re.compile(r"gen throughput \(token/s\):\s*(\d+(?:\.\d+)?)")
_UNITS = {
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1,
    "sec": 1,
    "min": 60,
    "m": 60,
    "h": 3600,
    "d": 86400,
    "day": 86400,
    "w": 604800,
}


def parse_properties(text: str) -> dict[str, str]:
    """C(systemctl show) output as a dict; a key that appears twice keeps all values, joined by newlines."""
    result: dict[str, str] = {}
    for line in text.splitlines():
        key, separator, value = line.partition("=")
        if separator and key and " " not in key:
            result[key] = f"{result[key]}\n{value}" if key in result else value
    return result


def signal_name(number: int) -> str:
    """9 -> KILL."""
    try:
        return signal.Signals(number).name[3:]
    except ValueError:
        return str(number)


def seconds(text: str) -> int | None:
    """systemd's spelling of a time span (C(1min 30s), C(15min), C(90000000)) in seconds; None for infinity."""
    text = text.strip()
    if text.isdigit():
        return round(int(text) / 1e6)
    parts = re.findall(r"(\d+(?:\.\d+)?)\s*(us|ms|sec|s|min|m|h|days?|d|w)\b", text)
    if not parts:
        return None
    return round(
        sum(float(number) * _UNITS[unit.rstrip("s") if unit.startswith("day") else unit] for number, unit in parts)
    )


def number(text: str | None) -> int | None:
    """A decimal number, or None."""
    return int(text) if text is not None and re.match(r"^-?\d+$", text.strip()) else None


def unit(text: str) -> dict[str, str]:
    """systemctl show output; the value of a repeated key is the last one."""
    return {
        key: item.split("\n")[-1] if key not in ("ExecStart", "Environment") else item
        for key, item in parse_properties(text).items()
    }


def unit_values(show: dict[str, str]) -> dict[str, Any]:
    """Exit status, signal, restarts and limits of a unit."""
    facts: dict[str, Any] = {}
    status, code = number(show.get("ExecMainStatus")), show.get("ExecMainCode", "")
    killed = code in ("2", "3", "killed", "dumped") or (not code and show.get("Result") in ("signal", "core-dump"))
    if status is not None and killed:
        facts["signal"] = signal_name(status)
    elif status is not None and 200 <= status <= 243:
        facts["status"] = status
    elif status is not None and code != "0":
        facts["exit_code"] = status
    if number(show.get("NRestarts")):
        facts["restarts"] = number(show["NRestarts"])
    for key, ours in (("LimitMEMLOCK", "limit_memlock"), ("LimitNOFILE", "limit_nofile")):
        limit = number(show.get(key + "Soft") or show.get(key))
        if limit is not None:
            facts[ours] = limit
    timeout = show.get("TimeoutStartUSec")
    if timeout and seconds(timeout) is not None:
        facts["timeout_start_s"] = seconds(timeout)
    return facts


def shm_size(text: str) -> tuple[int, int] | None:
    """(size, available) of /dev/shm in KiB from df; headers may be in any language."""
    for line in text.splitlines():
        found = re.match(r"^\S+\s+(\d+)\s+(\d+)\s+(\d+)\s+\d+%\s+(\S+)", line)
        if found and found.group(4).startswith("/dev/shm"):
            return int(found.group(1)), int(found.group(3))
        found = re.match(r"^\S+\s+(\d+(?:\.\d+)?)([KMGT])\s+(?:\S+)\s+(\d+(?:\.\d+)?)([KMGT]?)\s+\d+%\s+(\S+)", line)
        if found and found.group(5).startswith("/dev/shm"):
            factor = {"": 1 / 1024, "K": 1, "M": 1 << 10, "G": 1 << 20, "T": 1 << 30}
            return (
                int(float(found.group(1)) * factor[found.group(2)]),
                int(float(found.group(3)) * factor[found.group(4)]),
            )
    return None


def _accept_lines(text: str) -> list[str]:
    """The last lines that tell an acceptance length, searched from the end."""
    lines: list[str] = []
    end = len(text)
    hints = [hint for hint in ACCEPT_HINTS if hint in text]
    while hints and len(lines) < _ACCEPT_WINDOW:
        at = max(text.rfind(hint, 0, end) for hint in hints)
        if at < 0:
            break
        begin = text.rfind("\n", 0, at) + 1
        stop = text.find("\n", at)
        lines.append(text[begin : len(text) if stop < 0 else stop])
        end = begin
    return lines


def acceptance(text: str) -> dict[str, Any]:
    """Median acceptance length and rate over the last decode lines, and how many lines there were."""
    lengths, rates, throughputs = [], [], []
    for line in _accept_lines(text):
        line = _BLOCK_ACCEPT.sub("", line)
        found = _ACCEPT.search(line)
        if not found:
            continue
        lengths.append(float(found.group(1)))
        rate, percent = _RATE.search(line), _PERCENT_RATE.search(line)
        if rate:
            rates.append(float(rate.group(1)))
        elif percent:
            rates.append(float(percent.group(1)) / 100)
        speed = _THROUGHPUT.search(line)
        if speed:
            throughputs.append(float(speed.group(1)))
    if not lengths:
        return {}
    facts: dict[str, Any] = {"accept_len": median(lengths), "_accept_lines": len(lengths)}
    if rates:
        facts["accept_rate"] = median(rates)
    if throughputs:
        facts["throughput"] = median(throughputs)
    return facts


def listeners(text: str) -> dict[int, dict[str, Any]]:
    """Port -> {holder, holder_pid} of ss -ltnp."""
    result: dict[int, dict[str, Any]] = {}
    for line in text.splitlines():
        port = re.search(r"LISTEN\s+\d+\s+\d+\s+\S*?:(\d+)\s", line)
        if not port:
            continue
        holder = re.search(r"users:\(\(\"([^\"]+)\",pid=(\d+)", line)
        result[int(port.group(1))] = {"holder": holder.group(1), "holder_pid": int(holder.group(2))} if holder else {}
    return result


def options(text: str) -> dict[str, str]:
    """Command line options and their values."""
    result: dict[str, str] = {}
    words = normalise(text).replace("=", " ", 0).split()
    index = 0
    while index < len(words):
        word = words[index]
        if word.startswith("--"):
            name, separator, inline = word.partition("=")
            following = words[index + 1] if index + 1 < len(words) else "--"
            if separator:
                result[name] = inline
            elif not following.startswith("--"):
                result[name] = following
                index += 1
            else:
                result[name] = ""
        index += 1
    return result


def packages(text: str) -> dict[str, str]:
    """Name -> version of pip freeze."""
    return dict(re.findall(r"^([A-Za-z0-9][\w.-]*)==(\S+)", text, re.M))


def environment(text: str) -> dict[str, str]:
    """NAME=value lines, or systemd's Environment= in one line."""
    return dict(re.findall(r"(?:^|\s)([A-Z][A-Z0-9_]+)=(\S*)", text))


def json_of(value: Any) -> dict[str, Any]:
    """A JSON object, or an empty dict."""
    if isinstance(value, dict):
        return value
    try:
        parsed = json.loads(normalise(value))
    except ValueError:
        return {}
    return parsed if isinstance(parsed, dict) else {}


def http(text: str) -> dict[str, Any]:
    """What the HTTP probe saw: {health, generation_ok, generation_bad, health_s, first_answer_s, refused}."""
    facts: dict[str, Any] = {"health": False, "generation_ok": False, "generation_bad": False, "refused": False}
    for line in text.splitlines():
        time = re.search(r"\bt=(\d+)", line)
        request = re.search(r"\b(GET|POST)\s+(\S+)\s+(.*)$", line)
        if not request:
            facts["refused"] = facts["refused"] or "refused" in line
            continue
        path, answer = request.group(2), request.group(3)
        good = re.match(r"(?:HTTP/\S+ )?200\b", answer) is not None
        generates = re.search(r"completions|/generate|health_generate|/v1/responses", path) is not None
        if generates and good:
            facts["generation_ok"] = True
            if time:
                facts.setdefault("first_answer_s", int(time.group(1)))
        elif generates and not re.match(r"(?:HTTP/\S+ )?4\d\d\b", answer):
            # A request that was refused as wrong or unauthorised has been answered.
            facts["generation_bad"] = True
        elif good:
            facts["health"] = True
            if time and path.startswith("/health"):
                facts.setdefault("health_s", int(time.group(1)))
        elif "refused" in answer:
            facts["refused"] = True
    return facts
