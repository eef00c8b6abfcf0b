# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machine itself: system, memory, limits, disks, clock, pending reboot, automatic upgrades."""

from __future__ import annotations

import os
import re
import time
import typing as t

from ansible_collections.inferlab.dflash.plugins.module_utils._gpu.container import kind as container_kind

from .source import REMOTE, Source, number

MIB = 1024 * 1024

#: File systems that hold no data of their own.
_PSEUDO = frozenset(
    [
        "proc",
        "sysfs",
        "devpts",
        "devtmpfs",
        "cgroup",
        "cgroup2",
        "mqueue",
        "debugfs",
        "tracefs",
        "securityfs",
        "pstore",
        "bpf",
        "configfs",
        "fusectl",
        "hugetlbfs",
        "binfmt_misc",
        "autofs",
        "rpc_pipefs",
        "nsfs",
        "efivarfs",
        "squashfs",
        "ramfs",
        "selinuxfs",
        "fuse.lxcfs",
        "fuse.gvfsd-fuse",
    ]
)
#: Containers as systemd names them, which is what it was told by their manager and keeps in a file.
_CONTAINERS = frozenset(
    ["docker", "lxc", "lxc-libvirt", "openvz", "podman", "pouch", "proot", "rkt", "systemd-nspawn", "wsl"]
)


def collect_host(source: Source) -> dict[str, t.Any]:
    """Name, system, kernel, virtualisation, processors and identity."""
    release = os_release(source.read("/etc/os-release") or source.read("/usr/lib/os-release") or "")
    return {
        "hostname": _line(source, "/proc/sys/kernel/hostname") or _line(source, "/etc/hostname"),
        "os": {
            "id": release.get("ID"),
            "version": release.get("VERSION_ID"),
            "name": release.get("PRETTY_NAME"),
        },
        "kernel": _line(source, "/proc/sys/kernel/osrelease"),
        "architecture": os.uname().machine if source.live else None,
        "virtualization": virtualization(source),
        "cpu": cpu(source.read("/proc/cpuinfo", 2 * MIB) or ""),
        "numa_nodes": len([name for name in source.names("/sys/devices/system/node") if re.match(r"node\d+$", name)])
        or None,
        "uptime_s": _uptime(source),
        "machine_id": _line(source, "/etc/machine-id"),
        "boot_id": _line(source, "/proc/sys/kernel/random/boot_id"),
    }


def _line(source: Source, path: str) -> str | None:
    text = source.read(path, 4096)
    return text.strip() or None if text is not None else None


def _uptime(source: Source) -> int | None:
    match = re.match(r"(\d+)", source.read("/proc/uptime") or "")
    return int(match.group(1)) if match else None


def os_release(text: str) -> dict[str, str]:
    """Return the fields of an os-release file, without quotes."""
    return {key: value.strip("\"'") for key, value in re.findall(r"(?m)^([A-Z_]+)=(.*?)\s*$", text)}


def cpu(text: str) -> dict[str, t.Any]:
    """Return processor model and count from /proc/cpuinfo."""
    model = re.search(r"(?m)^(?:model name|Model|cpu model)\s*:\s*(.+)$", text)
    count = len(re.findall(r"(?m)^processor\s*:", text))
    return {"model": model.group(1).strip() if model else None, "count": count or None}


def virtualization(source: Source) -> str | None:
    """Return what the system runs in (lxc, podman, docker, kvm, ...), none on bare metal, None when unknown."""
    told = _line(source, "/run/systemd/container")
    if source.live and told in _CONTAINERS:
        # What systemd-detect-virt would say, without a process.
        return told
    said = source.run("systemd-detect-virt")
    # It exits with 1 to say "none", which the runner reports as no output.
    if said:
        return said.strip()
    container = container_kind(source)
    if container != "none":
        return container
    maker = f"{_line(source, '/sys/class/dmi/id/sys_vendor')} {_line(source, '/sys/class/dmi/id/product_name')}"
    for word, kind in (
        ("QEMU", "kvm"),
        ("KVM", "kvm"),
        ("VMware", "vmware"),
        ("VirtualBox", "oracle"),
        ("Virtual Machine", "microsoft"),
    ):
        if word in maker:
            return kind
    flags = re.search(r"(?m)^flags\s*:(.*)$", source.read("/proc/cpuinfo") or "")
    if flags is None:
        return None
    return "unknown_vm" if " hypervisor" in flags.group(1) else "none"


