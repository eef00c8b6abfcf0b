# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a survey of one host amounts to: findings of the same form as preflight's, each with what to do about it."""

from __future__ import annotations

import typing as t

from ansible_collections.inferlab.dflash.plugins.module_utils._plan import preflight
from ansible_collections.inferlab.dflash.plugins.module_utils._plan.errors import PlanError

Finding = dict[str, t.Any]

GIB = 1024

#: Limits that the findings go by; role survey lets them be set.
THRESHOLDS: dict[str, int] = {
    "disk_free_gib": 20,
    "clock_skew_s": 30,
    "shm_mib": 1024,
    "restarts": 3,
}
_CONTAINERS = frozenset(("lxc", "lxc-libvirt", "docker", "podman", "systemd-nspawn", "oci", "wsl"))


def finding(severity: str, code: str, message: str, remedy: str, **more: t.Any) -> Finding:
    """Return one finding in preflight's form."""
    return {
        "severity": severity,
        "code": code,
        "message": message,
        "remedy": remedy,
        "expected": None,
        "found": None,
        **more,
    }


def of_host(
    name: str,
    answer: t.Mapping[str, t.Any],
    devices: t.Sequence[t.Mapping[str, t.Any]],
    peers: t.Mapping[str, t.Any],
    thresholds: t.Mapping[str, int],
    unseen: t.Sequence[t.Mapping[str, t.Any]] = (),
) -> list[Finding]:
    """Return everything worth saying about a host, worst first.

    Args:
        name: its inventory name.
        answer: gpu, survey, expect, unreachable and problems, as `fleet.answer_of` makes it.
        devices: its GPUs as `fleet.occupancy_of` judged them.
        peers: gpu facts of the hosts that are the same machine or share GPUs with it.
        thresholds: the limits, as in THRESHOLDS.
        unseen: guests with GPUs that were not surveyed.
    """
    if answer["unreachable"]:
        said = answer["problems"][0] if answer["problems"] else "no answer"
        remedy = "Check address, network, SSH and that the machine is on; nothing is known about it"
        return [finding("critical", "unreachable", f"{name} could not be reached: {said}", remedy)]
    found = [
        finding("warning", "survey_failed", f"{name}: {problem}", "Run the survey of this host alone with -vvv")
        for problem in answer["problems"]
    ]
    try:
        found += preflight.findings(answer["expect"], answer["gpu"], name, peers)
    except PlanError as exc:
        found.append(finding("critical", "bad_expectation", f"{name}: {exc}", "Correct dflash_expect in the inventory"))
    found += shared_gpus(name, answer["gpu"], peers)
    found += held_gpus(name, devices)
    for guest in unseen:
        message = (
            f"{name}: guest {guest['kind']} {guest['id']} ({guest['name'] or 'no name'}) has GPUs and was not surveyed"
        )
        remedy = "Put it into the inventory; for a container the survey's inventory.yml holds a ready entry"
        found.append(finding("info", "guest_not_surveyed", message, remedy))
    survey = answer["survey"]
    if survey:
        for check in _CHECKS:
            found += check(name, survey, answer["gpu"] or {}, thresholds)
    return sorted(found, key=lambda item: preflight.SEVERITIES.index(item["severity"]))


def shared_gpus(name: str, gpu: t.Mapping[str, t.Any] | None, peers: t.Mapping[str, t.Any]) -> list[Finding]:
    """Host and guest run on one kernel module; say so where their user space differs."""
    mine = (gpu or {}).get("driver") or {}
    found = []
    for other in sorted(peers):
        theirs = (peers[other] or {}).get("driver") or {}
        module, here, there = (
            mine.get("kernel_module_version"),
            mine.get("user_space_version"),
            theirs.get("user_space_version"),
        )
        same_module = module and module == theirs.get("kernel_module_version")
        if same_module and here and there and here != there and _machine(gpu) != _machine(peers[other]):
            found.append(
                finding(
                    "info",
                    "user_space_differs",
                    f"{name} and {other} share kernel module {module}; user space is {here} on {name}, {there} on {other}",
                    "Each system needs the user space of the shared module; reconcile the one that differs from it",
                    found=other,
                )
            )
    return found


def _machine(gpu: t.Mapping[str, t.Any] | None) -> t.Any:
    return ((gpu or {}).get("identity") or {}).get("machine_id")


