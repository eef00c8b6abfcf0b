# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.inferlab.dflash.plugins.module_utils._gpu import parse, smi_text

PROPRIETARY = """\
NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.90.07  Fri May 31 09:35:42 UTC 2024
GCC version:  gcc version 13.2.0 (Ubuntu 13.2.0-23ubuntu4)
"""
OPEN = """\
NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  565.57.01  Release Build  (x@y)  Thu Oct 10 2024
GCC version:  gcc version 13.3.0 (Ubuntu 13.3.0-6ubuntu2~24.04)
"""


@pytest.mark.parametrize(
    ("text", "version", "flavour", "arch"),
    [
        (PROPRIETARY, "550.90.07", "proprietary", "x86_64"),
        (OPEN, "565.57.01", "open", "x86_64"),
        (
            "NVRM version: NVIDIA UNIX aarch64 Kernel Module  535.104.05  Sat Aug 19 2023",
            "535.104.05",
            "proprietary",
            "aarch64",
        ),
        (
            "[    4.1] NVRM: loading NVIDIA UNIX Open Kernel Module for aarch64  580.142  Release Build  (x)",
            "580.142",
            "open",
            "aarch64",
        ),
        (
            "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  570.144  Thu Apr 10 2025",
            "570.144",
            "proprietary",
            "x86_64",
        ),
        ("GCC version:  gcc version 13.3.0", None, None, None),
        ("", None, None, None),
        (None, None, None, None),
    ],
)
def test_module_line_in_every_spelling(text, version, flavour, arch):
    assert parse.module_line(text) == {"version": version, "flavour": flavour, "arch": arch}


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        ("580.126.09", "580.126.09", True),
        ("580.126", "580.126.09", True),
        ("570.124.04", "570.124.06", False),
        ("580.126.9", "580.126.09", False),
        ("580", "580.126.09", False),
        (None, "580.126.09", None),
        ("", "580.126.09", None),
    ],
)
def test_same_version(left, right, same):
    assert parse.same_version(left, right) is same


@pytest.mark.parametrize(
    ("package_version", "driver_version"),
    [
        ("580.126.09-0ubuntu0.24.04.1", "580.126.09"),
        ("3:530.30.02-1.el8", "530.30.02"),
        ("590.44.01-1ubuntu1", "590.44.01"),
        ("535.183.01-1~deb12u1", "535.183.01"),
        ("580.142-1", "580.142"),
        ("10.1.243-3", None),
        ("1.17.8-1", None),
        ("6.8.0-90.91+1", None),
        ("", None),
        (None, None),
    ],
)
def test_package_driver_version(package_version, driver_version):
    assert parse.package_driver_version(package_version) == driver_version


@pytest.mark.parametrize(
    ("path", "version"),
    [
        ("/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.580.126.09", "580.126.09"),
        ("/usr/lib64/libcuda.so.580.142", "580.142"),
        ("/usr/lib/wsl/lib/libnvidia-ml.so.1", None),
        ("libnvidia-ml.so", None),
        (None, None),
    ],
)
def test_library_version(path, version):
    assert parse.library_version(path) == version


def test_banner_of_r610_and_before():
    old = smi_text.smi_banner(
        "| NVIDIA-SMI 550.163.01             Driver Version: 555.85         CUDA Version: 12.5     |"
    )
    assert (old["nvidia_smi_version"], old["driver_version"], old["cuda_version"]) == ("550.163.01", "555.85", "12.5")
    new = smi_text.smi_banner("| NVIDIA-SMI 610.43.02    KMD Version: 610.43.02     CUDA UMD Version: 13.3     |")
    assert (new["nvidia_smi_version"], new["driver_version"], new["cuda_version"]) == ("610.43.02", "610.43.02", "13.3")
    assert new["error"] is None


def test_banner_of_version_and_of_failures():
    version = smi_text.smi_banner(
        "NVIDIA-SMI version  : 580.126.09\nNVML version        : 580.126\n"
        "DRIVER version      : 580.126.09\nCUDA Version        : 13.0\n"
    )
    assert version == {
        "nvidia_smi_version": "580.126.09",
        "nvml_version": "580.126",
        "driver_version": "580.126.09",
        "cuda_version": "13.0",
        "error": None,
    }
    failed = smi_text.smi_banner(
        "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 550.107\n"
    )
    assert failed["nvml_version"] == "550.107"
    assert failed["error"] == "Failed to initialize NVML: Driver/library version mismatch"
    assert smi_text.smi_banner("No devices were found\n")["error"] == "No devices were found"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("49140 MiB", 49140),
        ("29.35 W", 29.35),
        ("16x", 16),
        ("[N/A]", None),
        ("Insufficient Permissions", None),
        ("[Not Supported]", None),
        ("Requested functionality has been deprecated", None),
        ("ERR!", None),
        ("0 %", 0),
        (None, None),
    ],
)
def test_number(text, expected):
    assert smi_text.number(text) == expected


def test_nvml_version_loses_only_the_cuda_generation():
    assert parse.nvml_version("13.580.126.09") == "580.126.09"
    assert parse.nvml_version("12.570.124") == "570.124"
    assert parse.nvml_version("580.126") == "580.126"
    assert parse.nvml_version("nonsense") is None


