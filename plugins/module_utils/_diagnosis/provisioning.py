# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules on what package managers, pip, systemd and Ansible print while a host is being set up.

The roles' rescue blocks call L(explain, explain) with the failed task's result; diagnose() calls L(findings, findings).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Union

from .context import Context, Finding
from .text import Log, shorten
from .versions import of_package

CHANNELS = ("ansible_output", "apt_output", "command_output")
Chooser = Callable[[re.Match, str, Context], Union[str, None]]


@dataclass(frozen=True)
class Row:
    """Text that C(pattern) accepts stands for C(code)."""

    code: str
    cause: str | Chooser | None
    pattern: re.Pattern
    when: Callable[[Context], bool] | None = None


def _row(
    code: str, cause: str | Chooser | None, *alternatives: str, when: Callable[[Context], bool] | None = None
) -> Row:
    return Row(code, cause, re.compile("|".join(alternatives)), when)


def _lock_cause(match: re.Match, text: str, ctx: Context) -> str:
    holder = holder_of(text).get("holder", "")
    within = re.search(
        r"(?:post|pre)-?(?:installation|removal|inst|rm) script|maintainer script|postinst|Setting up |dkms autoinstall",
        text,
    )
    if re.search(r"python|ansible|AnsiballZ", holder) or (within and re.match(r"apt|dpkg|aptitude|dnf|yum|$", holder)):
        return "own_child"
    return "other_process"


def holder_of(text: str) -> dict[str, Any]:
    """Name and pid of the process that holds a package lock."""
    found = re.search(r"(?:held by|locked by another) process (?:with pid )?(\d+)(?:\s*\(([^)]+)\))?", text)
    # apt in any language: the lock's path, and later in the sentence the number with the name in brackets.
    found = found or re.search(r"/var/\S*lock[^\n]*?(?<![\d.(])(\d+)\s*[(\uff08]([^()\uff08\uff09\s]+)[)\uff09]", text)
    found = found or re.search(r"locked by the application with pid (\d+) \((?:\S*/)?([^)/]+)\)", text)
    found = found or re.search(r"(?:process with|with) (?:pid|PID):? ?(\d+)()", text)
    if not found:
        return {}
    return {"holder_pid": int(found.group(1)), **({"holder": found.group(2)} if found.group(2) else {})}


def _held_cause(match: re.Match, text: str, ctx: Context) -> str | None:
    if re.search(
        r"No package matching|Unable to locate package|has no installation candidate|was not found|No match for argument|[Uu]nable to find a match"
        r"|no package .* available|No package \S+ available|but it is not installable|nothing provides"
        r"|(?:no longer has|does not have) a Release|404 +Not Found|Status code: 404|but is referred to by another package"
        r"|Failed to download metadata|Cannot find a valid baseurl|Unable to fetch some archives",
        text,
    ):
        return "package_unavailable"
    if ctx.text("apt_mark_showhold").split() or re.search(r"[Hh]eld packages were changed|held back", text):
        return None
    branches = set(re.findall(r"(?:nvidia|cuda-drivers)[a-z-]*-(\d{3})\b", text))
    if branches:
        return "branch_conflict"
    return None


def _venv_cause(match: re.Match, text: str, ctx: Context) -> str | None:
    return "pep668" if "externally" in match.group(0).lower() else None


def _in_check_mode(ctx: Context) -> bool:
    mode = ctx.channels.get("ansible_check_mode")
    return (
        mode is True
        or str(mode).strip().lower() in ("true", "yes", "1")
        or '"check_mode": true' in ctx.text("ansible_output")
    )


