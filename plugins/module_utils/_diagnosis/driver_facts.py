# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the channels that describe driver and GPU. Each parser takes text and returns values; none of them judges."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

from .versions import VERSION, as_key, of_package

# What tools print instead of a value they do not have.
_ABSENT = re.compile(
    r"^\[?(?:N/?A|Not Supported|Not Available|Insufficient Permissions|Unknown Error|GPU requires reset|Requested functionality"
    r" has been deprecated|No permission|ERR!?|Deprecated.*)\]?$",
    re.I,
)
_PROC_LINE = re.compile(
    rf"^\s*NVRM version:.*?\b(?P<open>Open )?Kernel Module\s+(?:for\s+(?P<arch>\S+)\s+)?(?P<version>{VERSION})(?:\s|$)",
    re.M,
)
_PROC_ARCH = re.compile(r"NVIDIA UNIX (?:Open Kernel Module for )?(x86_64|aarch64|ppc64le|x86|arm64|sbsa)\b")
_LOADING = re.compile(
    rf"NVRM: loading NVIDIA UNIX .*?(?P<open>Open )?Kernel Module\s+(?:for\s+\S+\s+)?(?P<version>{VERSION})\s"
)


def value(text: str | None) -> str | None:
    """A printed value, or None where the tool printed a substitute for one."""
    if text is None:
        return None
    text = text.strip()
    return None if not text or _ABSENT.match(text) else text


def mib(text: str | None) -> int | None:
    """C(4864 MiB) as a number; None for a substitute."""
    found = re.match(r"^(\d+)(?:\s*MiB)?$", value(text) or "")
    return int(found.group(1)) if found else None


def proc_version(text: str) -> dict[str, Any]:
    """Version, flavour and machine of /proc/driver/nvidia/version; the compiler's line is not looked at."""
    found = _PROC_LINE.search(text)
    if not found:
        return {}
    arch = _PROC_ARCH.search(found.group(0))
    return {
        "kernel_module_version": found.group("version"),
        "module_flavour": "open" if found.group("open") else "proprietary",
        "arch": found.group("arch") or (arch.group(1) if arch else None),
    }


def bare_version(text: str) -> str | None:
    """The version in a file that holds nothing else (/sys/module/nvidia/version, modinfo -F version)."""
    found = re.search(rf"^\s*(?:version:\s*)?({VERSION})\s*$", text, re.M)
    return found.group(1) if found else None


def modinfo(text: str) -> dict[str, Any]:
    """Version and flavour of the module on disk."""
    result: dict[str, Any] = {}
    version = bare_version(text)
    if version:
        result["on_disk_module_version"] = version
    found = re.search(r"^\s*license:\s*(.+)$", text, re.M)
    if found:
        result["module_flavour"] = "open" if "GPL" in found.group(1) else "proprietary"
    return result


def api_mismatch(text: str) -> dict[str, Any]:
    """The NVRM API mismatch in either wording, however its lines were wrapped or prefixed."""
    start = text.find("API mismatch: the client")
    result: dict[str, Any] = {}
    if start >= 0:
        window = text[start : start + 1200]
        flat = re.sub(r"\s*\n(?:[^\n]*?NVRM:\s*|\s*)", " ", window)
        flat = re.sub(r"\s+", " ", flat)
        client = re.search(r"the client '([^']*)' \(pid (\d+)\)", flat)
        if client:
            result["client_name"], result["client_pid"] = client.group(1), int(client.group(2))
        theirs = re.search(rf"has the version ({VERSION})", flat)
        module = re.search(rf"kernel module has (?:the )?version ({VERSION})", flat)
        if theirs:
            result["client_version"] = theirs.group(1)
        if module:
            result["kernel_module_version"] = module.group(1)
    modeset = re.search(rf"nvidia(?:\.ko)?\(({VERSION})\),? nvidia-modeset(?:\.ko)?\(({VERSION})\)", text)
    if modeset:
        result.setdefault("kernel_module_version", modeset.group(1))
        result["modeset_module_version"] = modeset.group(2)
    drm = re.search(rf"nvidia-modeset(?:\.ko)?\(({VERSION})\),? nvidia-drm(?:\.ko)?\(({VERSION})\)", text)
    if drm:
        result.setdefault("modeset_module_version", drm.group(1))
    modeset = re.search(
        rf"nvidia-modeset.{{0,80}}?API mismatch.{{0,120}}?version ({VERSION}).{{0,200}}?version ({VERSION})", text, re.S
    )
    if modeset:
        result.setdefault("modeset_module_version", modeset.group(1))
        result.setdefault("kernel_module_version", modeset.group(2))
    return result


