# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpu_facts: collect from every source and put the answers into one structure. Private to this collection."""

from __future__ import annotations

import re
import sys
import typing as t
from importlib.machinery import PathFinder

from ansible_collections.inferlab.dflash.plugins.module_utils._gpu import (
    container,
    identity,
    kernel,
    libraries,
    packages,
    parse,
    pci,
    processes,
    state,
)
from ansible_collections.inferlab.dflash.plugins.module_utils._gpu.host import Host

SCHEMA = 1
SUBSETS = ("driver", "devices", "processes", "topology", "packages", "toolkits")

# A device as it is known without NVML: every field is there and unknown.
_DEVICE_FIELDS = """
    index uuid name architecture compute_capability serial vbios_version minor_number pci_bus_id pci_device_id numa_node
    memory_total_mib memory_reserved_mib memory_used_mib memory_free_mib unified_memory utilization_gpu_pct
    utilization_memory_pct power_draw_w power_limit_w temperature_c performance_state compute_mode persistence_mode
    clocks_mhz pcie ecc retired_pages remapped_rows mig_mode mig_devices nvlinks_active processes
"""
_UNKNOWN_DEVICE: dict[str, t.Any] = dict.fromkeys(_DEVICE_FIELDS.split())


def subsets(chosen: t.Sequence[str]) -> set[str]:
    """The subsets that a gather_subset list asks for: names, all, min (the driver alone), and !name to leave one out.

    Raises ValueError with the words that are no subset.
    """
    wrong = [word for word in chosen if word.lstrip("!") not in (*SUBSETS, "all", "min")]
    if wrong:
        raise ValueError(", ".join(wrong))
    wanted = {word for word in chosen if not word.startswith("!")}
    excluded = {word[1:] for word in chosen if word.startswith("!")}
    selected = set(SUBSETS) if "all" in wanted or not wanted else wanted - {"min"}
    selected -= set(SUBSETS) if "all" in excluded else excluded
    if selected & {"processes", "topology"}:
        selected.add("devices")
    return selected | {"driver"}


class _Facts:
    """The structure being filled, with where each part came from and why parts of it are missing."""

    def __init__(self) -> None:
        self.sources: dict[str, str] = {}
        self.reasons: dict[str, str] = {}
        self.driver: dict[str, t.Any] = {}

    def put(self, field: str, value: t.Any, source: str | None, reason: str | None = None) -> None:
        self.driver[field] = value
        if value is not None and source:
            self.sources[f"driver.{field}"] = source
        if value is None and reason:
            self.reasons[f"driver.{field}"] = reason

    def warnings(self) -> list[dict[str, str]]:
        return [{"field": field, "reason": reason} for field, reason in sorted(self.reasons.items())]


def _user_space(host: Host, facts: _Facts, database: packages.Dpkg | packages.Rpm | None) -> bool:
    """Fill in the library part; True when a library was found."""
    places = libraries.directories(host)
    path = libraries.find(host, libraries.NVML, places)
    owner = database.owner(path) if database and path else None
    version = parse.library_version(path)
    source = "library"
    if version is None and owner:
        version, source = owner["driver_version"], database.name if database else "library"
    missing = "libnvidia-ml.so.1 is not installed" if path is None else f"{path} carries no version in its name"
    facts.put("user_space_version", version, source, missing)
    facts.put("library_path", path, "library", missing)
    unowned = "no package owns the library" if path else missing
    facts.put("library_package", owner["name"] if owner else None, database.name if database else None, unowned)
    mount = libraries.mounted(host, path) if path else None
    facts.put("library_mounted", mount, "/proc/self/mountinfo", missing if path is None else "mountinfo cannot be read")
    if path and path.rsplit("/", 1)[0] not in places:
        places.append(path.rsplit("/", 1)[0])
    files = libraries.inventory(host, places)
    facts.put("library_versions", sorted(files), "library")
    facts.put("library_sources", _library_sources(database, files), database.name if database else None)
    return path is not None


def _library_sources(
    database: packages.Dpkg | packages.Rpm | None, files: dict[str, list[str]]
) -> list[dict[str, t.Any]]:
    """Who put which version of the driver's libraries there; package None for files that no package owns."""
    owners = database.owners(path for paths in files.values() for path in paths) if database else {}
    found: dict[tuple[str, str | None], str] = {}
    for version, paths in files.items():
        # NVML's own file stands for its package where it has one: flavours of one driver fight over that file.
        for path in sorted(paths, key=lambda entry: "/libnvidia-ml.so." not in entry):
            for name in [package["name"] for package in owners.get(path, [])] or [None]:
                found.setdefault((version, name), path)
    return [
        {"version": version, "package": name, "file": path}
        for (version, name), path in sorted(found.items(), key=lambda entry: (entry[0][0], entry[0][1] or ""))
    ]