ROWS: tuple[Row, ...] = (
    _row(
        "apt_lock_held",
        _lock_cause,
        r"[Cc]ould not get lock /\S+",
        r"Unable to acquire the dpkg frontend lock|Unable to lock (?:directory|the administration directory)",
        r"dpkg(?: frontend| status database)? (?:lock )?(?:is|was) locked by another process",
        r"E: [^\n]*(?:/var/lib/dpkg/lock|/var/lib/apt/lists/lock|/var/cache/apt/archives/lock)",
        r"Failed to lock apt for exclusive operation|Could not (?:lock|open lock) ?(?:file)?",
        r"Another app is currently holding the (?:yum|dnf) lock|[Ww]aiting for process with pid \d+ to finish",
        r"[Ff]ailed to obtain (?:the |rpm )*transaction lock|can't create transaction lock|[Yy]um lockfile is held by another process|lockfile is held",
        r"System management is locked by the application",
    ),
    _row(
        "venv_unavailable",
        _venv_cause,
        r"externally-managed-environment|(?:environment|interpreter at \S+) is externally managed",
        r"No virtual environment found|Virtual environments? not found|Failed to (?:create|inspect) (?:virtual ?environment|Python interpreter)",
        r"ensurepip is not available|No module named '?ensurepip|'ensurepip'[^\n]*returned non-zero",
        r"virtual environment was not created successfully|No module named '?venv\b|Failed to find required executable \"?'?virtualenv",
        r"/bin/python[\d.]*: No module named pip\b|[Uu]nable to find any of pip\S* to use|Failed to import the required Python library \(setuptools\)",
        r"(?:pip|python)[\d.]*: bad interpreter|No such file or directory: b?'/\S*/bin/pip\d*'|Failed to find required executable \"?pip",
    ),
    _row(
        "unit_stale",
        "daemon_reload",
        r"changed on disk\. Run '?\"?systemctl(?: --user)? daemon-reload",
        r"unit file(?:, source configuration file or drop-ins)? of (?P<unit>\S+) changed on disk",
    ),
    _row(
        "check_mode_missing_unit",
        None,
        r"Could not find the requested service \"?'?(?P<service>[\w@.-]+?)\"?'?(?::|\s|$)",
        r"Service is in unknown state",
        r"Unit (?:file )?(?P<service2>[\w@.-]+?)(?:\.service)? (?:could not be found|does not exist|not found)",
        when=_in_check_mode,
    ),
    _row(
        "reboot_required",
        "local_connection",
        r"reboot with local connection would reboot the control node",
    ),
    _row(
        "apt_held_broken",
        _held_cause,
        r"held broken packages|[Uu]nable to correct problems|pkgProblemResolver",
        r"No package matching '(?P<package>[^']+)' is available|Unable to locate package (?P<package2>\S+)",
        r"Package '?(?P<package3>[\w.+-]+)'? has no installation candidate|No match for argument: (?P<package4>\S+)",
        r"Version '[^']+' for '(?P<package5>[^']+)' was not found|[Uu]nable to find a match: (?P<package6>\S+)",
        r"[Uu]nmet dependencies|dependencies are not satisfiable|but it is not (?:going to be installed|installable)|is to be installed",
        r"-y was used without --allow-(?:downgrades|change-held-packages)|[Hh]eld packages were changed",
        r"package (?P<package7>\S+) conflicts with|cannot install (?:both|the best)|nothing provides \S+|problem with installed package",
        r"Failed to install some of the specified packages|filtered out by (?:modular|exclude) filtering|Depsolve Error",
        r"not possible to switch enabled streams|conflicting requests|dpkg was interrupted, you must manually run",
        r"E: Failed to fetch \S+|Unable to fetch some archives|(?:no longer has|does not have) a Release file",
        r"Failed to download metadata for repo|Cannot find a valid baseurl|Status code: 404 for \S+|is not available, but is referred to",
    ),
    # Last: package managers say so beside whatever else they report.
    _row(
        "reboot_required",
        None,
        r"[Ss]ystem restart required|reboot-required\b|[Rr]eboot is required|requires a reboot|[Rr]eboot should|must be rebooted|[Pp]lease reboot",
        r"[Mm]ismatching nvidia kernel module loaded|should consider rebooting|[Pp]ending kernel upgrade|not the expected kernel version",
    ),
)


def _flat(text: str) -> str:
    """Module output as lines: JSON escapes of newlines undone."""
    return text.replace("\\n", "\n").replace('\\"', '"').replace("\\u00d7", "×")


# The package at fault where another line of the same report names it.
_PACKAGE = re.compile(
    r"[Pp]ackage '([\w.+-]+)' has no installation candidate|No package ([\w.+-]+) available|No match for argument: ([\w.+-]+)"
    r"|Unable to locate package ([\w.+-]+)|Package ([\w.+-]+) is not available, but is referred to"
)