def collect_memory(source: Source) -> dict[str, t.Any]:
    """Memory, swap and huge pages."""
    fields = {key: int(value) for key, value in re.findall(r"(?m)^(\S+):\s+(\d+)", source.read("/proc/meminfo") or "")}

    def mib(key: str) -> int | None:
        return fields[key] // 1024 if key in fields else None

    thp = re.search(r"\[(\w+)\]", source.read("/sys/kernel/mm/transparent_hugepage/enabled") or "")
    return {
        "total_mib": mib("MemTotal"),
        "available_mib": mib("MemAvailable"),
        "swap_total_mib": mib("SwapTotal"),
        "swap_free_mib": mib("SwapFree"),
        "hugepages": {
            "total": fields.get("HugePages_Total"),
            "free": fields.get("HugePages_Free"),
            "size_kib": fields.get("Hugepagesize"),
        },
        "transparent_hugepages": thp.group(1) if thp else None,
    }


def collect_limits(source: Source) -> dict[str, t.Any]:
    """Resource limits of a login on this host ("unlimited" where there is none), and the kernel's own."""
    text = source.read("/proc/self/limits") or source.read("/proc/1/limits") or ""
    limits: dict[str, t.Any] = {}
    for key, label in (("nofile", "Max open files"), ("memlock", "Max locked memory"), ("nproc", "Max processes")):
        match = re.search(rf"(?m)^{label}\s+(\S+)\s+(\S+)", text)
        limits[key] = {"soft": match.group(1), "hard": match.group(2)} if match else None
    for key in ("fs.file-max", "fs.nr_open", "vm.max_map_count", "vm.overcommit_memory", "kernel.pid_max"):
        limits[key] = number(source.read("/proc/sys/" + key.replace(".", "/")))
    return limits


def mounts(text: str) -> list[dict[str, str]]:
    """Return {device, mount, type} of each line of /proc/mounts."""
    found = []
    for line in text.splitlines():
        parts = line.split(" ")
        if len(parts) >= 3:
            mount = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), parts[1])
            found.append({"device": parts[0], "mount": mount, "type": parts[2]})
    return found


def collect_disks(source: Source) -> list[dict[str, t.Any]]:
    """Size and free space of each file system with data; a remote one is named but never asked, since it could hang."""
    disks: list[dict[str, t.Any]] = []
    seen: set[str] = set()
    for entry in mounts(source.read("/proc/mounts", 4 * MIB) or ""):
        kind, mount, device = entry["type"], entry["mount"], entry["device"]
        if kind in _PSEUDO or (kind == "tmpfs" and mount != "/dev/shm") or len(disks) >= 64:
            continue
        if kind == "overlay" and mount != "/":
            continue
        remote = kind in REMOTE
        # Containers get single files bound over /etc: those are no place to put anything.
        if (
            mount in seen
            or (device in seen and kind != "tmpfs")
            or (not remote and source.live and not os.path.isdir(mount))
        ):
            continue
        seen.update((device, mount))
        disk: dict[str, t.Any] = {"mount": mount, "device": device, "type": kind, "size_mib": None, "free_mib": None}
        if remote:
            source.warn(f"disks.{mount}", f"{kind} is remote and was not asked")
        elif source.live:
            try:
                space = os.statvfs(mount)
            except OSError as exc:
                source.warn(f"disks.{mount}", exc.strerror or str(exc))
                continue
            if not space.f_blocks:
                continue
            disk["size_mib"] = space.f_blocks * space.f_frsize // MIB
            disk["free_mib"] = space.f_bavail * space.f_frsize // MIB
        disks.append(disk)
    return disks


def collect_time(source: Source, control_time: float | None) -> dict[str, t.Any]:
    """The clock against the control node's, and whether anything keeps it right.

    The skew includes the time that the call took to get here, so only seconds mean something.
    """
    now = time.time()
    service = None
    for name, path in (
        ("systemd-timesyncd", "/run/systemd/timesync"),
        ("chrony", "/run/chrony"),
        ("ntpd", "/run/ntpd.pid"),
        ("ntpsec", "/run/ntpsec"),
    ):
        if source.exists(path):
            service = name
            break
    return {
        "epoch": round(now, 1) if source.live else None,
        "skew_s": round(now - control_time, 1) if control_time and source.live else None,
        "synchronized": clock_synchronized() if source.live else None,
        "service": service,
        "timezone": _timezone(source),
    }


def _timezone(source: Source) -> str | None:
    link = source.link("/etc/localtime") or ""
    return link.split("zoneinfo/", 1)[1] if "zoneinfo/" in link else None


