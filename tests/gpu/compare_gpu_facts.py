# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hold gpu_facts against `nvidia-smi -q -x`, field by field, on a machine with NVIDIA GPUs.

usage: compare_gpu_facts.py --build FILE          with ansible here: pack the module into one file that needs only Python
       compare_gpu_facts.py [--module FILE] [--path DIR]

The module itself is run, through `ansible` or from the packed FILE. The packed file is run a second time without site packages,
so that the facts come through nvidia-smi, and with --path (a folder with nvidia-ml-py's pynvml.py) a third time through NVML.
nvidia-smi is read before and after with this file's own reading of the XML (not the collection's): a value that moves by itself
must lie between the two readings, with the margin given below, in one of three rounds. Prints a line a field; exit status 1 when
one differs.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from xml.etree import ElementTree

from packed import COLLECTIONS, call, pack

ABSENT = ("N/A", "[N/A]", "Not Supported", "None", "")

# field of a device -> (path in the XML, how to read it)
FIELDS = {
    "uuid": ("uuid", "text"),
    "name": ("product_name", "text"),
    "architecture": ("product_architecture", "text"),
    "serial": ("serial", "text"),
    "vbios_version": ("vbios_version", "text"),
    "minor_number": ("minor_number", "number"),
    "pci_bus_id": ("pci/pci_bus_id", "text"),
    "memory_total_mib": ("fb_memory_usage/total", "number"),
    "memory_reserved_mib": ("fb_memory_usage/reserved", "number"),
    "memory_used_mib": ("fb_memory_usage/used", "number"),
    "memory_free_mib": ("fb_memory_usage/free", "number"),
    "utilization_gpu_pct": ("utilization/gpu_util", "number"),
    "utilization_memory_pct": ("utilization/memory_util", "number"),
    "power_draw_w": ("gpu_power_readings/average_power_draw|gpu_power_readings/power_draw", "number"),
    "power_limit_w": ("gpu_power_readings/current_power_limit", "number"),
    "temperature_c": ("temperature/gpu_temp", "number"),
    "performance_state": ("performance_state", "text"),
    "compute_mode": ("compute_mode", "text"),
    "persistence_mode": ("persistence_mode", "flag"),
    "clocks_mhz.graphics": ("clocks/graphics_clock", "number"),
    "clocks_mhz.sm": ("clocks/sm_clock", "number"),
    "clocks_mhz.memory": ("clocks/mem_clock", "number"),
    "clocks_mhz.max_graphics": ("max_clocks/graphics_clock", "number"),
    "clocks_mhz.max_sm": ("max_clocks/sm_clock", "number"),
    "clocks_mhz.max_memory": ("max_clocks/mem_clock", "number"),
    "pcie.generation": ("pci/pci_gpu_link_info/pcie_gen/current_link_gen", "number"),
    "pcie.max_generation": ("pci/pci_gpu_link_info/pcie_gen/max_link_gen", "number"),
    "pcie.width": ("pci/pci_gpu_link_info/link_widths/current_link_width", "number"),
    "pcie.max_width": ("pci/pci_gpu_link_info/link_widths/max_link_width", "number"),
    "ecc.enabled": ("ecc_mode/current_ecc", "flag"),
    "ecc.pending": ("ecc_mode/pending_ecc", "flag"),
    "remapped_rows.corrected": ("remapped_rows/remapped_row_corr", "number"),
    "remapped_rows.uncorrected": ("remapped_rows/remapped_row_unc", "number"),
    "remapped_rows.pending": ("remapped_rows/remapped_row_pending", "flag"),
    "remapped_rows.failure": ("remapped_rows/remapped_row_failure", "flag"),
    "retired_pages.single_bit": ("retired_pages/multiple_single_bit_retirement/retired_count", "number"),
    "retired_pages.double_bit": ("retired_pages/double_bit_retirement/retired_count", "number"),
    "mig_mode": ("mig_mode/current_mig", "flag"),
}
# Values that move by themselves, with the margin around the two readings in the field's own unit.
MOVING = {
    "memory_used_mib": 0,
    "memory_free_mib": 0,
    "utilization_gpu_pct": 0,
    "utilization_memory_pct": 0,
    "power_draw_w": 5,
    "temperature_c": 1,
    "clocks_mhz.graphics": 15,
    "clocks_mhz.sm": 15,
    "clocks_mhz.memory": 15,
    "pcie.generation": 0,
}
ROUNDS = 3


def read(gpu: ElementTree.Element, paths: str, kind: str) -> object:
    for path in paths.split("|"):
        text = (gpu.findtext(path) or "").strip()
        if text in ABSENT:
            continue
        if kind == "flag":
            return text in ("Enabled", "Yes")
        if kind == "number":
            return float(re.match(r"-?[\d.]+", text).group())
        return text
    return None