def _kernel_side(host: Host, facts: _Facts, kind: str, database: packages.Dpkg | packages.Rpm | None) -> bool:
    """Fill in the module part; True when a module is loaded."""
    module = kernel.loaded(host)
    is_loaded = (
        bool(module["version"]) or host.exists("/sys/module/nvidia") or host.exists("/proc/driver/nvidia/version")
    )
    missing = "a module is loaded that tells no version" if is_loaded else "no nvidia module is loaded"
    facts.put("kernel_module_version", module["version"], module["source"], missing)
    running = kernel.running_kernel(host)
    facts.put("running_kernel", running, "/proc/sys/kernel/osrelease", "/proc/sys/kernel/osrelease cannot be read")
    if container.has_own_kernel(kind):
        upcoming, why = kernel.next_boot_kernel(host)
        current = kernel.on_disk(host, running)
        later = current if upcoming == running else kernel.on_disk(host, upcoming)
    else:
        reason = f"this is a container ({kind}): kernel and module belong to its host"
        upcoming, why = None, reason
        current = later = {"version": None, "flavour": None, "path": None, "provider": None, "reason": reason}
    facts.put("on_disk_module_version", current["version"], "modinfo", current["reason"])
    facts.put("next_boot_kernel", upcoming, why, why)
    facts.put("next_boot_module_version", later["version"], "modinfo", later["reason"])
    facts.put("next_boot_module_flavour", later["flavour"], "modinfo", later["reason"])
    facts.put("next_boot_module_path", later["path"], "modules.dep", later["reason"])
    unchanged, unknown = None, later["reason"] or "the next boot takes another kernel"
    if later["path"] and upcoming == running and running:
        unchanged, unknown = kernel.boot_unchanged(host, running, later["path"])
    facts.put("next_boot_unchanged", unchanged, "/boot", unknown)
    facts.put("module_provider", later["provider"], "path", later["reason"])
    owner = database.owner(host.realpath(later["path"])) if database and later["path"] else None
    built = (
        "dkms built it here: no package owns the file" if later["provider"] == "dkms" else "no package owns the file"
    )
    facts.put("module_package", owner["name"] if owner else None, "packages", later["reason"] or built)
    flavour, source = module["flavour"], module["source"]
    if flavour is None and module["version"] and current["version"] == module["version"]:
        # /sys names no flavour; the file on disk is the same module.
        flavour, source = current["flavour"], "modinfo"
    facts.put("module_flavour", flavour, source, missing if not is_loaded else "/sys does not name the flavour")
    facts.put("dkms", kernel.dkms(host) if container.has_own_kernel(kind) else [], "/var/lib/dkms")
    return is_loaded


def _native(host: Host, facts: _Facts, wanted: set[str]) -> dict[str, t.Any]:
    """Ask NVML: through nvidia-ml-py, else through nvidia-smi. Always the same keys, source None when nobody could."""
    nothing: dict[str, t.Any] = {"source": None, "error": None, "error_code": None, "devices": None, "p2p": None}
    if not host.live:
        return {**nothing, "error": f"root is {host.root}: NVML is not asked"}
    devices, topology = "devices" in wanted, "topology" in wanted
    # Each way is imported where its tool is there: a host without it would compile the code for nothing.
    if "pynvml" in sys.modules or PathFinder.find_spec("pynvml"):
        from ansible_collections.inferlab.dflash.plugins.module_utils._gpu import nvml

        answer = nvml.collect(topology, host.timeout)
        if answer["importable"]:
            answer = {**nothing, **answer, "source": "nvml"}
            if not devices:
                answer.update(devices=None, p2p=None)
            return answer
    if host.has_program("nvidia-smi"):
        from ansible_collections.inferlab.dflash.plugins.module_utils._gpu import smi

        told = smi.collect(host, devices, topology)
        if told is not None:
            return {**nothing, **told, "source": "nvidia-smi"}
    return {**nothing, "error": "neither nvidia-ml-py nor nvidia-smi is on this host"}


