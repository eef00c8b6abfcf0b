# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""All hosts' answers as one picture: who is which machine, which GPU is free, and what speaks against deploying where."""

from __future__ import annotations

import typing as t

from ansible_collections.inferlab.dflash.plugins.module_utils._plan import identity, occupancy, preflight

from . import findings

Answers = t.Mapping[str, t.Mapping[str, t.Any]]


def answer_of(
    gpu_result: t.Mapping[str, t.Any] | None,
    survey_result: t.Mapping[str, t.Any] | None,
    expect: t.Any = None,
    contexts: t.Mapping[str, t.Any] | None = None,
    **about: t.Any,
) -> dict[str, t.Any]:
    """Return one host's answer from the registered results of gpu_facts and host_survey_info.

    The latter's holds the facts of both where it was asked for both. A call that was skipped or never made counts as not
    answered; what went wrong is told in `problems`.
    """
    gpu_result, survey_result = gpu_result or {}, survey_result or {}
    gpu = (gpu_result.get("ansible_facts") or {}).get("gpu") or survey_result.get("gpu")
    survey = survey_result.get("survey")
    unreachable = any(result.get("unreachable") for result in (gpu_result, survey_result)) and not gpu and not survey
    problems = []
    for module, result, value in (("gpu_facts", gpu_result, gpu), ("host_survey_info", survey_result, survey)):
        if value is None and (result.get("failed") or result.get("unreachable")):
            said = " ".join(str(result.get("msg") or "failed without a message").split())
            # Ansible leads SSH's own words with two sentences of advice.
            said = said.rpartition("can be reached over ssh: ")[2]
            problems.append(said[:300] if unreachable else f"{module} gave no answer: {said[:300]}")
    return {
        "gpu": gpu,
        "survey": survey,
        "expect": expect,
        "unreachable": unreachable,
        "problems": list(dict.fromkeys(problems)),
        "dead": dict((contexts or {}).get("dead") or {}),
        **about,
    }


def related(answers: Answers) -> dict[str, list[str]]:
    """Return for each host those that have its machine-id or one of its GPUs: the only ones it must be compared with.

    Found through an index, so that the cost grows with the fleet and not with its square.
    """
    index: dict[t.Any, list[str]] = {}
    for name, answer in answers.items():
        for mark in _marks(answer["gpu"]):
            index.setdefault(mark, []).append(name)
    together: dict[str, set[str]] = {name: set() for name in answers}
    for names in index.values():
        for name in names:
            together[name].update(other for other in names if other != name)
    return {name: sorted(others) for name, others in together.items()}


def _marks(gpu: t.Mapping[str, t.Any] | None) -> set[tuple[str, str]]:
    who = (gpu or {}).get("identity") or {}
    uuids = {*(who.get("gpu_uuids") or ()), *(device.get("uuid") for device in (gpu or {}).get("devices") or ())}
    marks = {("gpu", str(uuid)) for uuid in uuids if uuid}
    if who.get("machine_id"):
        marks.add(("machine", str(who["machine_id"])))
    return marks


def occupancy_of(
    gpu: t.Mapping[str, t.Any] | None,
    guests: t.Mapping[str, t.Mapping[str, t.Any]],
    idle_mib: int,
    dead: t.Mapping[str, str] | None = None,
) -> list[dict[str, t.Any]]:
    """Return each GPU with its holders as all systems on it see them, and whether it is free.

    Args:
        guests: gpu facts of the systems that share GPUs with this one, by name.
        idle_mib: used memory below which a GPU counts as idle.
        dead: UUID to reason of the GPUs on which no CUDA context could be opened.
    """
    devices = []
    for device in (gpu or {}).get("devices") or []:
        others = {
            name: other
            for name, facts in guests.items()
            for other in facts.get("devices") or []
            if other.get("uuid") and other.get("uuid") == device.get("uuid")
        }
        seen = occupancy.merge_views(device, others) if others else device
        judged = occupancy.assess(seen, idle_mib=idle_mib, dead=dead)
        holders = [_holder(process) for process in seen.get("processes") or []]
        foreign = [holder for holder in holders if not holder["own"]]
        devices.append(
            {
                "index": device.get("index"),
                "uuid": device.get("uuid"),
                "name": device.get("name"),
                "pci_bus_id": device.get("pci_bus_id"),
                "numa_node": device.get("numa_node"),
                "mig_mode": device.get("mig_mode"),
                "memory_total_mib": device.get("memory_total_mib"),
                "memory_used_mib": seen.get("memory_used_mib"),
                "utilization_gpu_pct": device.get("utilization_gpu_pct"),
                "temperature_c": device.get("temperature_c"),
                "power_draw_w": device.get("power_draw_w"),
                "free": judged["free"],
                "dead": judged["dead"],
                # Only instances of ours hold it: a deployment may replace them, so it is not lost.
                "own": bool(holders) and not foreign and not judged["dead"],
                "reasons": judged["reasons"],
                "holders": holders,
            }
        )
    return devices


