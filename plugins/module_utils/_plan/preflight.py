# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Is this the machine that the inventory means, and can it be deployed to? Shared by deploy and the survey."""

from __future__ import annotations

import re
import typing as t

from . import identity
from .errors import PlanError

#: Severities, worst first. ``critical`` findings refuse a deployment, ``repairable`` ones name what to run before it.
SEVERITIES = ("critical", "repairable", "warning", "info")

EXPECT_KEYS = ("gpu_name", "gpu_count", "driver")

_REPAIR = "Run the play inferlab.dflash.reconcile_driver on this host first"


def _finding(severity: str, code: str, message: str, remedy: str, expected: t.Any = None, found: t.Any = None) -> dict:
    return {
        "severity": severity,
        "code": code,
        "message": message,
        "remedy": remedy,
        "expected": expected,
        "found": found,
    }


def check_expectation(expect: t.Any) -> dict[str, t.Any]:
    """``dflash_expect`` checked and coerced (survey answers are strings); empty values mean "no expectation"."""
    if expect is None or expect == "":
        return {}
    if not isinstance(expect, dict):
        raise PlanError(
            f"dflash_expect = {expect!r}", f"it is of type {type(expect).__name__}", f"Give a mapping of {EXPECT_KEYS}"
        )
    unknown = [key for key in expect if key not in EXPECT_KEYS]
    if unknown:
        raise PlanError(f"dflash_expect: {unknown[0]}", "this key is unknown", f"Known keys: {', '.join(EXPECT_KEYS)}")
    result: dict[str, t.Any] = {}
    for key, value in expect.items():
        if value is None or (isinstance(value, str) and not value.strip()):
            continue
        if key == "gpu_count":
            if isinstance(value, bool) or not re.fullmatch(r"[0-9]{1,3}", str(value).strip()):
                raise PlanError(f"dflash_expect: gpu_count = {value!r}", "it is no whole number", "Give for example 8")
            result[key] = int(str(value).strip())
        elif key == "driver" and not isinstance(value, str):
            # 580.10 read as a float would lose its zero.
            raise PlanError(f"dflash_expect: driver = {value!r}", "it is not a string", 'Quote it: "580.126.09"')
        else:
            result[key] = str(value).strip()
    return result


def _words(name: t.Any) -> list[str]:
    words = re.findall(r"[a-z0-9]+", str(name or "").lower())
    return [word for word in words if word not in ("nvidia", "geforce", "quadro")]


def name_matches(expected: str, found: t.Any) -> bool:
    """True when every expected word occurs in the found name: "RTX PRO 6000" matches its workstation edition."""
    have = _words(found)
    return bool(have) and all(word in have for word in _words(expected))


def driver_matches(expected: str, found: str) -> bool:
    """True when the expected components begin the found version: "580" and "580.126.09" both match 580.126.09."""
    want, have = expected.split("."), found.split(".")
    return have[: len(want)] == want


def _machine(host: str, expect: t.Mapping[str, t.Any], gpu: t.Mapping[str, t.Any]) -> list[dict[str, t.Any]]:
    devices = gpu.get("devices") or []
    state = (gpu.get("driver") or {}).get("state")
    names = [str(device["name"]) for device in devices if device.get("name")]
    count = expect.get("gpu_count")
    wanted = " x ".join(str(part) for part in (count, expect.get("gpu_name")) if part is not None)
    there = _summary(names) if names else f"{len(devices)} GPUs" if devices else "no GPU"
    findings = []
    wrong = "Correct the address or the group of this host in the inventory, or its dflash_expect; nothing was changed"
    if not devices and state not in ("no_gpu", "healthy") and (count or expect.get("gpu_name")):
        return [
            _finding(
                "repairable",
                "machine_unproven",
                f"{host} should have {wanted}; its GPUs cannot be read while the driver's state is {state}",
                _REPAIR,
                wanted,
                None,
            )
        ]
    others = [name for name in names if not name_matches(expect["gpu_name"], name)] if expect.get("gpu_name") else []
    if others or (expect.get("gpu_name") and not devices):
        message = f"{host} is the wrong machine: the inventory expects {wanted}, it has {there}"
        findings.append(_finding("critical", "wrong_machine", message, wrong, wanted, there))
    elif count is not None and count != len(devices):
        message = f"{host} has {there}, the inventory expects {wanted}"
        findings.append(_finding("critical", "wrong_gpu_count", message, wrong, wanted, there))
    return findings


def _summary(names: t.Sequence[str]) -> str:
    return ", ".join(f"{names.count(name)} x {name}" for name in dict.fromkeys(names))