def _program_version(
    host: Host, database: packages.Dpkg | packages.Rpm | None, path: str, pattern: str
) -> tuple[str | None, str | None, str | None]:
    """(version, source, reason) of a driver program: what its package says, else what it says of itself."""
    if not host.exists(path):
        return None, None, f"{path} is not installed"
    owner = database.owner(host.realpath(path)) if database else None
    if database and owner:
        version = owner["driver_version"] or parse.upstream_version(owner["version"])
        return version, database.name, None
    told = host.run([path, "--version"], timeout=3)
    match = re.search(pattern, told.out + told.err)
    return (match.group(1), path, None) if match else (None, None, told.reason or f"{path} --version tells no version")


def _programs(host: Host, facts: _Facts, database: packages.Dpkg | packages.Rpm | None, wanted: set[str]) -> None:
    programs = [
        ("fabric_manager_version", "/usr/bin/nv-fabricmanager", rf"({parse.VERSION})"),
        ("persistenced_version", "/usr/bin/nvidia-persistenced", rf"({parse.VERSION})"),
    ]
    if "toolkits" in wanted:
        programs.append(("container_toolkit_version", "/usr/bin/nvidia-ctk", r"version\s+(\d+\.\d+\.\d+\S*)"))
    for field, path, pattern in programs:
        version, source, reason = _program_version(host, database, path, pattern)
        facts.put(field, version, source, reason)
    if "toolkits" in wanted:
        facts.put("cuda_toolkits", _toolkits(host), "/usr/local")


def _toolkits(host: Host) -> list[dict[str, str | None]]:
    found: dict[str, str | None] = {}
    for path in [*host.glob("/usr/local/cuda*"), *host.glob("/opt/cuda*")]:
        real = host.realpath(path)
        if host.exists(f"{real}/bin/nvcc") or host.exists(f"{real}/version.json"):
            match = re.search(r'"cuda"\s*:\s*\{[^}]*"version"\s*:\s*"([^"]+)"', host.read(f"{real}/version.json") or "")
            named = re.search(r"cuda-(\d+\.\d+)$", real)
            found[real] = match.group(1) if match else named.group(1) if named else None
    return [{"path": path, "version": version} for path, version in sorted(found.items())]


def _devices_without_nvml(host: Host, bus: dict[str, t.Any], kind: str) -> tuple[list[dict[str, t.Any]], str]:
    """What /proc and the PCI bus say about the GPUs when NVML does not answer."""
    found = []
    for path in host.glob("/proc/driver/nvidia/gpus/*/information"):
        told = parse.gpu_information(host.read(path))
        address = path.split("/")[-2]
        minor = told["minor_number"]
        found.append(
            {
                **_UNKNOWN_DEVICE,
                "uuid": told["uuid"],
                "name": told["name"],
                "pci_bus_id": told["pci_bus_id"] or address,
                "minor_number": int(minor) if minor and minor.isdigit() else None,
            }
        )
    if found:
        ids = {gpu["pci_bus_id"]: gpu["pci_device_id"] for gpu in bus["gpus"]}
        for device in found:
            device["pci_device_id"] = ids.get(parse.bus_id_key(device["pci_bus_id"]))
        return found, "/proc/driver/nvidia/gpus"
    if container.has_own_kernel(kind):
        return [{**_UNKNOWN_DEVICE, **gpu} for gpu in bus["gpus"]], "pci"
    # A container sees its host's whole PCI bus; which of it was passed in cannot be told from there.
    return [], "pci"


def _devices(
    host: Host, facts: _Facts, native: dict[str, t.Any], bus: dict[str, t.Any], kind: str, wanted: set[str]
) -> list:
    if native["devices"] is not None:
        devices, source = native["devices"], native["source"]
        devices = [{**_UNKNOWN_DEVICE, **device} for device in devices]
    else:
        devices, source = _devices_without_nvml(host, bus, kind)
    for index, device in enumerate(devices):
        device["index"] = index if device["index"] is None else device["index"]
        device["numa_node"] = pci.numa_node(host, parse.bus_id_key(device["pci_bus_id"]) or "")
        if "processes" in wanted:
            for process in device["processes"] or ():
                name = process.pop("name")
                process.update(processes.describe(host, process["pid"]))
                process["command"] = process["command"] or processes.command((name or "").split())
        else:
            device["processes"] = None
    if devices:
        facts.sources["devices"] = source
        facts.sources["devices.numa_node"] = "/sys"
    if "processes" not in wanted:
        facts.reasons["devices.processes"] = "not in gather_subset"
    _explain_missing(facts, native, devices, source)
    return devices


