# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""nvidia-smi: the way to NVML on a host without nvidia-ml-py. Private to this collection."""

from __future__ import annotations

import typing as t

from ansible_collections.inferlab.dflash.plugins.module_utils._gpu import smi_text
from ansible_collections.inferlab.dflash.plugins.module_utils._gpu.host import Host

# Codes of NVML by the sentence that nvidia-smi prints for them.
_CODES = (
    ("version mismatch", 18),
    ("Driver Not Loaded", 9),
    ("couldn't communicate with the NVIDIA driver", 9),
    ("couldn't find libnvidia-ml", 12),
    ("Insufficient Permissions", 4),
    ("GPU is lost", 15),
    ("Unknown Error", 999),
)


def error_code(sentence: str | None) -> int | None:
    return next((code for text, code in _CODES if text in (sentence or "")), None)


def _pairs(devices: list[dict[str, t.Any]], links: dict, states: dict) -> list[dict[str, t.Any]]:
    found = []
    for i, one in enumerate(devices):
        for j in range(i + 1, len(devices)):
            words = [states.get((i, j)), states.get((j, i))]
            ok = None if None in words else all(word == "OK" for word in words)
            found.append({"a": one["uuid"], "b": devices[j]["uuid"], "link": links.get((i, j)), "ok": ok})
    return found


def collect(host: Host, devices: bool, topology: bool) -> dict[str, t.Any] | None:
    """The same shape as nvml.collect, plus nvidia_smi_version; None when there is no nvidia-smi to run.

    The programs run side by side: each of them opens every GPU, which is what takes the time.
    """
    version = host.start(["nvidia-smi", "--version"])
    if version is None or version.failure:
        return None
    log = host.start(["nvidia-smi", "-q", "-x"]) if devices else None
    capability = host.start(["nvidia-smi", "--query-gpu=uuid,compute_cap", "--format=csv"]) if devices else None
    links = host.start(["nvidia-smi", "topo", "-m"]) if devices and topology else None
    states = host.start(["nvidia-smi", "topo", "-p2p", "r"]) if devices and topology else None

    told = version.finish(host.timeout)
    banner = smi_text.smi_banner(told.out + told.err)
    answer: dict[str, t.Any] = {
        "nvidia_smi_version": banner["nvidia_smi_version"],
        "nvml_version": banner["nvml_version"],
        "driver_version": banner["driver_version"],
        "cuda_version": banner["cuda_version"],
        "error": told.reason or banner["error"],
        "error_code": error_code(banner["error"]),
        "devices": None,
        "p2p": None,
        "reasons": {},
    }
    if log is None:
        return answer
    result = log.finish(host.timeout)
    document = smi_text.smi_xml(result.out)
    if document is None:
        failed = smi_text.smi_banner(result.out + result.err)
        if failed["error"] == "No devices were found":
            answer["devices"] = []
        else:
            sentence = result.reason or failed["error"] or f"nvidia-smi -q -x ended with {result.rc} and no XML"
            answer.update(error=sentence, error_code=error_code(sentence))
            answer["nvml_version"] = answer["nvml_version"] or failed["nvml_version"]
        return answer
    found = document["devices"]
    answer.update(error=None, error_code=None, devices=found)
    answer["driver_version"] = answer["driver_version"] or document["driver_version"]
    answer["cuda_version"] = answer["cuda_version"] or document["cuda_version"]
    capabilities = {}
    if capability is not None:
        rows = smi_text.query_csv(capability.finish(host.timeout).out)
        capabilities = {row.get("uuid"): row.get("compute_cap") for row in rows}
    for device in found:
        device["compute_capability"] = capabilities.get(device["uuid"])
        device["nvlinks_active"] = None
        for process in device["processes"] or ():
            process["type"] = process["type"] or None
    if links is not None and states is not None:
        words = smi_text.matrix(links.finish(host.timeout).out)
        answer["p2p"] = _pairs(found, words, smi_text.matrix(states.finish(host.timeout).out))
    return answer