def test_csv_with_permission_text():
    rows = smi_text.query_csv(
        "name, driver_version, utilization.gpu [%], memory.total [MiB]\n"
        "NVIDIA A100-SXM4-80GB, 535.161.08, [N/A], [Insufficient Permissions]\n"
    )
    assert rows == [
        {
            "name": "NVIDIA A100-SXM4-80GB",
            "driver_version": "535.161.08",
            "utilization.gpu": None,
            "memory.total": None,
        }
    ]


def test_matrix_of_topology_and_of_p2p():
    topo = (
        "\t\x1b[4mGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
        "GPU0\t X \tNV4\t0-31\t0\t\tN/A\nGPU1\tNV4\t X \t0-31\t0\t\tN/A\n\nLegend:\n\n  X    = Self\n"
    )
    assert smi_text.matrix(topo) == {(0, 1): "NV4", (1, 0): "NV4"}
    p2p = " \tGPU0\tGPU1\t\n GPU0\tX\tOK\t\n GPU1\tCNS\tX\t\n\nLegend:\n\n  X    = Self\n  OK   = Status Ok\n"
    assert smi_text.matrix(p2p) == {(0, 1): "OK", (1, 0): "CNS"}
    assert smi_text.matrix("") == {}


MIG = (
    "<nvidia_smi_log><gpu><product_name>NVIDIA A100-SXM4-40GB</product_name>"
    "<mig_mode><current_mig>Enabled</current_mig></mig_mode>"
    "<mig_devices><mig_device><index>0</index>"
    "<fb_memory_usage><total>4864 MiB</total><used>0 MiB</used></fb_memory_usage></mig_device></mig_devices>"
    "<fb_memory_usage><total>Insufficient Permissions</total><used>Insufficient Permissions</used></fb_memory_usage>"
    "</gpu></nvidia_smi_log>"
)


def test_xml_of_mig_without_permission():
    device = smi_text.smi_xml(MIG)["devices"][0]
    assert device["mig_mode"] is True
    assert device["memory_total_mib"] is None and device["memory_used_mib"] is None
    assert device["unified_memory"] is None
    assert [mig["memory_total_mib"] for mig in device["mig_devices"]] == [4864]
    assert device["processes"] is None


@pytest.mark.parametrize("text", [None, "", "No devices were found", "<nvidia_smi_log><gpu>", "<html/>"])
def test_xml_that_is_none(text):
    assert smi_text.smi_xml(text) is None


def test_xml_unified_memory_and_pci_domain():
    device = smi_text.smi_xml(
        '<nvidia_smi_log><gpu id="0000000F:01:00.0"><product_name>NVIDIA GB10</product_name>'
        "<fb_memory_usage><total>Not Supported</total></fb_memory_usage><processes></processes></gpu></nvidia_smi_log>"
    )["devices"][0]
    assert device["pci_bus_id"] == "0000000F:01:00.0"
    assert device["memory_total_mib"] is None and device["unified_memory"] is True
    assert device["processes"] == []


def test_gpu_information_without_an_opened_gpu():
    text = (
        "Model: \t\t NVIDIA RTX A6000\nIRQ:   \t\t 99\n"
        "GPU UUID: \t GPU-????????-????-????-????-????????????\nBus Location: \t 0000:01:00.0\nDevice Minor: \t 0\n"
    )
    assert parse.gpu_information(text) == {
        "name": "NVIDIA RTX A6000",
        "uuid": None,
        "pci_bus_id": "0000:01:00.0",
        "minor_number": "0",
    }


def test_bus_id_key_of_both_spellings():
    assert parse.bus_id_key("00000000:01:00.0") == parse.bus_id_key("0000:01:00.0") == "0000:01:00.0"
    assert parse.bus_id_key("0000000F:01:00.0") == "000f:01:00.0"
    assert parse.bus_id_key("nonsense") is None


def test_xml_of_a_real_h200():
    """Printed by nvidia-smi 580.159.04 on an H200; serial number and identifiers replaced. NVML gave these values beside it."""
    text = (Path(__file__).parents[4] / "fixtures/gpu/smi-h200-580.159.04.xml").read_text()
    log = smi_text.smi_xml(text)
    assert (log["driver_version"], log["cuda_version"]) == ("580.159.04", "13.0")
    device = log["devices"][0]
    expected = {
        "name": "NVIDIA H200",
        "architecture": "Hopper",
        "vbios_version": "96.00.A5.00.1A",
        "pci_bus_id": "00000000:00:06.0",
        "pci_device_id": "10de:2335",
        "memory_total_mib": 143771,
        "memory_reserved_mib": 616,
        "memory_used_mib": 0,
        "memory_free_mib": 143156,
        "unified_memory": False,
        "power_limit_w": 700.0,
        "performance_state": "P0",
        "compute_mode": "Default",
        "persistence_mode": True,
        "mig_mode": False,
        "mig_devices": [],
        "processes": [],
        "retired_pages": {"single_bit": None, "double_bit": None, "pending": None},
        "remapped_rows": {"corrected": 0, "uncorrected": 0, "pending": False, "failure": False},
        "pcie": {"generation": 5, "max_generation": 5, "width": 16, "max_width": 16},
    }
    assert {key: device[key] for key in expected} == expected
    assert device["ecc"]["enabled"] is True and device["ecc"]["uncorrected_aggregate"] == 0
    assert device["clocks_mhz"]["max_sm"] == 1980