def smi_xml() -> ElementTree.Element:
    return ElementTree.fromstring(subprocess.run(["nvidia-smi", "-q", "-x"], capture_output=True, check=True).stdout)


def run_module(packed: str | None, path: str | None, options: list[str]) -> dict:
    if packed:
        return call(packed, options, path)["ansible_facts"]["gpu"]
    environment = {**os.environ, **({"PYTHONPATH": path} if path else {}), "ANSIBLE_COLLECTIONS_PATH": COLLECTIONS}
    with tempfile.TemporaryDirectory() as tree:
        argv = ["ansible", "localhost", "-c", "local", "-m", "inferlab.dflash.gpu_facts", "--tree", tree]
        subprocess.run(argv, env=environment, check=True, stdout=subprocess.DEVNULL)
        with open(os.path.join(tree, "localhost")) as file:
            return json.load(file)["ansible_facts"]["gpu"]


def pick(device: dict, field: str) -> object:
    for part in field.split("."):
        device = (device or {}).get(part)
    return device


def agree(field: str, ours: object, before: object, after: object) -> bool:
    if field not in MOVING or None in (ours, before, after):
        return ours in (before, after)
    margin = MOVING[field]
    return min(before, after) - margin <= ours <= max(before, after) + margin


def compare(facts: dict, before: ElementTree.Element, after: ElementTree.Element) -> dict[str, tuple[bool, str]]:
    """{field: (fine, line)}."""
    lines: dict[str, tuple[bool, str]] = {}

    def line(field: str, ours: object, first: object, second: object, fine: bool) -> None:
        moved = "" if first == second else f" .. {second}"
        lines[field] = (fine, f"{field:34} gpu_facts={ours!s:44} nvidia-smi={first}{moved}")

    driver = facts["driver"]
    told = before.findtext("driver_version") or before.findtext("kmd_version")
    for field in ("nvml_driver_version", "kernel_module_version", "user_space_version"):
        line(f"driver.{field}", driver[field], told, told, driver[field] == told)
    told = before.findtext("cuda_version") or before.findtext("cuda_umd_version")
    line("driver.driver_cuda", driver["driver_cuda"], told, told, driver["driver_cuda"] == told)
    gpus = before.findall("gpu")
    line("devices (count)", len(facts["devices"]), len(gpus), len(gpus), len(facts["devices"]) == len(gpus))
    for device, first, second in zip(facts["devices"], gpus, after.findall("gpu")):
        for field, (path, kind) in FIELDS.items():
            ours, one, two = pick(device, field), read(first, path, kind), read(second, path, kind)
            line(f"gpu{device['index']}.{field}", ours, one, two, agree(field, ours, one, two))
        pids = {int(entry.findtext("pid")) for entry in first.findall("processes/process_info")}
        ours = {process["pid"] for process in device["processes"] or ()}
        line(f"gpu{device['index']}.processes", sorted(ours), sorted(pids), sorted(pids), ours == pids)
    query = ["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"]
    told = subprocess.run(query, capture_output=True, text=True, check=True).stdout.split()
    ours = [device["compute_capability"] for device in facts["devices"]]
    line("compute_capability", ours, told, told, ours == told)
    return lines


def compare_source(packed: str | None, path: str | None, options: list[str]) -> int:
    """Up to ROUNDS rounds; a field is fine when it was so in one of them. Returns the number of fields that never were."""
    best: dict[str, tuple[bool, str]] = {}
    facts: dict = {}
    for _round in range(ROUNDS):
        before = smi_xml()
        facts = run_module(packed, path, options)
        for field, (fine, text) in compare(facts, before, smi_xml()).items():
            if fine or not best.get(field, (False,))[0]:
                best[field] = (fine, text)
        if all(fine for fine, _text in best.values()):
            break
    source, state = facts["sources"].get("devices"), facts["driver"]["state"]
    print(f"# devices from {source}, state {state}, container {facts['identity']['container']}")
    for fine, text in best.values():
        print(f"{'ok  ' if fine else 'DIFF'} {text}")
    for warning in facts["warnings"]:
        print(f"# {warning['field']}: {warning['reason']}")
    return sum(not fine for fine, _text in best.values())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", metavar="FILE")
    parser.add_argument("--module", metavar="FILE")
    parser.add_argument("--path", metavar="DIR")
    arguments = parser.parse_args()
    if arguments.build:
        pack("gpu_facts", {}, arguments.build)
        return 0
    ways: list[tuple[str | None, list[str]]] = [(None, [])]
    if arguments.module:
        ways.append((None, ["-S"]))
    if arguments.path:
        ways.append((arguments.path, []))
    failures = sum(compare_source(arguments.module, path, options) for path, options in ways)
    print(f"{failures} differences" if failures else "no difference")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