def _values(row: Row, match: re.Match, text: str, ctx: Context) -> dict[str, Any]:
    parsed = {key.rstrip("0123456789"): item for key, item in match.groupdict().items() if item}
    if row.code == "apt_lock_held":
        parsed.update(holder_of(text))
        path = re.search(r"(/var/\S+?/lock\S*?|/var/lib/rpm/\S*lock\S*?)(?:[\s.,)]|$)", text)
        if path:
            parsed["path"] = path.group(1)
    if row.code == "unit_stale" and "unit" not in parsed:
        found = re.search(r"of (\S+\.\w+) changed on disk|[Ww]arning: (\S+\.\w+) changed on disk", text)
        if found:
            parsed["unit"] = found.group(1) or found.group(2)
    if row.code == "venv_unavailable":
        package = re.search(r"(?:apt|apt-get|dnf|yum) install (python[\w.-]+)", text)
        if package:
            parsed["package"] = package.group(1)
    if row.code == "apt_held_broken":
        found = _PACKAGE.search(text)
        if found and "package" not in parsed:
            parsed["package"] = next(name for name in found.groups() if name)
        if "package" in parsed:
            parsed["package"] = parsed["package"].strip("'\"`.,;:)]}")
        requested = re.search(r"\(item=(\[[^\]]+\])\)", text)
        if requested:
            parsed["requested"] = re.findall(r"'([^']+)'", requested.group(1))
        if ctx.collected("apt_mark_showhold"):
            parsed["held"] = ctx.text("apt_mark_showhold").split()
    return parsed


def findings(ctx: Context) -> Iterator[Finding]:
    """What the output of a play or of its commands names."""
    for number, channel in enumerate(CHANNELS):
        text = _flat(ctx.text(channel))
        if not text.strip():
            continue
        tier = "play" if channel == "ansible_output" else "specific"
        log = Log(channel, text)
        for index, row in enumerate(ROWS):
            found = log.search(row.pattern)
            if found is None or (row.when is not None and not row.when(ctx)):
                continue
            match, line = found
            cause = row.cause(match, text, ctx) if callable(row.cause) else row.cause
            # Rows are in order of what explains what: a held lock explains a failed install.
            yield Finding(row.code, cause, tier, (number, index), (shorten(line.text),), _values(row, match, text, ctx))
    yield from _upgrade(ctx)


def _upgrade(ctx: Context) -> Iterator[Finding]:
    for before, after in (("rpm_before", "rpm_after"), ("dpkg_before", "dpkg_after")):
        if not (ctx.collected(before) and ctx.collected(after)):
            continue
        old, new = _package_versions(ctx.text(before)), _package_versions(ctx.text(after))
        moved = [(name, old[name], new[name]) for name in old if name in new and old[name] != new[name]]
        if moved:
            name, was, becomes = moved[0]
            line = f"{name}: {was} before the run, {becomes} after it"
            yield Finding(
                "unrequested_upgrade", None, "play", (-1, 0), (line,), {"from": was, "to": becomes, "package": name}
            )
            if ctx.driver.get("kernel_module_version") == was:
                yield Finding("reboot_required", None, "play", (1 << 20, 0), (f"loaded kernel module {was}",))


def _package_versions(text: str) -> dict[str, str]:
    result = {}
    for line in text.splitlines():
        found = re.match(r"^\s*(?:[a-z]{2}\s+)?(\S*nvidia\S*)\s+((?:\d+:)?\d\S*)", line)
        found = found or re.match(r"^\s*(\S*nvidia\S*?)-((?:\d+:)?\d\S*)", line)
        version = of_package(found.group(2)) if found else None
        if found and version:
            result[found.group(1).split(":")[0]] = version
    return result


def explain(result: Any, check_mode: bool = False) -> dict[str, Any]:
    """Diagnose a failed task's result (C(ansible_failed_result)) or its text. For the rescue blocks of the roles."""
    from .classify import diagnose

    text = result if isinstance(result, str) else json.dumps(result, default=str, ensure_ascii=False)
    return diagnose({"ansible_output": text, "ansible_check_mode": check_mode})
