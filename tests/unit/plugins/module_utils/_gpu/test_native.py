# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The two ways to NVML must give the same answer. A stand-in for the nvidia-ml-py module and one for nvidia-smi describe one GPU pair."""

from __future__ import annotations

import sys
import types

import pytest
from ansible_collections.inferlab.dflash.plugins.module_utils._gpu import facts, nvml, smi
from ansible_collections.inferlab.dflash.plugins.module_utils._gpu.host import Host, Result

MIB = 1024 * 1024


def struct(**values):
    return types.SimpleNamespace(**values)


def fake_pynvml(code=0):
    """Only what is asked for; everything else is missing, as functions are in an older library."""
    module = types.ModuleType("pynvml")

    class NVMLError(Exception):
        def __init__(self, value):
            super().__init__({3: "Not Supported", 18: "Driver/library version mismatch"}[value])
            self.value = value

    def unsupported(*_arguments):
        raise NVMLError(3)

    def initialise():
        if code:
            raise NVMLError(code)

    def processes(handle):
        return [struct(pid=4242, usedGpuMemory=56000 * MIB)] if handle == 0 else []

    def memory(handle, version=None):
        return struct(total=49140 * MIB, reserved=602 * MIB + 1, used=(56000 if handle == 0 else 1) * MIB, free=0)

    answers = {
        "nvmlInit": initialise,
        "nvmlShutdown": lambda: None,
        "nvmlDeviceGetCount": lambda: 2,
        "nvmlDeviceGetHandleByIndex": lambda index: index,
        "nvmlSystemGetDriverVersion": lambda: b"580.126.09",
        "nvmlSystemGetNVMLVersion": lambda: b"13.580.126.09",
        "nvmlSystemGetCudaDriverVersion": lambda: 13000,
        "nvmlDeviceGetUUID": lambda handle: f"GPU-{handle}",
        "nvmlDeviceGetName": lambda handle: b"NVIDIA RTX A6000",
        "nvmlDeviceGetPciInfo": lambda handle: struct(
            busId=f"00000000:0{handle + 1}:00.0".encode(), pciDeviceId=0x223010DE
        ),
        "nvmlDeviceGetCudaComputeCapability": lambda handle: (8, 6),
        "nvmlDeviceGetArchitecture": lambda handle: 7,
        "nvmlDeviceGetMemoryInfo": memory,
        "nvmlDeviceGetUtilizationRates": lambda handle: struct(gpu=0, memory=0),
        "nvmlDeviceGetPowerUsage": lambda handle: 21500,
        "nvmlDeviceGetTemperature": lambda handle, sensor: 34,
        "nvmlDeviceGetComputeRunningProcesses": processes,
        "nvmlDeviceGetGraphicsRunningProcesses": unsupported,
        "nvmlDeviceGetMigMode": unsupported,
        "nvmlDeviceGetNvLinkState": lambda handle, link: 1 if link < 4 else unsupported(),
        "nvmlDeviceGetNvLinkRemotePciInfo": lambda handle, link: struct(busId=f"00000000:0{2 - handle}:00.0".encode()),
        "nvmlDeviceGetP2PStatus": lambda one, other, what: 0,
    }
    for name, answer in answers.items():
        setattr(module, name, answer)
    module.NVMLError = NVMLError
    module.nvmlMemory_v2 = 2
    return module


def gpu_xml(index):
    used, process = (
        56000,
        "<process_info><pid>4242</pid><type>C</type><used_memory>56000 MiB</used_memory></process_info>",
    )
    if index:
        used, process = 1, ""
    return (
        f'<gpu id="00000000:0{index + 1}:00.0"><product_name>NVIDIA RTX A6000</product_name>'
        "<product_architecture>Ampere</product_architecture><mig_mode><current_mig>N/A</current_mig></mig_mode>"
        f"<uuid>GPU-{index}</uuid><pci><pci_device_id>223010DE</pci_device_id>"
        f"<pci_bus_id>00000000:0{index + 1}:00.0</pci_bus_id></pci>"
        f"<fb_memory_usage><total>49140 MiB</total><reserved>603 MiB</reserved><used>{used} MiB</used></fb_memory_usage>"
        "<utilization><gpu_util>0 %</gpu_util></utilization><temperature><gpu_temp>34 C</gpu_temp></temperature>"
        "<gpu_power_readings><average_power_draw>21.50 W</average_power_draw></gpu_power_readings>"
        f"<processes>{process}</processes></gpu>"
    )


SMI = {
    ("--version",): (
        "NVIDIA-SMI version  : 580.126.09\nNVML version        : 580.126\n"
        "DRIVER version      : 580.126.09\nCUDA Version        : 13.0\n"
    ),
    (
        "-q",
        "-x",
    ): f"<nvidia_smi_log><driver_version>580.126.09</driver_version>{gpu_xml(0)}{gpu_xml(1)}</nvidia_smi_log>",
    ("--query-gpu=uuid,compute_cap", "--format=csv"): "uuid, compute_cap\nGPU-0, 8.6\nGPU-1, 8.6\n",
    ("topo", "-m"): "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV4\t0-31\nGPU1\tNV4\t X \t0-31\n",
    ("topo", "-p2p", "r"): " \tGPU0\tGPU1\n GPU0\tX\tOK\n GPU1\tOK\tX\n",
}