def loading(text: str) -> dict[str, Any]:
    """The last module that the kernel says it loaded."""
    loaded = list(_LOADING.finditer(text))
    if not loaded:
        return {}
    found = loaded[-1]
    arch = _PROC_ARCH.search(found.group(0))
    return {
        "kernel_module_version": found.group("version"),
        "module_flavour": "open" if found.group("open") else "proprietary",
        **({"arch": arch.group(1)} if arch else {}),
    }


def nvidia_smi(text: str) -> dict[str, Any]:
    """Versions, bus ids and GPU names of nvidia-smi's table, of -q and of --version, in the spellings before and since R610."""
    result: dict[str, Any] = {}
    patterns = (
        ("nvidia_smi_version", rf"NVIDIA-SMI(?: version)?\s*:?\s+({VERSION})"),
        ("driver_version", rf"(?:KMD|Driver|DRIVER) [Vv]ersion\s*:\s*({VERSION})"),
        ("cuda_version", r"CUDA (?:UMD )?[Vv]ersion\s*:\s*(\d+\.\d+)"),
        ("nvml_reported", rf"NVML (?:library )?[Vv]ersion\s*:\s*({VERSION})"),
    )
    for key, pattern in patterns:
        found = re.search(pattern, text)
        if found:
            result[key] = found.group(1)
    found = re.search(r"\b([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d)\b", text)
    if found:
        result["pci_bus_id"] = found.group(1)
    row = re.search(r"^\|\s+\d+\s+(\S.*?)\s+(?:On|Off|N/A)\s+\|\s+[0-9A-Fa-f]{4,8}:", text, re.M)
    if row:
        result["gpu_name"] = row.group(1)
        usage = re.search(r"^\|\s*(?:\S+)\s+\S+\s+\S+\s+\S+\s*/\s*\S+\s+\|\s*(.*?)\s*\|", text[row.end() :], re.M)
        if usage:
            total = re.search(r"/\s*(\d+)MiB", usage.group(1))
            result["memory_total_mib"] = int(total.group(1)) if total else None
    return result


def query_csv(text: str) -> dict[str, Any]:
    """First GPU of nvidia-smi --query-gpu=... --format=csv; a substitute becomes None."""
    rows = [[cell.strip() for cell in row] for row in csv.reader(text.strip().splitlines()) if row]
    if len(rows) < 2:
        return {}
    row = dict(zip(rows[0], rows[1]))
    names = {
        "driver_version": "driver_version",
        "compute_cap": "compute_capability",
        "name": "gpu_name",
        "pci.bus_id": "pci_bus_id",
        "gpu_bus_id": "pci_bus_id",
        "utilization.gpu [%]": "utilization_gpu",
    }
    result: dict[str, Any] = {ours: value(row[theirs]) for theirs, ours in names.items() if theirs in row}
    memory = next((key for key in row if key.startswith("memory.total")), None)
    if memory:
        result["memory_total_mib"] = mib(row[memory])
    return result