def _holder(process: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    unit = occupancy.unit_of(process)
    keys = ("pid", "user", "command", "memory_mib", "guest", "seen_from")
    return {
        **{key: process.get(key) for key in keys},
        "unit": unit,
        "own": bool(unit) and str(unit).startswith("dflash-"),
        "text": occupancy.describe_process(process),
    }


def _hostname(answer: t.Mapping[str, t.Any]) -> str:
    return str(((answer["survey"] or {}).get("host") or {}).get("hostname") or "").lower()


def unseen_guests(survey: t.Mapping[str, t.Any] | None, surveyed: t.Container[str]) -> list[dict[str, t.Any]]:
    """Return the running guests that were given GPUs and that no surveyed host is."""
    return [
        guest
        for guest in (survey or {}).get("guests") or []
        if guest["gpus"] and guest["running"] and str(guest["name"] or "").lower() not in surveyed
    ]


def assemble(
    answers: Answers,
    thresholds: t.Mapping[str, int] | None = None,
    idle_mib: int = occupancy.IDLE_MIB,
) -> dict[str, dict[str, t.Any]]:
    """Return what the report says of each host, in the order given."""
    limits = {**findings.THRESHOLDS, **(thresholds or {})}
    surveyed = {name.lower() for name in answers} | {_hostname(answer) for answer in answers.values()}
    others = related(answers)
    hosts = {}
    for name, answer in answers.items():
        gpu = answer["gpu"]
        known = {name: gpu, **{other: answers[other]["gpu"] for other in others[name]}}
        aliases = identity.aliases(name, known)
        sharing = {other: known[other] for other in identity.sharing(name, known)}
        # One alias is enough to be told of: with many, each telling of all others would say the same n * n times.
        peers = {**{other: known[other] for other in aliases[:1]}, **sharing}
        devices = occupancy_of(gpu, sharing, idle_mib, answer["dead"])
        unseen = unseen_guests(answer["survey"], surveyed)
        found = findings.of_host(name, answer, devices, peers, limits, unseen)
        verdict = preflight.verdict(found)
        hosts[name] = {
            "state": "unreachable" if answer["unreachable"] else verdict["verdict"],
            "verdict": verdict,
            "address": answer.get("address"),
            "expect": answer.get("expect") or None,
            "driver": dict((gpu or {}).get("driver") or {}) or None,
            "identity": dict((gpu or {}).get("identity") or {}) or None,
            "gpus": devices,
            "same_machine_as": aliases,
            "shares_gpus_with": sorted(sharing),
            "unseen_guests": unseen,
            "findings": found,
            "gpu_warnings": list((gpu or {}).get("warnings") or []),
            "survey": answer["survey"],
        }
    return hosts


#: Findings that both hosts of a pair have; for the fleet once is enough.
_MUTUAL = frozenset(("same_machine", "host_and_guest", "user_space_differs"))


def all_findings(hosts: t.Mapping[str, t.Mapping[str, t.Any]]) -> list[dict[str, t.Any]]:
    """Return the findings of all hosts with the host's name: wrong machines first of all, then by severity.

    What two hosts say of each other is told once.
    """
    found: list[dict[str, t.Any]] = []
    told: set[tuple[str, frozenset[str]]] = set()
    for name, host in hosts.items():
        for item in host["findings"]:
            if item["code"] in _MUTUAL:
                mark = (item["code"], frozenset((name, str(item["found"]))))
                if mark in told:
                    continue
                told.add(mark)
            found.append({"host": name, **item})
    return sorted(
        found, key=lambda item: (preflight.SEVERITIES.index(item["severity"]), item["code"] != "wrong_machine")
    )
