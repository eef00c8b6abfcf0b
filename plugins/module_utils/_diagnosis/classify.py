# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""From channels to one verdict: gather what every rule finds, order it by precedence, put values and advice beside it."""

from __future__ import annotations

import re
from typing import Any

from . import catalogue, engine_parsers, provisioning, rules_engine, rules_host, rules_unit, service_facts
from .context import ENGINE_CHANNELS, Context, Finding
from .redact import redact
from .text import rank_of, shorten

# What a unit that serves still reports: faults of the host below it, and what the answers themselves show.
_WHILE_SERVING = ("play", "host", "benign")
_WHILE_SERVING_CODES = frozenset({"spec_acceptance_collapsed", "draft_config_invalid", "ready_but_not_serving"})
_EVIDENCE_LINES = 6
_STAGES = re.compile(
    r"(Init torch distributed begin|Init torch distributed ends|Load weight begin|Load weight end|Memory pool end"
    r"|Capture (?:\w+ )*cuda graph (?:begin|end)|Starting to load model|Capturing CUDA graphs?"
    r"|Application startup complete|The server is fired up and ready to roll)"
)


def diagnose(channels: dict[str, Any]) -> dict[str, Any]:
    """Name the cause of a failure.

    Args:
        channels: Evidence by channel name, as evidence.py collects it. A missing key means "not collected", an empty string
            "collected, empty", None "does not exist on this host".

    Returns:
        code, cause, parsed (values by name), secondary_codes, evidence (lines that prove it), remedy, must_not.
    """
    ctx = Context(channels)
    found = sorted(_gather(ctx), key=lambda item: (catalogue.TIERS.index(item.tier), item.order))
    if not found:
        return _verdict(ctx, Finding("unknown", None, "benign", (0, 0)), [])
    return _verdict(ctx, found[0], found[1:])


def _gather(ctx: Context) -> list[Finding]:
    found: list[Finding] = list(provisioning.findings(ctx))
    found += [item for item in (rule(ctx) for rule in rules_host.RULES) if item is not None]
    found += list(rules_engine.findings(ctx))
    found += list(rules_unit.exception(ctx))
    found += [item for item in (rule(ctx) for rule in rules_unit.RULES) if item is not None]
    if ctx.serving:
        found = [f for f in found if f.tier in _WHILE_SERVING or f.code in _WHILE_SERVING_CODES]
    timeouts = [f for f in found if f.code == "start_timeout"]
    if timeouts:
        # What systemd's own timeout tears down fails in many ways afterwards.
        given_up = timeouts[0].order
        found = [
            f for f in found if f.code == "start_timeout" or f.tier not in ("exception", "stall") or f.order < given_up
        ]
    return found


def _verdict(ctx: Context, primary: Finding, others: list[Finding]) -> dict[str, Any]:
    entry = catalogue.CODES[primary.code]
    secondary = []
    for item in others:
        if item.code not in (primary.code, "no_fault", *secondary):
            secondary.append(item.code)
    lines = list(primary.lines)
    for item in others:
        if item.code == primary.code or catalogue.TIERS.index(item.tier) <= catalogue.TIERS.index(primary.tier):
            lines += [line for line in item.lines if line not in lines]
    remedy = catalogue.remedy(primary.code, primary.cause)
    if primary.code == "unknown":
        remedy = _collect(ctx)
    return {
        "code": primary.code,
        "cause": primary.cause,
        "parsed": _parsed(ctx, primary, others),
        "secondary_codes": [] if primary.code in ("no_fault", "unknown") else secondary,
        "evidence": [redact(line) for line in lines[:_EVIDENCE_LINES]],
        "remedy": remedy,
        "must_not": list(entry.must_not),
        "meaning": entry.meaning,
        "lower_profile_helps": entry.lower_profile_helps,
    }


def _collect(ctx: Context) -> str:
    wanted = (
        "unit_show",
        "unit_journal",
        "kernel_log",
        "nvidia_smi",
        "http_probe",
        "df_shm",
        "ss_listen",
        "server_args",
    )
    missing = [name for name in wanted if not ctx.collected(name)]
    if missing:
        return f"Collect: {', '.join(missing)}."
    return "Collect a longer journal (all ranks, from the first failing run), the kernel log of the right boot, and core dumps."