def query_xml(text: str) -> dict[str, Any]:
    """First GPU of nvidia-smi -q -x."""
    try:
        root = ElementTree.fromstring(text.strip())
    except ElementTree.ParseError:
        return {}
    result: dict[str, Any] = {}
    for key, tags in (
        ("driver_version", ("driver_version", "kmd_version")),
        ("cuda_version", ("cuda_version", "cuda_umd_version")),
    ):
        for tag in tags:
            found = re.match(r"\d[\d.]*", root.findtext(tag) or "")
            if found:
                result[key] = found.group(0)
    gpu = root.find("gpu")
    if gpu is None:
        return result
    result["gpu_name"] = value(gpu.findtext("product_name"))
    if gpu.get("id"):
        result["pci_bus_id"] = gpu.get("id")
    result["memory_total_mib"] = mib(gpu.findtext("fb_memory_usage/total"))
    mode = value(gpu.findtext("mig_mode/current_mig"))
    if mode:
        result["mig_enabled"] = mode == "Enabled"
        result["mig_memory_total_mib"] = [
            mib(device.findtext("fb_memory_usage/total")) for device in gpu.iter("mig_device")
        ]
    return result


def libraries(text: str) -> dict[str, str]:
    """Library path -> full version, of file names such as libnvidia-ml.so.580.126.09."""
    result = {}
    for word in text.split():
        found = re.search(rf"lib(?:nvidia-ml|cuda|nvidia-ptxjitcompiler|nvidia-cfg)\.so\.({VERSION})$", word)
        if found and as_key(found.group(1))[0] >= 300:
            result[word] = found.group(1)
    return result


class Packages:
    """Driver packages of a dpkg or rpm listing. Names give nothing but the flavour; versions give the branch."""

    # Parts of the stack that keep versions of their own.
    _OTHER = re.compile(
        r"settings|container|toolkit|-dev\b|prime|egl-|vaapi|cuda-toolkit|libcudart|linux-(?:headers|image)|fabricmanager"
        r"|modprobe|persistenced|firmware|keyring|pin|nvswitch|imex|docker"
    )
    _KERNEL = re.compile(
        r"dkms|kernel-source|kmod|linux-modules|linux-objects|linux-signatures|kernel-common|kernel-open"
    )

    def __init__(self, listing: str) -> None:
        self.user_space: dict[str, str] = {}
        self.kernel: dict[str, str] = {}
        self.half: list[str] = []
        self.flavours: set[str] = set()
        self.versions: set[str] = set()
        self.fabric_manager: str | None = None
        for state, name, version in self._rows(listing):
            self._note(state, name, version)

    @staticmethod
    def _rows(listing: str) -> list[tuple[str, str, str]]:
        rows = []
        for line in listing.splitlines():
            found = re.match(r"^([a-z][A-Za-z]R?)\s+(\S+)\s+(\S+)", line)
            if found and len(found.group(1)) in (2, 3):
                rows.append((found.group(1), found.group(2).split(":")[0], found.group(3)))
                continue
            found = re.match(r"^(\S+?)-((?:\d+:)?\d\S*?)-(\S+)$", line.strip())
            if found and re.search(r"nvidia|cuda-drivers", found.group(1)):
                rows.append(("ii", found.group(1), found.group(2)))
        return rows

    def _note(self, state: str, name: str, version: str) -> None:
        if not re.search(r"nvidia|cuda-drivers|libcuda\d", name):
            return
        driver = of_package(version)
        if driver is None:
            return
        installed = state[1] == "i" and state[0] in "ih"
        half = state[1] in "UFHWt" or state.endswith("R")
        if "fabricmanager" in name and (installed or half):
            self.fabric_manager = driver
        if self._OTHER.search(name) or not (installed or half):
            return
        if half:
            self.half.append(name)
        flavour = re.search(r"-(\d{3})(-server)?(?=-|$)", name)
        if flavour and not self._KERNEL.search(name):
            self.flavours.add(flavour.group(1) + (flavour.group(2) or ""))
        self.versions.add(driver)
        if self._KERNEL.search(name):
            self.kernel[name] = driver
        else:
            self.user_space[name] = driver

    @property
    def branches(self) -> list[str]:
        """Branches that are installed or half installed, by version."""
        return sorted({version.split(".")[0] for version in self.versions})

    def library_version(self) -> str | None:
        """Version of the package that owns the NVML library, or what all user-space packages share."""
        for name, version in self.user_space.items():
            if re.match(r"(?:libnvidia-(?:compute|ml)|libnvidia-ml1|nvidia-driver-(?:cuda-libs|NVML)|libcuda1)", name):
                return version
        versions = set(self.user_space.values())
        return versions.pop() if len(versions) == 1 else None


