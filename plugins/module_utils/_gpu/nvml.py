# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""NVML through nvidia-ml-py: the only file that knows that library. Private to this collection."""

from __future__ import annotations

import typing as t

from ansible_collections.inferlab.dflash.plugins.module_utils._gpu import isolated, parse

_MIB = 1024 * 1024
_ARCHITECTURES = {
    2: "Kepler",
    3: "Maxwell",
    4: "Pascal",
    5: "Volta",
    6: "Turing",
    7: "Ampere",
    8: "Ada Lovelace",
    9: "Hopper",
    10: "Blackwell",
    13: "Rubin",
}
_COMPUTE_MODES = {0: "Default", 1: "Exclusive_Thread", 2: "Prohibited", 3: "Exclusive_Process"}
_LINKS = {0: "PIX", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
_MOST_NVLINKS = 36


def _mib(size: int | None) -> int | None:
    """Bytes as nvidia-smi prints them: a part of a MiB counts as a whole one (seen on an H200 with driver 580.159.04)."""
    return None if size is None else -(-size // _MIB)


def _text(raw: t.Any) -> str | None:
    return raw.decode("utf-8", "replace") if isinstance(raw, bytes) else raw


class _Reader:
    """Calls that answer None, and remember why, where a board does not have the value."""

    def __init__(self, nvml: t.Any) -> None:
        self.nvml = nvml
        self.reasons: dict[str, str] = {}

    def get(self, field: str, name: str, *arguments: t.Any) -> t.Any:
        try:
            return getattr(self.nvml, name)(*arguments)
        except self.nvml.NVMLError as error:
            self.reasons[field] = f"{name}: {error}"
        except AttributeError:
            self.reasons[field] = f"{name}: not in this nvidia-ml-py"
        return None


def _memory(read: _Reader, handle: t.Any) -> dict[str, t.Any]:
    # Version 2 of the call, as nvidia-smi uses it: version 1 counts the reserved part as used.
    version = getattr(read.nvml, "nvmlMemory_v2", None)
    info = read.get("memory_total_mib", "nvmlDeviceGetMemoryInfo", handle, *([version] if version else []))
    missing = "Not Supported" in read.reasons.get("memory_total_mib", "")
    return {
        "memory_total_mib": None if info is None else _mib(info.total),
        "memory_reserved_mib": None if info is None or not version else _mib(info.reserved),
        "memory_used_mib": None if info is None else _mib(info.used),
        "memory_free_mib": None if info is None else _mib(info.free),
        "unified_memory": False if info is not None else (True if missing else None),
    }


def _clocks(read: _Reader, handle: t.Any) -> dict[str, t.Any]:
    kinds = (("graphics", 0), ("sm", 1), ("memory", 2))
    current = {name: read.get(f"clocks_mhz.{name}", "nvmlDeviceGetClockInfo", handle, kind) for name, kind in kinds}
    limits = {
        f"max_{name}": read.get(f"clocks_mhz.max_{name}", "nvmlDeviceGetMaxClockInfo", handle, kind)
        for name, kind in kinds
    }
    return {**current, **limits}


def _ecc(read: _Reader, handle: t.Any) -> dict[str, t.Any]:
    mode = read.get("ecc.enabled", "nvmlDeviceGetEccMode", handle)
    errors = {
        f"{what}_{since}": read.get(f"ecc.{what}_{since}", "nvmlDeviceGetTotalEccErrors", handle, kind, counter)
        for what, kind in (("corrected", 0), ("uncorrected", 1))
        for since, counter in (("volatile", 0), ("aggregate", 1))
    }
    return {
        "enabled": None if mode is None else bool(mode[0]),
        "pending": None if mode is None else bool(mode[1]),
        **errors,
    }


def _pages(read: _Reader, handle: t.Any) -> dict[str, t.Any]:
    single = read.get("retired_pages.single_bit", "nvmlDeviceGetRetiredPages", handle, 0)
    double = read.get("retired_pages.double_bit", "nvmlDeviceGetRetiredPages", handle, 1)
    pending = read.get("retired_pages.pending", "nvmlDeviceGetRetiredPagesPendingStatus", handle)
    return {
        "single_bit": None if single is None else len(single),
        "double_bit": None if double is None else len(double),
        "pending": None if pending is None else bool(pending),
    }


def _rows(read: _Reader, handle: t.Any) -> dict[str, t.Any]:
    rows = read.get("remapped_rows", "nvmlDeviceGetRemappedRows", handle)
    if rows is None:
        return {"corrected": None, "uncorrected": None, "pending": None, "failure": None}
    corrected, uncorrected, pending, failure = rows
    return {"corrected": corrected, "uncorrected": uncorrected, "pending": bool(pending), "failure": bool(failure)}


def _processes(read: _Reader, handle: t.Any) -> list[dict[str, t.Any]] | None:
    found: dict[int, dict[str, t.Any]] = {}
    readable = False
    for kind, name in (("C", "nvmlDeviceGetComputeRunningProcesses"), ("G", "nvmlDeviceGetGraphicsRunningProcesses")):
        listed = read.get("processes", name, handle)
        readable = readable or listed is not None
        for entry in listed or ():
            used = _mib(entry.usedGpuMemory)
            known = found.setdefault(entry.pid, {"pid": entry.pid, "type": kind, "name": None, "memory_mib": used})
            known["type"] = kind if known["type"] == kind else "C+G"
    return [found[pid] for pid in sorted(found)] if readable else None


def _mig_devices(read: _Reader, handle: t.Any, enabled: bool) -> list[dict[str, t.Any]]:
    found: list[dict[str, t.Any]] = []
    for index in range(read.get("mig_devices", "nvmlDeviceGetMaxMigDeviceCount", handle) or 0 if enabled else 0):
        try:
            slice_handle = read.nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
        except read.nvml.NVMLError:
            continue  # a free slot
        memory = _memory(read, slice_handle)
        found.append(
            {
                "index": index,
                "gpu_instance_id": read.get("mig_devices", "nvmlDeviceGetGpuInstanceId", slice_handle),
                "compute_instance_id": read.get("mig_devices", "nvmlDeviceGetComputeInstanceId", slice_handle),
                "memory_total_mib": memory["memory_total_mib"],
                "memory_used_mib": memory["memory_used_mib"],
            }
        )
    return found


def _active_links(read: _Reader, handle: t.Any) -> list[int]:
    active = []
    for link in range(_MOST_NVLINKS):
        try:
            if read.nvml.nvmlDeviceGetNvLinkState(handle, link):
                active.append(link)
        except read.nvml.NVMLError:
            break
    return active


def _device(read: _Reader, index: int, handle: t.Any) -> dict[str, t.Any]:
    pci = read.get("pci_bus_id", "nvmlDeviceGetPciInfo", handle)
    capability = read.get("compute_capability", "nvmlDeviceGetCudaComputeCapability", handle)
    architecture = read.get("architecture", "nvmlDeviceGetArchitecture", handle)
    utilization = read.get("utilization_gpu_pct", "nvmlDeviceGetUtilizationRates", handle)
    power = read.get("power_draw_w", "nvmlDeviceGetPowerUsage", handle)
    limit = read.get("power_limit_w", "nvmlDeviceGetEnforcedPowerLimit", handle)
    performance = read.get("performance_state", "nvmlDeviceGetPerformanceState", handle)
    persistence = read.get("persistence_mode", "nvmlDeviceGetPersistenceMode", handle)
    mig = read.get("mig_mode", "nvmlDeviceGetMigMode", handle)
    device_id = None if pci is None else pci.pciDeviceId
    return {
        "index": index,
        "uuid": _text(read.get("uuid", "nvmlDeviceGetUUID", handle)),
        "name": _text(read.get("name", "nvmlDeviceGetName", handle)),
        "architecture": _ARCHITECTURES.get(architecture),
        "compute_capability": None if capability is None else f"{capability[0]}.{capability[1]}",
        "serial": _text(read.get("serial", "nvmlDeviceGetSerial", handle)),
        "vbios_version": _text(read.get("vbios_version", "nvmlDeviceGetVbiosVersion", handle)),
        "minor_number": read.get("minor_number", "nvmlDeviceGetMinorNumber", handle),
        "pci_bus_id": None if pci is None else _text(pci.busId),
        "pci_device_id": None if device_id is None else f"{device_id & 0xFFFF:04x}:{device_id >> 16:04x}",
        **_memory(read, handle),
        "utilization_gpu_pct": None if utilization is None else utilization.gpu,
        "utilization_memory_pct": None if utilization is None else utilization.memory,
        "power_draw_w": None if power is None else round(power / 1000, 2),
        "power_limit_w": None if limit is None else round(limit / 1000, 2),
        "temperature_c": read.get("temperature_c", "nvmlDeviceGetTemperature", handle, 0),
        "performance_state": None if performance is None else f"P{performance}",
        "compute_mode": _COMPUTE_MODES.get(read.get("compute_mode", "nvmlDeviceGetComputeMode", handle)),
        "persistence_mode": None if persistence is None else bool(persistence),
        "clocks_mhz": _clocks(read, handle),
        "pcie": {
            "generation": read.get("pcie.generation", "nvmlDeviceGetCurrPcieLinkGeneration", handle),
            "max_generation": read.get("pcie.max_generation", "nvmlDeviceGetMaxPcieLinkGeneration", handle),
            "width": read.get("pcie.width", "nvmlDeviceGetCurrPcieLinkWidth", handle),
            "max_width": read.get("pcie.max_width", "nvmlDeviceGetMaxPcieLinkWidth", handle),
        },
        "ecc": _ecc(read, handle),
        "retired_pages": _pages(read, handle),
        "remapped_rows": _rows(read, handle),
        "mig_mode": None if mig is None else bool(mig[0]),
        "mig_devices": _mig_devices(read, handle, bool(mig and mig[0])),
        "nvlinks_active": len(_active_links(read, handle)),
        "processes": _processes(read, handle),
    }


def _link(read: _Reader, one: t.Any, other: t.Any) -> str | None:
    """The word of `nvidia-smi topo -m` for a pair: NV<links>, else the PCI path."""
    if read.get("p2p.link", "nvmlDeviceGetP2PStatus", one, other, 2) == 0:
        links = _active_links(read, one)
        far = read.get("p2p.link", "nvmlDeviceGetPciInfo", other)
        direct = 0
        for link in links:
            remote = read.get("p2p.link", "nvmlDeviceGetNvLinkRemotePciInfo", one, link)
            if remote is not None and far is not None and _text(remote.busId) == _text(far.busId):
                direct += 1
        # Behind an NVSwitch no link ends at the other GPU: all of them lead to the switch.
        if direct or links:
            return f"NV{direct or len(links)}"
    return _LINKS.get(read.get("p2p.link", "nvmlDeviceGetTopologyCommonAncestor", one, other))


def _pairs(read: _Reader, handles: list[t.Any], uuids: list[str | None]) -> list[dict[str, t.Any]]:
    found = []
    for i, one in enumerate(handles):
        for j in range(i + 1, len(handles)):
            states = [
                read.get("p2p.ok", "nvmlDeviceGetP2PStatus", a, b, 0) for a, b in ((one, handles[j]), (handles[j], one))
            ]
            ok = None if None in states else all(state == 0 for state in states)
            found.append({"a": uuids[i], "b": uuids[j], "link": _link(read, one, handles[j]), "ok": ok})
    return found


def _read_all(topology: bool) -> dict[str, t.Any]:
    try:
        import pynvml
    except ImportError as error:
        return {"importable": False, "error": str(error)}
    answer: dict[str, t.Any] = {"importable": True, "error": None, "error_code": None}
    read = _Reader(pynvml)
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        answer.update(error=str(error), error_code=error.value)
        return answer
    try:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
        level = read.get("driver_cuda", "nvmlSystemGetCudaDriverVersion")
        answer.update(
            driver_version=_text(read.get("driver_version", "nvmlSystemGetDriverVersion")),
            nvml_version=parse.nvml_version(_text(read.get("nvml_reported", "nvmlSystemGetNVMLVersion"))),
            cuda_version=None if level is None else f"{level // 1000}.{level % 1000 // 10}",
            devices=[_device(read, index, handle) for index, handle in enumerate(handles)],
        )
        uuids = [device["uuid"] for device in answer["devices"]]
        answer["p2p"] = _pairs(read, handles, uuids) if topology else None
        answer["reasons"] = read.reasons
    finally:
        pynvml.nvmlShutdown()
    return answer


def collect(topology: bool, timeout: float) -> dict[str, t.Any]:
    """{importable, error, error_code, driver_version, nvml_version, cuda_version, devices, p2p, reasons}.

    importable False: nvidia-ml-py is not on this host. error_code is NVML's own (18: version mismatch), None when the call
    hung or died; error then says so.
    """
    answer, reason = isolated.call(lambda: _read_all(topology), timeout)
    if answer is None:
        return {"importable": True, "error": f"NVML {reason}", "error_code": None}
    return answer