def _parsed(ctx: Context, primary: Finding, others: list[Finding]) -> dict[str, Any]:
    """Values of all sources; those of the primary finding override the general ones."""
    values: dict[str, Any] = {key: item for key, item in ctx.driver.items() if not key.startswith("_")}
    values.update({key: item for key, item in ctx.acceptance.items() if not key.startswith("_")})
    values.update(service_facts.unit_values(ctx.unit))
    values.update(rules_unit.pair_values(ctx))
    shm = service_facts.shm_size(ctx.text("df_shm"))
    if shm is not None:
        values["shm_size_kib"] = shm[0]
    for package, key in (("torch", "torch_version"), ("sglang", "sglang_version")):
        if package in ctx.packages:
            values[key] = ctx.packages[package]
    if engine_parsers.required_cuda(ctx.packages):
        values["required_cuda"] = engine_parsers.required_cuda(ctx.packages)
    fraction = ctx.options.get("--mem-fraction-static", "")
    if re.match(r"^0?\.\d+$", fraction):
        values["mem_fraction_static"] = float(fraction)
    values.update(_from_journal(ctx))
    for item in reversed(others):
        # A value that only another finding has still helps; a rank or signal of another line would mislead.
        signal = item.parsed.get("signal")
        same = primary.code == item.code and signal is not None and primary.parsed.get("signal") == signal
        for key, value in item.parsed.items():
            if key not in values and (same or key not in ("rank", "port", "path", "signal", "role")):
                values[key] = value
    values.update(primary.parsed)
    if "rank" not in values and primary.tier in ("specific", "subsystem", "capture", "exception"):
        values.update(_rank_before(ctx, primary))
    launcher = rules_unit.marker(ctx) is not None and not primary.parsed.get("child")
    if values.get("signal") == "KILL" and (launcher or primary.cause == "requested_stop"):
        values["self_inflicted"] = True
    return {key: redact(value) if isinstance(value, str) else value for key, value in values.items()}


def _rank_before(ctx: Context, finding: Finding) -> dict[str, Any]:
    """The rank of the exception report in which the finding's line stands."""
    number, position = divmod(finding.order[0], 1 << 40)
    if number >= len(ENGINE_CHANNELS):
        return {}
    channel = ENGINE_CHANNELS[number]
    rank = None
    for line in ctx.logs[channel].lines_with("hit an exception", ctx.starts[channel]):
        if line.position > position:
            break
        rank = rank_of(line.text)
    return {} if rank is None else {"rank": rank}


def _from_journal(ctx: Context) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for channel in ("unit_journal", "command_output"):
        log, start = ctx.logs[channel], ctx.starts[channel]
        for hint, key, pattern in (
            ("nccl version", "nccl_version", r"NCCL version (\d+(?:\.\d+)+)"),
            ("using nccl==", "nccl_version", r"using nccl==(\d+(?:\.\d+)+)"),
            ("restart counter is at", "restarts", r"restart counter is at (\d+)"),
            ("avail mem=", "avail_mem_gb", r"avail mem=(\d+(?:\.\d+)?) GB"),
        ):
            for line in log.lines_with(hint, start):
                found = re.search(pattern, line.text)
                if found:
                    text = found.group(1)
                    values[key] = int(text) if key == "restarts" else float(text) if key == "avail_mem_gb" else text
                    if key == "nccl_version":
                        break
        window = log.text[start:][-2_000_000:]
        stages = _STAGES.findall(window)
        if stages:
            values.setdefault("last_stage", stages[-1])
        for line in log.lines_with("main process exited, code=", start):
            found = re.search(r"code=(?:killed|dumped), status=\d+/(\w+)", line.text)
            if found:
                values["signal"] = found.group(1)
        if "signal" not in values and any(True for _line in log.lines_with(": deactivated successfully", start)):
            values["exit_code"] = 0
        for line in log.lines_with("main process exited, code=exited", start):
            found = re.search(r"status=(\d+)/", line.text)
            if found and not 200 <= int(found.group(1)) <= 243:
                values["exit_code"] = int(found.group(1))
    return values


def summary(verdict: dict[str, Any]) -> str:
    """One line: code, cause and the first proof."""
    cause = f" ({verdict['cause']})" if verdict.get("cause") else ""
    proof = f": {shorten(verdict['evidence'][0], 160)}" if verdict.get("evidence") else ""
    return f"{verdict['code']}{cause}{proof}"