def held_gpus(name: str, devices: t.Sequence[t.Mapping[str, t.Any]]) -> list[Finding]:
    """Name the holders of GPUs that are not free; when none is free, that stands before a deployment."""
    found = []
    for device in devices:
        if device["dead"]:
            message = f"{name}: GPU {device['index']} ({device['uuid']}) is dead: {'; '.join(device['reasons'])}"
            remedy = "Drain the host, reset or reboot it, look at the hardware; a deployment sets this GPU aside"
            found.append(finding("warning", "gpu_dead", message, remedy))
        elif not device["free"] and not device["own"]:
            reasons = "; ".join(device["reasons"]) or "reason unknown"
            message = f"{name}: GPU {device['index']} ({device['uuid']}) is not free: {reasons}"
            remedy = "It is left alone and another GPU is taken; to stop a job first, name it in dflash_stop_first"
            found.append(finding("info", "gpu_held", message, remedy))
    if devices and not any(device["free"] or device["own"] for device in devices):
        message = f"{name}: none of its {len(devices)} GPUs is free"
        remedy = "Free a GPU: wait for its holder, stop it by hand, or name it in dflash_stop_first"
        found.append(finding("repairable", "no_free_gpu", message, remedy))
    return found


def services(
    name: str, survey: t.Mapping[str, t.Any], _gpu: t.Any, thresholds: t.Mapping[str, int]
) -> t.Iterator[Finding]:
    """Failed and restarting units."""
    for unit in survey["services"]:
        interesting = unit["kind"] != "other"
        restarts = unit["restarts"] or 0
        said = f"{name}: {unit['unit']}"
        if unit["active"] == "failed":
            detail = f"result {unit['result'] or 'unknown'}" + (f", {restarts} restarts" if restarts else "")
            remedy = f"Ask for the cause: ansible-playbook inferlab.dflash.diagnose -l {name}"
            severity = "warning" if interesting else "info"
            yield finding(severity, "unit_failed", f"{said} ({unit['kind']}) failed: {detail}", remedy)
        elif interesting and restarts >= thresholds["restarts"]:
            remedy = "It may be in a crash loop; diagnose it before it is counted on"
            yield finding(
                "warning", "unit_restarting", f"{said} ({unit['kind']}) was restarted {restarts} times", remedy
            )
        if interesting and unit["stale"]:
            remedy = "systemctl daemon-reload, and restart it when that suits"
            yield finding("info", "unit_stale", f"{said} changed on disk and was not reloaded", remedy)


def workloads(
    name: str, survey: t.Mapping[str, t.Any], gpu: t.Mapping[str, t.Any], _limits: t.Any
) -> t.Iterator[Finding]:
    """Training that runs, engines that run in a guest, and a host that has nothing."""
    training = [process for process in survey["processes"] if process["kind"] == "training"]
    if training:
        shown = ", ".join(
            sorted({f"{p['command']}{f' ({unit})' if (unit := p['unit']) else ''}" for p in training})[:3]
        )
        message = f"{name}: training runs ({len(training)} processes): {shown}"
        yield finding(
            "info", "training_running", message, "It is left alone; to stop it first, name it in dflash_stop_first"
        )
    guests = sorted({f"{p['guest']['kind']} {p['guest']['id']}" for p in survey["processes"] if p["guest"]})
    if guests:
        message = f"{name}: processes of interest run in {', '.join(guests)}, not on the host itself"
        yield finding("info", "runs_in_guest", message, "Survey and deploy to the guest; put it into the inventory")
    engines = [e for e in survey["environments"] if {"sglang", "vllm", "inferlab-ddtree"} & set(e["packages"])]
    served = [unit for unit in survey["services"] if unit["kind"] in ("ddtree", "sglang", "vllm", "serving")]
    if gpu.get("devices") and not guests and not engines and not served and not survey["models"]:
        message = f"{name} is blank: no engine, no model, no inference service was found"
        yield finding("info", "blank_host", message, "Nothing to do: a deployment brings all of them")


def upkeep(name: str, survey: t.Mapping[str, t.Any], gpu: t.Mapping[str, t.Any], _limits: t.Any) -> t.Iterator[Finding]:
    """Automatic upgrades that reach the driver, and a reboot that the system waits for."""
    upgrades, reboot = survey["upgrades"], survey["reboot"]
    has_driver = (gpu.get("driver") or {}).get("state") not in (None, "no_gpu", "no_driver")
    if has_driver and upgrades.get("enabled") and upgrades.get("driver_excluded") is False:
        message = f"{name}: {upgrades['tool']} may replace the driver's user space under a loaded module"
        remedy = "The play inferlab.dflash.reconcile_driver holds the driver and excludes it from automatic upgrades"
        yield finding("warning", "driver_upgrades_itself", message, remedy)
    if reboot.get("required"):
        packages = ", ".join(reboot["packages"][:5]) or "packages unknown"
        message = f"{name}: the system asks for a reboot ({packages})"
        yield finding("info", "system_reboot_required", message, "Plan a reboot; none is done without opt-in")