class SmiHost(Host):
    """Answers nvidia-smi's commands from a table."""

    def __init__(self, table):
        super().__init__("/", timeout=5)
        self.table = table

    def start(self, argv, env=None):
        answer = self.table.get(tuple(argv[1:]))
        result = answer if isinstance(answer, Result) else Result(0, answer or "", "")
        return struct(finish=lambda timeout: result, failure=None if self.table else "nvidia-smi: No such file")


SHARED = [
    "index",
    "uuid",
    "name",
    "architecture",
    "compute_capability",
    "pci_bus_id",
    "pci_device_id",
    "memory_total_mib",
    "memory_reserved_mib",
    "memory_used_mib",
    "utilization_gpu_pct",
    "power_draw_w",
    "temperature_c",
    "mig_mode",
    "unified_memory",
]


def test_both_ways_agree(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", fake_pynvml())
    one = nvml.collect(True, 10)
    other = smi.collect(SmiHost(SMI), True, True)
    for left, right in zip(one["devices"], other["devices"]):
        assert {key: left[key] for key in SHARED} == {key: right[key] for key in SHARED}
        assert [(p["pid"], p["type"], p["memory_mib"]) for p in left["processes"]] == [
            (p["pid"], p["type"], p["memory_mib"]) for p in right["processes"]
        ]
    assert one["p2p"] == other["p2p"] == [{"a": "GPU-0", "b": "GPU-1", "link": "NV4", "ok": True}]
    for key in ("driver_version", "cuda_version", "error", "error_code"):
        assert one[key] == other[key]
    assert (one["nvml_version"], other["nvml_version"]) == ("580.126.09", "580.126")


def test_what_a_library_does_not_have_is_null_with_its_reason(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", fake_pynvml())
    told = nvml.collect(False, 10)
    device = told["devices"][0]
    assert device["serial"] is None and device["ecc"]["enabled"] is None and device["mig_mode"] is None
    assert "not in this nvidia-ml-py" in told["reasons"]["serial"]
    assert told["reasons"]["mig_mode"] == "nvmlDeviceGetMigMode: Not Supported"
    assert told["p2p"] is None


def test_a_mismatch_is_nvmls_code_18(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", fake_pynvml(code=18))
    told = nvml.collect(True, 10)
    assert told["error_code"] == 18 and "devices" not in told
    text = "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.159\n"
    seen = smi.collect(SmiHost({("--version",): text, ("-q", "-x"): Result(18, text, "")}), True, True)
    assert seen["error_code"] == 18 and seen["nvml_version"] == "580.159" and seen["devices"] is None


def test_a_host_without_nvidia_ml_py_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert nvml.collect(True, 10)["importable"] is False
    assert smi.collect(SmiHost({}), True, True) is None


@pytest.mark.parametrize(
    ("text", "code", "devices"),
    [
        ("No devices were found\n", None, []),
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n", 9, None),
        ("Unable to determine the device handle for GPU 0000:02:00.0: GPU is lost.  Reboot the system\n", 15, None),
        ("Failed to initialize NVML: Unknown Error\n", 999, None),
        ("something else\n", None, None),
    ],
)
def test_failures_of_nvidia_smi(text, code, devices):
    told = smi.collect(SmiHost({("--version",): "", ("-q", "-x"): Result(6, text, "")}), True, False)
    assert (told["error_code"], told["devices"]) == (code, devices)
    assert bool(told["error"]) is (devices is None)


def test_devices_of_nvml_get_processes_and_reasons(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", fake_pynvml())
    found = facts.gather(Host("/", timeout=10), {"driver", "devices", "processes"})
    assert found["sources"]["devices"] == "nvml"
    assert [device["uuid"] for device in found["devices"]] == found["identity"]["gpu_uuids"] == ["GPU-0", "GPU-1"]
    process = found["devices"][0]["processes"][0]
    assert {"pid", "type", "user", "command", "unit", "cgroup", "guest", "memory_mib"} <= set(process)
    assert found["devices"][1]["processes"] == []
    reasons = {warning["field"]: warning["reason"] for warning in found["warnings"]}
    assert "not in this nvidia-ml-py" in reasons["devices.serial"]
    assert reasons["p2p"] == "not in gather_subset"


@pytest.mark.parametrize(
    ("size", "printed"),
    [(150754820096, 143771), (644939776, 616), (680329216, 649), (149429551104, 142508), (0, 0), (None, None)],
)
def test_memory_is_rounded_as_nvidia_smi_does(size, printed):
    """Sizes that NVML gave on an H200 (driver 580.159.04), and what nvidia-smi printed for them at that moment."""
    assert nvml._mib(size) == printed