def clock_synchronized() -> bool | None:
    """Whether the kernel holds its clock for synchronised: adjtimex with no mode set only reads."""
    try:
        import ctypes

        buffer = ctypes.create_string_buffer(512)
        state = ctypes.CDLL(None, use_errno=True).adjtimex(buffer)
    except (ImportError, OSError, AttributeError):
        return None
    return None if state < 0 else state != 5  # TIME_ERROR


def collect_reboot(source: Source) -> dict[str, t.Any]:
    """Whether the system asks for a reboot, and for which packages."""
    for folder in ("/run", "/var/run"):
        if source.exists(f"{folder}/reboot-required"):
            packages = (source.read(f"{folder}/reboot-required.pkgs") or "").split()
            return {"required": True, "packages": sorted(set(packages))}
    return {"required": False, "packages": []}


def collect_upgrades(source: Source) -> dict[str, t.Any]:
    """Whether packages upgrade by themselves, and whether the NVIDIA driver is kept out of it."""
    installed = source.exists("/usr/bin/unattended-upgrade")
    text = ""
    for name in source.names("/etc/apt/apt.conf.d"):
        text += strip_apt_comments(source.read(f"/etc/apt/apt.conf.d/{name}") or "") + "\n"
    answer = {"tool": "unattended-upgrades" if installed else None, "enabled": False, "driver_excluded": None}
    if installed:
        match = re.findall(r'APT::Periodic::Unattended-Upgrade\s+"(\d+)"', text)
        answer["enabled"] = bool(match) and match[-1] != "0"
        answer["driver_excluded"] = driver_excluded(text)
    elif source.exists("/etc/dnf/automatic.conf"):
        conf = source.read("/etc/dnf/automatic.conf") or ""
        answer["tool"] = "dnf-automatic"
        answer["enabled"] = bool(re.search(r"(?m)^\s*apply_updates\s*=\s*(yes|true|1)\b", conf))
        excludes = " ".join(
            re.findall(r"(?m)^\s*exclude(?:pkgs)?\s*=\s*(.+)$", conf + (source.read("/etc/dnf/dnf.conf") or ""))
        )
        answer["driver_excluded"] = "nvidia" in excludes
    return answer


def strip_apt_comments(text: str) -> str:
    """Return an apt configuration without // and # comments; quoted text stays."""
    return re.sub(
        r'"[^"\n]*"|//[^\n]*|^\s*#[^\n]*', lambda m: m.group() if m.group().startswith('"') else "", text, flags=re.M
    )


def driver_excluded(text: str) -> bool:
    """Whether unattended-upgrades' blacklist, in apt's configuration, holds back the driver's user space."""
    blocks = re.findall(r"Unattended-Upgrade::Package-Blacklist\s*(?:::\s*)?(\{[^}]*\}|\"[^\"]*\")", text)
    patterns = [pattern for block in blocks for pattern in re.findall(r'"([^"]+)"', block)]
    wanted = ("libnvidia-compute-580", "nvidia-utils-580")
    return all(any(_matches(pattern, package) for pattern in patterns) for package in wanted)


def _matches(pattern: str, package: str) -> bool:
    # unattended-upgrades matches its regular expressions from the start of the name.
    try:
        return re.match(pattern, package) is not None
    except re.error:
        return False


def collect_toolkits(source: Source) -> list[dict[str, t.Any]]:
    """CUDA toolkits: where, which version, and whether nvcc is there."""
    found: list[dict[str, t.Any]] = []
    real: set[str] = set()
    names = [f"/usr/local/{name}" for name in source.names("/usr/local") if name.startswith("cuda")]
    for path in [*sorted(names, key=len, reverse=True), "/usr/lib/cuda", "/opt/cuda"]:
        if not source.exists(path):
            continue
        target = os.path.realpath(source.path(path))
        if target in real:
            continue
        real.add(target)
        text = source.read(f"{path}/version.json") or source.read(f"{path}/version.txt") or ""
        match = re.search(r'"cuda"\s*:\s*\{[^}]*"version"\s*:\s*"([\d.]+)"|CUDA Version ([\d.]+)', text)
        named = re.search(r"cuda-(\d+\.\d+)$", path)
        version = (match.group(1) or match.group(2)) if match else named.group(1) if named else None
        found.append({"path": path, "version": version, "nvcc": source.exists(f"{path}/bin/nvcc")})
    if source.exists("/usr/bin/nvcc") and not os.path.islink(source.path("/usr/bin/nvcc")):
        found.append({"path": "/usr", "version": None, "nvcc": True})
    return sorted(found, key=lambda toolkit: toolkit["path"])
