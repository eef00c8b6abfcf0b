# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parsers for what nvidia-smi prints: text in, plain values out; nothing raises on odd text. "Unknown" is None.

Private to this collection; may change without notice.
"""

from __future__ import annotations

import csv
import re
import typing as t

from ansible_collections.inferlab.dflash.plugins.module_utils._gpu.parse import VERSION

_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")

# What the tools print in place of a value. Compared in lower case, with brackets removed.
_NOT_A_VALUE = frozenset(
    (
        "",
        "n/a",
        "not supported",
        "not available",
        "not found",
        "unknown error",
        "insufficient permissions",
        "requested functionality has been deprecated",
        "gpu requires reset",
        "gpu is lost",
        "err!",
        "none",
    )
)


def value(text: str | None) -> str | None:
    """The text, or None when it is how nvidia-smi says "no value" ([N/A], Not Supported, ERR!, ...)."""
    if text is None:
        return None
    stripped = text.strip()
    bare = stripped.strip("[]").strip().lower()
    if bare in _NOT_A_VALUE or "deprecated" in bare:
        return None
    return stripped


def number(text: str | None) -> float | int | None:
    """The leading number of "49140 MiB", "29.35 W", "16x", "0 %"; None for anything that does not start with one."""
    known = value(text)
    if known is None:
        return None
    match = re.match(r"-?\d+(\.\d+)?", known)
    if not match:
        return None
    return float(match.group()) if match.group(1) else int(match.group())


def boolean(text: str | None) -> bool | None:
    """Enabled/Yes/Active is True, Disabled/No is False, anything else None."""
    known = (value(text) or "").lower()
    if known in ("enabled", "yes", "active", "on"):
        return True
    if known in ("disabled", "no", "not active", "off", "inactive"):
        return False
    return None


def smi_banner(text: str | None) -> dict[str, str | None]:
    """What the banner, `nvidia-smi --version` or a failed nvidia-smi says.

    Keys: nvidia_smi_version, driver_version, cuda_version, nvml_version (as printed; two components before R610),
    error (the sentence of failure, or None). R610 renamed the fields to KMD Version and CUDA UMD Version.
    """
    text = text or ""

    def found(pattern: str) -> str | None:
        match = re.search(pattern, text)
        return value(match.group(1)) if match else None

    error = re.search(
        r"Failed to initialize NVML: [^\n]+|NVIDIA-SMI has failed[^\n]*|No devices were found|"
        r"Unable to determine the device handle[^\n]*|NVIDIA-SMI couldn't find[^\n]*",
        text,
    )
    return {
        "nvidia_smi_version": found(rf"NVIDIA-SMI(?: version\s*:)?\s+({VERSION})"),
        "driver_version": found(rf"(?:Driver|DRIVER|KMD) [Vv]ersion\s*:\s*({VERSION}|N/A|ERR!)"),
        "cuda_version": found(r"CUDA (?:UMD )?Version\s*:\s*(\d+\.\d+|N/A|ERR!)"),
        "nvml_version": found(rf"NVML (?:library )?version\s*:\s*({VERSION})"),
        "error": error.group().strip() if error else None,
    }


def query_csv(text: str | None) -> list[dict[str, str | None]]:
    """`nvidia-smi --query-gpu=... --format=csv`: a dict a line; header names without their unit, "no value" as None."""
    lines = (text or "").splitlines()
    rows = [[cell.strip() for cell in row] for row in csv.reader(lines, skipinitialspace=True) if row]
    if len(rows) < 2:
        return []
    names = [re.sub(r"\s*\[.*\]$", "", name) for name in rows[0]]
    return [{name: value(cell) for name, cell in zip(names, row)} for row in rows[1:] if len(row) == len(names)]


def matrix(text: str | None) -> dict[tuple[int, int], str]:
    """`nvidia-smi topo -m` or `topo -p2p r`: {(i, j): word} for the GPU columns, i != j."""
    cells: dict[tuple[int, int], str] = {}
    columns: list[int] = []
    for raw in (text or "").splitlines():
        line = _ANSI.sub("", raw)
        words = [word.strip() for word in line.split("\t")] if "\t" in line else line.split()
        words = [word for word in words if word] if not columns else words
        while words and not words[0]:
            words.pop(0)
        if not words:
            if cells:
                break
            continue
        if not columns:
            columns = [int(word[3:]) for word in words if re.match(r"^GPU\d+$", word)]
            continue
        row = re.match(r"^GPU(\d+)$", words[0])
        if not row:
            continue
        for column, word in zip(columns, words[1:]):
            if column != int(row.group(1)) and word:
                cells[int(row.group(1)), column] = word
    return cells


class _Node:
    """Lookups in an nvidia-smi XML element that answer None for whatever is missing."""

    def __init__(self, element: t.Any) -> None:
        self.element = element

    def text(self, *paths: str) -> str | None:
        for path in paths:
            known = value(self.element.findtext(path))
            if known is not None:
                return known
        return None

    def number(self, *paths: str) -> float | int | None:
        return number(self.text(*paths))

    def integer(self, *paths: str) -> int | None:
        known = self.number(*paths)
        return None if known is None else int(known)

    def boolean(self, path: str) -> bool | None:
        return boolean(self.text(path))

    def total(self, *paths: str) -> int | None:
        known = [self.integer(path) for path in paths]
        return sum(part for part in known if part is not None) if any(part is not None for part in known) else None


def _ecc(gpu: _Node) -> dict[str, t.Any]:
    errors: dict[str, t.Any] = {
        "enabled": gpu.boolean("ecc_mode/current_ecc"),
        "pending": gpu.boolean("ecc_mode/pending_ecc"),
    }
    for kind in ("volatile", "aggregate"):
        base = f"ecc_errors/{kind}"
        errors[f"corrected_{kind}"] = gpu.total(
            f"{base}/sram_correctable", f"{base}/dram_correctable", f"{base}/single_bit/total"
        )
        errors[f"uncorrected_{kind}"] = gpu.total(
            f"{base}/sram_uncorrectable",
            f"{base}/sram_uncorrectable_parity",
            f"{base}/sram_uncorrectable_secded",
            f"{base}/dram_uncorrectable",
            f"{base}/double_bit/total",
        )
    return errors


def _processes(gpu: t.Any) -> list[dict[str, t.Any]] | None:
    holder = gpu.find("processes")
    if holder is None or (len(holder) == 0 and (holder.text or "").strip() not in ("", "None")):
        return None
    found = []
    for element in holder.findall("process_info"):
        node = _Node(element)
        pid = node.integer("pid")
        if pid is not None:
            found.append(
                {
                    "pid": pid,
                    "type": node.text("type"),
                    "name": node.text("process_name"),
                    "memory_mib": node.integer("used_memory"),
                }
            )
    return found


def _mig_devices(gpu: t.Any) -> list[dict[str, t.Any]]:
    found = []
    for element in gpu.findall("mig_devices/mig_device"):
        node = _Node(element)
        found.append(
            {
                "index": node.integer("index"),
                "gpu_instance_id": node.integer("gpu_instance_id"),
                "compute_instance_id": node.integer("compute_instance_id"),
                "memory_total_mib": node.integer("fb_memory_usage/total"),
                "memory_used_mib": node.integer("fb_memory_usage/used"),
            }
        )
    return found


def _pci_device_id(text: str | None) -> str | None:
    """ "223010DE" as lspci writes it: "10de:2230"."""
    match = re.match(r"^(?:0x)?([0-9A-Fa-f]{4})([0-9A-Fa-f]{4})$", text or "")
    return f"{match.group(2)}:{match.group(1)}".lower() if match else None


def _unified_memory(total: str | None) -> bool | None:
    """A board that shares the system's memory (GB10) has no frame buffer to report; missing permission says nothing."""
    if number(total) is not None:
        return False
    return True if (total or "").strip("[] \n") in ("N/A", "Not Supported") else None