def _leaves(device: t.Mapping[str, t.Any], prefix: str = "") -> t.Iterator[tuple[str, t.Any]]:
    for key, leaf in device.items():
        if isinstance(leaf, dict):
            yield from _leaves(leaf, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", leaf


def _explain_missing(facts: _Facts, native: dict[str, t.Any], devices: list[dict[str, t.Any]], source: str) -> None:
    told = native.get("reasons") or {}
    for device in devices:
        for field, leaf in _leaves(device):
            name = f"devices.{field}"
            if leaf is not None or name in facts.reasons:
                continue
            if field == "numa_node":
                facts.reasons[name] = "the kernel names no NUMA node for it"
            elif native["devices"] is None:
                facts.reasons[name] = f"NVML gives no answer ({native['error']}); {source} does not tell it"
            else:
                reason = told.get(field) or told.get(field.split(".")[0])
                facts.reasons[name] = reason or f"{source} reports no value"


def _packages(facts: _Facts, database: packages.Dpkg | packages.Rpm | None) -> list[dict[str, t.Any]]:
    """The packages of the driver, by the versions of its library files, its modules and the libraries' owner."""
    if database is None:
        return []
    versions = set(facts.driver["library_versions"])
    versions |= {
        facts.driver[key] for key in ("kernel_module_version", "next_boot_module_version", "user_space_version")
    }
    return packages.driver_packages(database.packages(), versions - {None})


def gather(host: Host, wanted: set[str], kind: str | None = None) -> dict[str, t.Any]:
    """The facts (see docs/driver.md for the structure). Never raises because a driver is absent or broken.

    `kind` replaces the detected container kind.
    """
    facts = _Facts()
    who = identity.read(host, kind)
    database = packages.database(host)
    bus = pci.read(host)
    is_loaded = _kernel_side(host, facts, who["container"], database)
    found = _user_space(host, facts, database)
    native = _native(host, facts, wanted)
    asked = native["source"] is not None
    verdict, reason = state.decide(
        {
            "module_version": facts.driver["kernel_module_version"],
            "module_loaded": is_loaded,
            "user_space_version": facts.driver["user_space_version"],
            "library_found": found,
            "nvml_asked": asked,
            "nvml_error": native["error"],
            "nvml_code": native["error_code"],
            "gpus_seen": bool(bus["gpus"]) and container.has_own_kernel(who["container"]),
            "container": who["container"],
            "live": host.live,
        }
    )
    facts.put("state", verdict, "versions and NVML")
    if reason:
        facts.reasons["driver.state"] = reason
    why = native["error"] or f"{native['source']} does not tell it"
    facts.put("nvml_reported", native.get("nvml_version"), native["source"], why)
    facts.put("nvml_driver_version", native.get("driver_version"), native["source"], why)
    facts.put("driver_cuda", native.get("cuda_version"), native["source"], why)
    error = {"code": native["error_code"], "text": native["error"]} if asked and native["error"] else None
    facts.driver["nvml_error"] = error
    tool, source, why = native.get("nvidia_smi_version"), "nvidia-smi", None
    if tool is None:
        tool, source, why = _program_version(host, database, "/usr/bin/nvidia-smi", r"version\s*:\s*(\S+)")
    facts.put("nvidia_smi_version", tool, source, why)
    _programs(host, facts, database, wanted)
    required = state.reboot_required(
        facts.driver["kernel_module_version"], facts.driver["next_boot_module_version"], who["container"]
    )
    facts.put("reboot_required", required, "versions", "the module of the next boot or the loaded one is not known")
    facts.driver["nvswitches"] = bus["nvswitches"]
    if "packages" in wanted:
        facts.put("packages", _packages(facts, database), database.name if database else None)
        facts.put("package_manager", database.name if database else None, "files", "neither dpkg nor rpm was found")
    devices = _devices(host, facts, native, bus, who["container"], wanted) if "devices" in wanted else []
    if native["p2p"] is not None:
        facts.sources["p2p"] = native["source"]
    else:
        facts.reasons["p2p"] = "not in gather_subset" if "topology" not in wanted else native["error"] or "not told"
    uuids = [device["uuid"] for device in devices if device["uuid"]]
    return {
        "schema": SCHEMA,
        "sources": facts.sources,
        "warnings": facts.warnings(),
        "identity": {**who, "gpu_uuids": uuids},
        "driver": facts.driver,
        "devices": devices,
        "p2p": native["p2p"],
    }