def clock(
    name: str, survey: t.Mapping[str, t.Any], _gpu: t.Any, thresholds: t.Mapping[str, int]
) -> t.Iterator[Finding]:
    """A clock that is wrong, or that nothing keeps right. A container's clock is its host's business."""
    skew = survey["time"].get("skew_s")
    if skew is not None and abs(skew) > thresholds["clock_skew_s"]:
        ahead = "ahead of" if skew > 0 else "behind"
        message = f"{name}: its clock is {abs(skew):.0f} s {ahead} the control node's"
        yield finding(
            "warning", "clock_skew", message, "Set up time synchronisation; tokens and certificates depend on it"
        )
    container = survey["host"].get("virtualization") in _CONTAINERS
    if survey["time"].get("synchronized") is False and not container:
        yield finding(
            "info", "clock_unsynchronized", f"{name}: nothing keeps its clock", "Enable systemd-timesyncd or chrony"
        )


def space(
    name: str, survey: t.Mapping[str, t.Any], gpu: t.Mapping[str, t.Any], thresholds: t.Mapping[str, int]
) -> t.Iterator[Finding]:
    """Disks that are nearly full, a small /dev/shm, and models that hold memory."""
    for disk in survey["disks"]:
        free, size = disk["free_mib"], disk["size_mib"]
        if free is None or disk["mount"].startswith("/boot"):
            continue
        if disk["mount"] == "/dev/shm":
            if gpu.get("devices") and size < thresholds["shm_mib"]:
                message = f"{name}: /dev/shm has {size} MiB; NCCL and data loaders need more"
                yield finding(
                    "warning", "shm_too_small", message, "Enlarge it (mount option size=, or the container's setting)"
                )
        elif free < thresholds["disk_free_gib"] * GIB:
            message = f"{name}: {disk['mount']} has {free // GIB} GiB free of {size // GIB} GiB"
            yield finding("warning", "disk_low", message, "Make room before models are staged there")
    held = [model for model in survey["models"] if model["in_memory"]]
    if held:
        total = sum(model["size_mib"] for model in held) / GIB
        message = f"{name}: {len(held)} model directories in /dev/shm hold {total:.1f} GiB of memory"
        yield finding("info", "models_in_memory", message, "Remove those that nothing serves from")


def software(
    name: str, survey: t.Mapping[str, t.Any], gpu: t.Mapping[str, t.Any], _limits: t.Any
) -> t.Iterator[Finding]:
    """Wheels that need a newer driver, imports that fail, models that are incomplete or no pair."""
    level = (gpu.get("driver") or {}).get("driver_cuda")
    for environment in survey["environments"]:
        wanted = environment["torch_cuda"]
        if level and wanted and wanted != "cpu" and _level(wanted) > _level(level):
            message = f"{name}: torch in {environment['path']} is built for CUDA {wanted}, the driver supports {level}"
            yield finding(
                "warning", "cuda_driver_too_old", message, "Use wheels for the driver's CUDA, or a newer driver"
            )
        for module, outcome in (environment.get("imports") or {}).items():
            if outcome != "ok":
                message = f"{name}: {module} in {environment['path']} does not import: {outcome}"
                yield finding("warning", "import_failed", message, "Rebuild the environment from one lock file")
    for model in survey["models"]:
        if model["missing_files"]:
            message = f"{name}: {model['path']} lacks {len(model['missing_files'])} weight files, first {model['missing_files'][0]}"
            yield finding("warning", "checkpoint_incomplete", message, "Stage the model again from its source")
        if model["role"] == "drafter" and model["pairs"] and not any(pair["ok"] for pair in model["pairs"]):
            first = model["pairs"][0]
            why = first["problems"][0] if first["problems"] else "its configuration cannot be read"
            message = f"{name}: drafter {model['path']} is a pair with no target here; with {first['target']}: {why}"
            yield finding(
                "warning", "draft_target_mismatch", message, "Stage the target that this drafter was made for"
            )


def _level(version: str) -> tuple[int, ...]:
    """12.8 as (12, 8): a CUDA level is compared by number, unlike a driver version."""
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())


def gaps(name: str, survey: t.Mapping[str, t.Any], _gpu: t.Any, _limits: t.Any) -> t.Iterator[Finding]:
    """What the survey itself could not see."""
    if survey["warnings"]:
        shown = "; ".join(f"{warning['field']}: {warning['reason']}" for warning in survey["warnings"][:3])
        more = len(survey["warnings"]) - 3
        message = f"{name}: the survey is incomplete: {shown}" + (f"; and {more} more" if more > 0 else "")
        yield finding(
            "info", "survey_incomplete", message, "Raise survey_time_limit or narrow survey_paths where it matters"
        )


_CHECKS = (services, workloads, upkeep, clock, space, software, gaps)