def _driver(host: str, expect: t.Mapping[str, t.Any], gpu: t.Mapping[str, t.Any]) -> list[dict[str, t.Any]]:
    driver = gpu.get("driver") or {}
    state = driver.get("state") or "unknown"
    loaded = driver.get("kernel_module_version")
    library = driver.get("user_space_version")
    findings = []
    if state == "mismatch":
        user_space = library or driver.get("nvml_reported") or "unknown"
        message = f"{host}: kernel module {loaded or 'unknown'}, user space {user_space}"
        findings.append(_finding("repairable", "driver_library_mismatch", message, _REPAIR, loaded, library))
    elif state in ("no_driver", "module_only", "library_only"):
        said = {
            "no_driver": "NVIDIA hardware without a driver",
            "module_only": "a kernel module without the user-space driver",
            "library_only": "a user-space driver without a loaded kernel module",
        }[state]
        findings.append(_finding("repairable", f"driver_{state}", f"{host}: {said}", _REPAIR))
    elif state == "unknown":
        why = (
            "; ".join(f"{w.get('field')}: {w.get('reason')}" for w in gpu.get("warnings") or []) or "no reason is known"
        )
        message = f"{host}: the driver's state could not be told ({why})"
        findings.append(_finding("warning", "driver_unknown", message, "Look at these facts on the host"))
    wanted = expect.get("driver")
    found = loaded or driver.get("nvml_reported")
    if wanted and found and not driver_matches(wanted, found):
        message = f"{host}: driver {found} is loaded, the inventory expects {wanted}"
        remedy = "Correct dflash_expect.driver, or bring the driver there; nothing was changed"
        findings.append(_finding("critical", "wrong_driver", message, remedy, wanted, found))
    elif wanted and not found and state == "no_gpu":
        message = f"{host}: the inventory expects driver {wanted}, there is no GPU"
        findings.append(_finding("critical", "wrong_driver", message, "Correct dflash_expect.driver", wanted, None))
    if driver.get("reboot_required"):
        message = (
            f"{host}: the next boot loads driver {driver.get('next_boot_module_version') or 'unknown'}, not {loaded}"
        )
        findings.append(_finding("info", "reboot_required", message, "Plan a reboot; none is done without opt-in"))
    return findings


def _names(host: str, gpu: t.Mapping[str, t.Any], peers: t.Mapping[str, t.Any]) -> list[dict[str, t.Any]]:
    facts = {**peers, host: gpu}
    findings = []
    for other in identity.aliases(host, facts):
        first = min(host, other)
        message = f"{host} and {other} are one machine (same machine-id)"
        remedy = f"Limit the play to one name, for example {first}; a cloned system needs a machine-id of its own"
        findings.append(_finding("critical", "same_machine", message, remedy, None, other))
    for other in identity.sharing(host, facts):
        message = f"{host} and {other} share GPUs (host and guest); their GPUs are planned jointly"
        findings.append(_finding("info", "host_and_guest", message, "Nothing to do", None, other))
    return findings


def findings(
    expect: t.Any,
    gpu: t.Mapping[str, t.Any] | None,
    host: str = "this host",
    peers: t.Mapping[str, t.Mapping[str, t.Any] | None] | None = None,
) -> list[dict[str, t.Any]]:
    """Everything that speaks against deploying to this host, worst first.

    :arg expect: ``dflash_expect`` of the host.
    :arg gpu: ``ansible_facts.gpu``; None when they could not be gathered.
    :arg peers: ``gpu`` facts of the other hosts of the play, by name.
    :raises PlanError: for a malformed ``dflash_expect``.
    """
    wanted = check_expectation(expect)
    if gpu is None:
        return [_finding("critical", "no_facts", f"{host}: no GPU facts", "Gather them with inferlab.dflash.gpu_facts")]
    others = {name: facts for name, facts in (peers or {}).items() if name != host}
    found = _machine(host, wanted, gpu) + _driver(host, wanted, gpu) + _names(host, gpu, others)
    return sorted(found, key=lambda finding: SEVERITIES.index(finding["severity"]))


def verdict(found: t.Sequence[t.Mapping[str, t.Any]]) -> dict[str, t.Any]:
    """``ready``, ``ready_after`` (with what to do first) or ``not_ready`` (with the reasons)."""
    critical = [finding for finding in found if finding["severity"] == "critical"]
    repairable = [finding for finding in found if finding["severity"] == "repairable"]
    state = "not_ready" if critical else "ready_after" if repairable else "ready"
    return {
        "verdict": state,
        "because": [finding["message"] for finding in critical or repairable],
        "after": list(dict.fromkeys(finding["remedy"] for finding in repairable)) if not critical else [],
    }