def upgraded(history: str) -> str | None:
    """Version to which the last transaction of apt's history brought the NVML library."""
    moves = re.findall(r"libnvidia-(?:compute|ml1?)\S* \((?:[^,()]+, )?([^,()\s]+)(?:, automatic)?\)", history)
    return of_package(moves[-1]) if moves else None


def dkms(text: str) -> list[dict[str, str]]:
    """Entries of dkms status in its old (comma) and new (slash) spelling: {version, kernel, state}."""
    entries = []
    for line in text.splitlines():
        found = re.match(rf"^\s*nvidia[\w-]*(?:/|,\s*)({VERSION})(?:,\s*(\S+?))?(?:,\s*\S+?)?\s*:\s*(\w+)", line)
        if found:
            entries.append({"version": found.group(1), "kernel": found.group(2) or "", "state": found.group(3)})
    return entries


def collect(text: Callable[[str], str]) -> dict[str, Any]:
    """All values about driver and GPU, under the keys of the case schema. I(text) gives a channel's text, empty if absent."""
    facts: dict[str, Any] = {}
    kernel = "\n".join(text(name) for name in ("kernel_log", "journal", "unit_journal"))
    for part in (
        proc_version(text("proc_driver_nvidia_version")),
        {"kernel_module_version": bare_version(text("sys_module_nvidia_version"))},
        api_mismatch(kernel),
        loading(kernel),
        modinfo(text("modinfo_nvidia_version")),
        modinfo(text("modinfo_nvidia")),
        nvidia_smi(text("nvidia_smi_version")),
        nvidia_smi(text("nvidia_smi")),
        query_csv(text("nvidia_smi_query_csv")),
        query_xml(text("nvidia_smi_xml")),
        _nvml_reported("\n".join(text(name) for name in ("nvml_error", "ansible_output", "command_output"))),
    ):
        for key, item in part.items():
            if facts.get(key) is None:
                facts[key] = item
    if "kernel_module_version" in facts and facts["kernel_module_version"] is None:
        del facts["kernel_module_version"]
    _user_space(text, facts)
    if "driver_version" not in facts and facts.get("kernel_module_version"):
        facts["driver_version"] = facts["kernel_module_version"]
    return facts


def _nvml_reported(text: str) -> dict[str, Any]:
    found = re.search(rf"NVML library version: ({VERSION})", text)
    return {"nvml_reported": found.group(1)} if found else {}


def _user_space(text: Callable[[str], str], facts: dict[str, Any]) -> None:
    packages = Packages(text("dpkg_l") or text("rpm_after") or text("rpm_qa"))
    files = libraries(text("library_files") or text("ldconfig_p"))
    versions = sorted(set(files.values()), key=as_key)
    nvml = next((version for path, version in files.items() if "libnvidia-ml" in path), None)
    reported = facts.get("nvml_reported")
    user = nvml or (versions[-1] if versions else None) or packages.library_version() or facts.get("client_version")
    if user is None:
        user = upgraded(text("apt_history"))
    if user is None and reported and reported.count(".") == 2:
        user = reported
    if user:
        facts["user_space_version"] = user
    if packages.versions:
        facts["installed_branches"] = packages.branches
    if packages.half:
        facts["half_configured"] = packages.half
    if len(packages.flavours) > 1:
        facts["flavours"] = sorted(packages.flavours)
    if packages.fabric_manager:
        facts["fabric_manager_version"] = packages.fabric_manager
    facts["_library_versions"] = versions
    facts["_packages"] = packages