def _smi_device(index: int, element: t.Any) -> dict[str, t.Any]:
    gpu = _Node(element)
    name = gpu.text("product_name")
    memory_total = gpu.integer("fb_memory_usage/total")
    mig = gpu.boolean("mig_mode/current_mig")
    power = ("gpu_power_readings", "power_readings")
    return {
        "index": index,
        "uuid": gpu.text("uuid"),
        "name": name,
        "architecture": gpu.text("product_architecture"),
        "serial": gpu.text("serial"),
        "vbios_version": gpu.text("vbios_version"),
        "minor_number": gpu.integer("minor_number"),
        "pci_bus_id": gpu.text("pci/pci_bus_id") or value(element.get("id")),
        "pci_device_id": _pci_device_id(gpu.text("pci/pci_device_id")),
        "memory_total_mib": memory_total,
        "memory_reserved_mib": gpu.integer("fb_memory_usage/reserved"),
        "memory_used_mib": gpu.integer("fb_memory_usage/used"),
        "memory_free_mib": gpu.integer("fb_memory_usage/free"),
        "utilization_gpu_pct": gpu.integer("utilization/gpu_util"),
        "utilization_memory_pct": gpu.integer("utilization/memory_util"),
        "power_draw_w": gpu.number(
            *[f"{base}/{leaf}" for leaf in ("power_draw", "average_power_draw", "instant_power_draw") for base in power]
        ),
        "power_limit_w": gpu.number(
            *[
                f"{base}/{leaf}"
                for leaf in ("current_power_limit", "enforced_power_limit", "power_limit")
                for base in power
            ]
        ),
        "temperature_c": gpu.integer("temperature/gpu_temp"),
        "performance_state": gpu.text("performance_state"),
        "compute_mode": gpu.text("compute_mode"),
        "persistence_mode": gpu.boolean("persistence_mode"),
        "clocks_mhz": {
            "graphics": gpu.integer("clocks/graphics_clock"),
            "sm": gpu.integer("clocks/sm_clock"),
            "memory": gpu.integer("clocks/mem_clock"),
            "max_graphics": gpu.integer("max_clocks/graphics_clock"),
            "max_sm": gpu.integer("max_clocks/sm_clock"),
            "max_memory": gpu.integer("max_clocks/mem_clock"),
        },
        "pcie": {
            "generation": gpu.integer("pci/pci_gpu_link_info/pcie_gen/current_link_gen"),
            "max_generation": gpu.integer("pci/pci_gpu_link_info/pcie_gen/max_link_gen"),
            "width": gpu.integer("pci/pci_gpu_link_info/link_widths/current_link_width"),
            "max_width": gpu.integer("pci/pci_gpu_link_info/link_widths/max_link_width"),
        },
        "ecc": _ecc(gpu),
        "retired_pages": {
            "single_bit": gpu.integer("retired_pages/multiple_single_bit_retirement/retired_count"),
            "double_bit": gpu.integer("retired_pages/double_bit_retirement/retired_count"),
            "pending": boolean(gpu.text("retired_pages/pending_retirement", "retired_pages/pending_blacklist")),
        },
        "remapped_rows": {
            "corrected": gpu.integer("remapped_rows/remapped_row_corr"),
            "uncorrected": gpu.integer("remapped_rows/remapped_row_unc"),
            "pending": gpu.boolean("remapped_rows/remapped_row_pending"),
            "failure": gpu.boolean("remapped_rows/remapped_row_failure"),
        },
        "mig_mode": mig,
        "mig_devices": _mig_devices(element),
        "unified_memory": _unified_memory(element.findtext("fb_memory_usage/total")),
        "processes": _processes(element),
    }


def smi_xml(text: str | None) -> dict[str, t.Any] | None:
    """`nvidia-smi -q -x`: {driver_version, cuda_version, devices}; None when the text is no such document.

    Memory in MiB, power in W, temperature in degrees Celsius, clocks in MHz, utilisation in per cent.
    """
    start = (text or "").find("<nvidia_smi_log")
    if start < 0:
        return None
    from xml.etree import ElementTree

    try:
        # From the root element on: the document names a DTD that nothing here needs.
        root = ElementTree.fromstring((text or "")[start:])
    except ElementTree.ParseError:
        return None
    log = _Node(root)
    return {
        "driver_version": log.text("driver_version", "kmd_version"),
        "cuda_version": log.text("cuda_version", "cuda_umd_version"),
        "devices": [_smi_device(index, element) for index, element in enumerate(root.findall("gpu"))],
    }
