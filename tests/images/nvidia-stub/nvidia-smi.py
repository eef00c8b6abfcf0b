# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stub nvidia-smi: prints /etc/nvidia-stub.conf the way nvidia-smi of branch 580 does. It stands for hardware that is not here.

Like the real tool it goes through libnvidia-ml.so.1 first and fails with NVML's own error (18 on a version mismatch).
"""

import configparser
import ctypes
import os
import sys

VERSION = "@VERSION@"
ROOT = os.environ.get("NVIDIA_STUB_ROOT", "")
ERRORS = {
    9: "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
    "Make sure that the latest NVIDIA driver is installed and running.\n",
    18: "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: {short}\n",
}
NA = "N/A"


def initialise():
    short = ".".join(VERSION.split(".")[:2])
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        sys.stdout.write(
            "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. Please make sure that the NVIDIA Display "
            "Driver is properly installed and present in your system.\n"
        )
        sys.exit(12)
    code = nvml.nvmlInit_v2()
    if code:
        nvml.nvmlErrorString.restype = ctypes.c_char_p
        text = ERRORS.get(code, "Failed to initialize NVML: {error}\n")
        sys.stdout.write(text.format(short=short, error=nvml.nvmlErrorString(code).decode()))
        sys.exit(code)


class Description:
    def __init__(self):
        self.conf = configparser.ConfigParser(interpolation=None)
        self.conf.read(ROOT + "/etc/nvidia-stub.conf")
        self.gpus = []
        while self.conf.has_section(f"gpu {len(self.gpus)}"):
            self.gpus.append(self.conf[f"gpu {len(self.gpus)}"])
        self.cuda = self.get("driver", "cuda", "13.0")

    def get(self, section, key, fallback):
        return self.conf.get(section, key, fallback=fallback)

    def processes(self, index):
        found = []
        for name in self.conf.sections():
            section = self.conf[name]
            if not name.startswith("process ") or section.getint("gpu") != index:
                continue
            pid = section.getint("pid", fallback=0)
            if "pid_file" in section:
                try:
                    with open(ROOT + section["pid_file"]) as file:
                        pid = int(file.read())
                    os.kill(pid, 0)
                except (OSError, ValueError):
                    pid = 0
            if pid:
                found.append((pid, section.get("type", "C"), section.getint("memory", fallback=0), name[8:]))
        return found

    def used(self, index):
        return self.gpus[index].getint("used", fallback=1) + sum(entry[2] for entry in self.processes(index))

    def pair(self, i, j, key, fallback):
        section = f"p2p {min(i, j)} {max(i, j)}"
        return self.get(section, key, self.get("driver", key, fallback))


def tag(name, content):
    return f"<{name}>{content}</{name}>"


def unit(gpu, key, suffix):
    known = gpu.get(key)
    if known is None:
        return NA
    if not known[0].isdigit():
        return known
    return f"{float(known):.2f} {suffix}" if suffix == "W" else f"{known} {suffix}"


def memory(description, index):
    gpu = description.gpus[index]
    total = gpu.get("memory", NA)
    if not total[0].isdigit():
        return tag("total", total) + tag("reserved", total) + tag("used", total) + tag("free", total)
    reserved, used = gpu.getint("reserved", fallback=0), description.used(index)
    return (
        tag("total", f"{total} MiB")
        + tag("reserved", f"{reserved} MiB")
        + tag("used", f"{used} MiB")
        + tag("free", f"{int(total) - reserved - used} MiB")
    )


def gpu_xml(description, index):
    gpu = description.gpus[index]
    bus = gpu.get("bus", "00000000:01:00.0")
    ecc, mig = gpu.get("ecc", NA), gpu.get("mig", NA)
    errors = "0" if ecc != NA else NA
    counters = "".join(
        tag(name, errors)
        for name in (
            "sram_correctable",
            "sram_uncorrectable_parity",
            "sram_uncorrectable_secded",
            "dram_correctable",
            "dram_uncorrectable",
        )
    )
    device_id = int(gpu.get("device_id", "0x10de"), 16)
    processes = "".join(
        tag(
            "process_info",
            tag("gpu_instance_id", NA)
            + tag("compute_instance_id", NA)
            + tag("pid", pid)
            + tag("type", kind)
            + tag("process_name", name)
            + tag("used_memory", f"{mib} MiB"),
        )
        for pid, kind, mib, name in description.processes(index)
    )
    rows = gpu.get("remapped_rows")
    remapped = (
        tag("remapped_row_corr", 0)
        + tag("remapped_row_unc", rows)
        + tag("remapped_row_pending", "No")
        + tag("remapped_row_failure", "No")
        if rows is not None
        else NA
    )

    def clock(key):
        return unit(gpu, key, "MHz")

    return (
        f'<gpu id="{bus}">'
        + tag("product_name", gpu.get("name", NA))
        + tag("product_brand", "NVIDIA RTX")
        + tag("product_architecture", gpu.get("architecture", NA))
        + tag("display_mode", "Requested functionality has been deprecated")
        + tag("display_active", "Disabled")
        + tag("persistence_mode", gpu.get("persistence", "Enabled"))
        + tag("addressing_mode", "HMM")
        + tag("mig_mode", tag("current_mig", mig) + tag("pending_mig", mig))
        + tag("mig_devices", "\n\t\t\tNone\n\t\t")
        + tag("accounting_mode", "Disabled")
        + tag("serial", gpu.get("serial", NA))
        + tag("uuid", gpu.get("uuid"))
        + tag("minor_number", index)
        + tag("vbios_version", gpu.get("vbios", NA))
        + tag("multigpu_board", "No")
        + tag(
            "pci",
            tag("pci_bus", bus.split(":")[1])
            + tag("pci_device_id", f"{device_id:08X}")
            + tag("pci_bus_id", bus)
            + tag(
                "pci_gpu_link_info",
                tag(
                    "pcie_gen",
                    tag("max_link_gen", gpu.get("pcie_generation", NA))
                    + tag("current_link_gen", gpu.get("pcie_generation", NA)),
                )
                + tag(
                    "link_widths",
                    tag("max_link_width", gpu.get("pcie_width", NA) + ("x" if "pcie_width" in gpu else ""))
                    + tag("current_link_width", gpu.get("pcie_width", NA) + ("x" if "pcie_width" in gpu else "")),
                ),
            ),
        )
        + tag("fan_speed", "30 %")
        + tag("performance_state", "P8")
        + tag("fb_memory_usage", memory(description, index))
        + tag("bar1_memory_usage", tag("total", "256 MiB") + tag("used", "1 MiB") + tag("free", "255 MiB"))
        + tag("compute_mode", "Default")
        + tag("utilization", tag("gpu_util", unit(gpu, "utilization", "%")) + tag("memory_util", "0 %"))
        + tag("ecc_mode", tag("current_ecc", ecc) + tag("pending_ecc", ecc))
        + tag("ecc_errors", tag("volatile", counters) + tag("aggregate", counters))
        + tag(
            "retired_pages",
            tag("multiple_single_bit_retirement", tag("retired_count", NA))
            + tag("double_bit_retirement", tag("retired_count", NA))
            + tag("pending_retirement", NA),
        )
        + tag("remapped_rows", remapped)
        + tag("temperature", tag("gpu_temp", unit(gpu, "temperature", "C")))
        + tag(
            "gpu_power_readings",
            tag("power_state", "P8")
            + tag("average_power_draw", unit(gpu, "power", "W"))
            + tag("instant_power_draw", unit(gpu, "power", "W"))
            + tag("current_power_limit", unit(gpu, "power_limit", "W")),
        )
        + tag(
            "clocks",
            tag("graphics_clock", clock("clock_sm"))
            + tag("sm_clock", clock("clock_sm"))
            + tag("mem_clock", clock("clock_memory")),
        )
        + tag(
            "max_clocks",
            tag("graphics_clock", clock("max_clock_sm"))
            + tag("sm_clock", clock("max_clock_sm"))
            + tag("mem_clock", clock("max_clock_memory")),
        )
        + tag("processes", processes)
        + "</gpu>"
    )


def print_xml(description):
    print('<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">')
    print("<nvidia_smi_log>")
    print(
        tag("driver_version", VERSION)
        + tag("cuda_version", description.cuda)
        + tag("attached_gpus", len(description.gpus))
    )
    for index in range(len(description.gpus)):
        print(gpu_xml(description, index))
    print("</nvidia_smi_log>")


def print_matrix(description, key, fallback):
    indexes = range(len(description.gpus))
    print("\t" + "\t".join(f"GPU{i}" for i in indexes) + "\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID")
    for i in indexes:
        cells = [" X " if i == j else description.pair(i, j, key, fallback) for j in indexes]
        print(f"GPU{i}\t" + "\t".join(cells) + "\t0-31\t0\t\tN/A")
    print("\nLegend:\n\n  X    = Self")


def query(description, names):
    values = {
        "index": lambda i, gpu: str(i),
        "uuid": lambda i, gpu: gpu.get("uuid"),
        "name": lambda i, gpu: gpu.get("name", "[N/A]"),
        "gpu_name": lambda i, gpu: gpu.get("name", "[N/A]"),
        "driver_version": lambda i, gpu: VERSION,
        "compute_cap": lambda i, gpu: gpu.get("compute_capability", "[N/A]"),
        "memory.total": lambda i, gpu: unit(gpu, "memory", "MiB"),
        "memory.used": lambda i, gpu: f"{description.used(i)} MiB",
        "utilization.gpu": lambda i, gpu: unit(gpu, "utilization", "%"),
        "pci.bus_id": lambda i, gpu: gpu.get("bus", "00000000:01:00.0"),
    }
    unknown = [name for name in names if name not in values]
    if unknown:
        print(f'Field "{unknown[0]}" is not a valid field to query.')
        sys.exit(2)
    return [[values[name](index, gpu) for name in names] for index, gpu in enumerate(description.gpus)]


def main(arguments):
    if arguments == ["--version"]:
        short = ".".join(VERSION.split(".")[:2])
        print(f"NVIDIA-SMI version  : {VERSION}\nNVML version        : {short}")
    initialise()
    description = Description()
    if arguments == ["--version"]:
        print(f"DRIVER version      : {VERSION}\nCUDA Version        : {description.cuda}")
    elif not description.gpus:
        print("No devices were found")
        sys.exit(6)
    elif arguments[:2] in (["-q", "-x"], ["-x", "-q"]):
        print_xml(description)
    elif arguments == ["topo", "-m"]:
        print_matrix(description, "link", "NODE")
    elif arguments[:2] == ["topo", "-p2p"]:
        print_matrix(description, "p2p", "OK")
    elif arguments == ["-L"]:
        for index, gpu in enumerate(description.gpus):
            print(f"GPU {index}: {gpu.get('name')} (UUID: {gpu.get('uuid')})")
    elif arguments and arguments[0].startswith("--query-gpu="):
        names = arguments[0].split("=", 1)[1].split(",")
        options = next((part.split("=", 1)[1] for part in arguments if part.startswith("--format=")), "csv").split(",")
        rows = query(description, names)
        if "noheader" not in options:
            print(", ".join(names))
        for row in rows:
            print(", ".join(row))
    else:
        print("+-----------------------------------------------------------------------------------------+")
        print(
            f"| NVIDIA-SMI {VERSION:<22} Driver Version: {VERSION:<14} CUDA Version: {description.cuda:<8} |".ljust(90)
        )
        print("+-----------------------------------------------------------------------------------------+")
        for index, gpu in enumerate(description.gpus):
            print(
                f"| {index:>3}  {gpu.get('name'):<30} {description.used(index):>7}MiB / {gpu.get('memory', NA):>7}MiB |"
            )


if __name__ == "__main__":
    main(sys.argv[1:])
