# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules below the engine: driver, kernel log, NVML, Fabric Manager, containers, the OOM killer."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from . import driver_facts, service_facts
from .context import KERNEL_CHANNELS, Context, Finding
from .text import Line, Log, shorten
from .versions import VERSION, agree, as_key

# Xid numbers after which the GPU (or the link to it) is not trusted before a reset, by the cause they stand for.
# 13, 31, 43, 45, 68 and 69 come from applications and are no hardware fault by themselves.
FATAL_XIDS = {
    **dict.fromkeys(
        (48, 61, 62, 63, 64, 74, 92, 94, 95, 109, 110, 119, 120, 121, 123, 136, 140, 142, 143), "reset_required"
    ),
    **dict.fromkeys((144, 145, 146, 147, 148, 149, 150, 151, 154, 155, 156, 157, 158, 160, 161, 162), "reset_required"),
    79: "fallen_off_bus",
}
# Recorded or contained: the GPU goes on working, so they are no fault of a unit that serves.
_WORKS_ON = frozenset({63, 92, 94})
_XID = re.compile(r"NVRM: Xid \((PCI:[0-9A-Fa-f:.]+)\): (\d+)(.*)$")
_BUS = re.compile(r"(?:(?<=PCI:)|(?<![0-9A-Fa-f:.]))((?:[0-9A-Fa-f]{4,8}:)[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}(?:\.\d)?)")


def _host(code: str, cause: str | None, lines: tuple[str, ...], order: int = 0, **parsed: object) -> Finding:
    return Finding(code, cause, "host", (0, order), tuple(shorten(line) for line in lines), dict(parsed))


def _kernel_lines(ctx: Context, hint: str) -> Iterator[Line]:
    for channel in KERNEL_CHANNELS:
        yield from ctx.logs[channel].lines_with(hint)


def _first_line(ctx: Context, *hints: str) -> str | None:
    for hint in hints:
        for line in _kernel_lines(ctx, hint):
            return line.text
    return None


def xid(ctx: Context) -> Finding | None:
    """Fatal Xids, a GPU off the bus, a GPU that asks for a reset."""
    fatal = None
    numbers: list[int] = []
    for line in _kernel_lines(ctx, "nvrm: xid"):
        found = _XID.search(line.text)
        if not found:
            continue
        number = int(found.group(2))
        numbers.append(number)
        # 154 tells what it takes to recover; "None" takes the demand back.
        harmless = number == 154 and not re.search(r"\bto\b[^\n]*(?:[Rr]eset|[Rr]eboot|[Dd]rain)", found.group(3))
        if number in FATAL_XIDS and fatal is None and not harmless and not (number in _WORKS_ON and ctx.serving):
            fatal = (number, found.group(1)[4:], line.text)
    if fatal is not None:
        number, bus, text = fatal
        return _host("gpu_hardware_fault", FATAL_XIDS[number], (text,), xid=number, pci_bus_id=bus, xids=numbers)
    for hint, cause in (
        ("fallen off the bus", "fallen_off_bus"),
        ("gpu is lost", "gpu_lost"),
        ("gpu lost from the bus", "fallen_off_bus"),
        ("gpu reset required", "reset_required"),
        ("requires reset", "reset_required"),
        ("nv_err_reset_required", "reset_required"),
        # NVSwitches number their errors themselves and say which are fatal.
        (", fatal, ", None),
    ):
        for line in _kernel_lines(ctx, hint):
            if "NVRM" not in line.text and "nvidia" not in line.text.lower():
                continue
            if (cause is None) != ("SXid" in line.text) or "NVRM: Xid" in line.text:
                continue
            bus_id = _BUS.search(line.text)
            return _host(
                "gpu_hardware_fault",
                cause,
                (line.text,),
                xid=None,
                **({"pci_bus_id": bus_id.group(1)} if bus_id else {}),
            )
    return None


_LOST = (
    (re.compile(r"GPU is lost"), "gpu_lost"),
    (re.compile(r"[Ff]allen off the bus"), "fallen_off_bus"),
    (re.compile(r"requires reset|RESET_REQUIRED|[Rr]eset [Rr]equired"), "reset_required"),
    (re.compile(r"Unable to determine the device handle for (?:GPU|gpu)"), "gpu_lost"),
    (re.compile(r"NVML_ERROR_GPU_IS_LOST"), "gpu_lost"),
)


def smi_lost(ctx: Context) -> Finding | None:
    """nvidia-smi or NVML itself says that a device is gone or wants a reset."""
    for pattern, cause in _LOST:
        found = ctx.search(pattern, "nvidia_smi", "nvml_error", "nvidia_smi_query_csv", "nvidia_smi_xml")
        line = found[1].text if found else ""
        if found and not re.search(r"reset required\s*:\s*no", line, re.I):
            bus = _BUS.search(line)
            return _host("gpu_hardware_fault", cause, (line,), **({"pci_bus_id": bus.group(1)} if bus else {}))
    return None


# NVML error 18 by nvidia-smi, the container tools, the Python, Go and Rust bindings.
_MISMATCH_WORDS = re.compile(
    r"[Dd]river/library version mismatch|LIB_RM_VERSION|LibRmVersionMismatch|NVML/RM version mismatch"
)


def mismatch(ctx: Context) -> Finding | None:
    """User space and loaded module differ, by whichever source says so."""
    facts = ctx.driver
    loaded, user = facts.get("kernel_module_version"), facts.get("user_space_version")
    reported = facts.get("nvml_reported")
    found = ctx.search(
        _MISMATCH_WORDS, "nvidia_smi", "nvml_error", "unit_journal", "command_output", "journal", "ansible_output"
    )
    said = found[1].text if found else None
    kernel = _first_line(
        ctx,
        "api mismatch: the client",
        "nvidia-modeset: version mismatch",
        "nvidia-modeset.ko(",
        "gsp firmware image version mismatch",
    )
    healthy = ctx.text("nvidia_smi_rc").strip() == "0" or bool(
        facts.get("driver_version") and not said and ctx.collected("nvidia_smi")
    )
    differ = bool(loaded and user and not agree(loaded, user)) or bool(
        loaded and user and loaded.count(".") == user.count(".") and loaded != user
    )
    if ctx.text("virtualization").strip().lower() == "wsl" and not said:
        return None
    if not said and not kernel and not differ and not (reported and loaded and not agree(reported, loaded)):
        return None
    if not said and not kernel and healthy:
        # NVML works, so the library in use is the module's; other versions on disk are leftovers or pending.
        return None
    lines = [line for line in (said, kernel) if line]
    if loaded:
        lines.append(f"loaded kernel module {loaded}")
    if user:
        lines.append(f"user-space libraries {user}")
    return _host("driver_library_mismatch", mismatch_cause(ctx), tuple(lines), order=1)


def mismatch_cause(ctx: Context) -> str | None:
    """Why the versions differ, from what is installed and built."""
    facts = ctx.driver
    packages: driver_facts.Packages = facts["_packages"]
    loaded, disk, user = (
        facts.get(k) for k in ("kernel_module_version", "on_disk_module_version", "user_space_version")
    )
    if ctx.container:
        return "container_userspace"
    unpackaged = bool(facts["_library_versions"]) and ctx.collected("dpkg_l") and not packages.versions
    if (
        len(facts["_library_versions"]) > 1
        or unpackaged
        or len(set(packages.user_space.values())) > 1
        or (len(packages.branches) > 1 and packages.half)
        or _two_sources(packages, user)
    ):
        return "mixed_install"
    built = driver_facts.dkms(ctx.text("dkms_status"))
    running = ctx.text("uname_r").strip()
    if disk and user and disk == user:
        return "reboot_pending"
    for entry in built:
        if user and entry["version"] == user:
            installed = entry["state"] == "installed" and (
                not running or not entry["kernel"] or entry["kernel"] == running
            )
            return "reboot_pending" if installed else "module_not_rebuilt"
    if loaded and user and as_key(user) < as_key(loaded):
        return "mixed_install"
    if (disk and loaded and disk == loaded) or built or facts.get("modeset_module_version"):
        return "module_not_rebuilt"
    return "reboot_pending"


def _two_sources(packages: driver_facts.Packages, user: str | None) -> bool:
    """The libraries in use belong to no installed package although driver packages are installed."""
    return bool(user and packages.user_space and user not in packages.user_space.values())


# Two packages ship one file: dpkg names the archive on the line before, rpm both packages on one line.
_CONFLICTS = (
    re.compile(
        r"^.*error processing archive [^\n]*\n[^\n]*trying to overwrite '[^']*'.*$|^.*trying to overwrite '[^']*'.*$",
        re.M,
    ),
    re.compile(r"^.*\bfile /\S+ (?:from install of|conflicts between attempted installs of) .*$", re.M),
)


def _file_conflict(output: str) -> re.Match | None:
    for pattern in _CONFLICTS:
        for found in pattern.finditer(output):
            if re.search(r"nvidia|libcuda|cuda-drivers", found.group(0)):
                return found
    return None


def packages_mixed(ctx: Context) -> Finding | None:
    """dpkg refuses, or holds two branches or flavours half configured."""
    facts = ctx.driver
    packages: driver_facts.Packages = facts["_packages"]
    output = "\n".join(ctx.text(name) for name in ("apt_output", "command_output", "ansible_output")).replace(
        "\\n", "\n"
    )
    overwrite = _file_conflict(output)
    flavours = packages.flavours
    servers = {flavour.split("-")[0] for flavour in flavours if flavour.endswith("-server")}
    both_flavours = bool(servers & flavours)
    if not (
        overwrite or packages.half or (both_flavours and len(packages.branches) == 1) or len(packages.branches) > 1
    ):
        return None
    owners = {found.split(".")[0] for found in re.findall(VERSION, overwrite.group(0))} if overwrite else set()
    branch = len(packages.branches) > 1 or len(owners) > 1
    cause = "branch" if branch else "flavour" if both_flavours or overwrite or len(flavours) > 1 else None
    if not overwrite and not branch and not both_flavours and not re.search(r"nvidia", " ".join(packages.half)):
        return None
    lines = [overwrite.group(0).split("\n")[-1].strip()] if overwrite else []
    if packages.half:
        lines.append(f"half configured: {', '.join(packages.half)}")
    if len(packages.branches) > 1:
        lines.append(f"branches installed: {', '.join(packages.branches)}")
    if len(flavours) > 1:
        lines.append(f"flavours installed: {', '.join(sorted(flavours))}")
    broken = bool(overwrite or packages.half) or "nvidia" in output
    if not broken and ctx.text("nvidia_smi_rc").strip() == "0":
        return None
    return _host("driver_packages_mixed", cause, tuple(lines), order=3)


_BUILD_CHANNELS = (
    "dkms_status",
    "apt_output",
    "command_output",
    "kernel_log",
    "journal",
    "unit_journal",
    "modinfo_nvidia",
    "ansible_output",
)
# Why there is no module, by words of the kernel, of dkms and of modprobe.
_NO_MODULE: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "secure_boot",
        (
            "key was rejected by service",
            "unavailable key is rejected",
            "unsigned module loading is restricted",
            "required key not available",
        ),
    ),
    ("dkms_tree_broken", ("could not locate dkms.conf", "dkms.conf does not exist", "dkms.conf file")),
    (
        "not_built",
        (
            "module nvidia not found in directory",
            "bad return status for module build",
            "kernel headers for kernel",
            "nvidia: version magic",
            "nvidia: disagrees about version",
            "invalid module format",
        ),
    ),
)


_NO_DRIVER = re.compile(
    r"couldn't communicate with the NVIDIA driver|[Dd]river [Nn]ot [Ll]oaded|DRIVER_NOT_LOADED|DriverNotLoaded|Found no NVIDIA driver"
)
# These words may be about a module of someone else.
_OF_ANY_MODULE = frozenset({"invalid module format", "bad return status for module build", "kernel headers for kernel"})
# The module that a message is about, in its own line or shortly after: modprobe's and insmod's, a DKMS tree, DKMS's own command.
_ABOUT_MODULE = re.compile(
    r"could not insert (?:module )?['\"]?(?:\S*/)?([\w-]+)|/dkms/([\w-]+)/|dkms (?:build|install|add)\b[^\n]*? -m ([\w-]+)"
)


def _of_the_driver(log: Log, line: Line, cause: str, hint: str) -> bool:
    """Whether a line about some kernel module is about NVIDIA's driver, as far as it and its neighbours tell."""
    if (cause == "dkms_tree_broken" or hint in _OF_ANY_MODULE) and not log.has("nvidia"):
        return False
    # The kernel has one error for keys of modules and for those of encrypted files.
    if hint == "required key not available" and not re.search(r"modprobe|insmod|nvidia|dkms", line.text):
        return False
    named = _ABOUT_MODULE.search(log.following(line, 3))
    # GPUDirect Storage's module comes beside the driver's.
    return named is None or re.match(r"nvidia(?!-fs)", next(filter(None, named.groups()))) is not None


def module_missing(ctx: Context) -> Finding | None:
    """No module for the running kernel."""
    lsmod = ctx.channels.get("lsmod")
    loaded = (
        bool(ctx.driver.get("kernel_module_version"))
        or (isinstance(lsmod, str) and re.search(r"^nvidia\s", lsmod, re.M) is not None)
        or ctx.text("nvidia_smi_rc").strip() == "0"
    )
    found = ctx.search(_NO_DRIVER, "nvidia_smi", "nvml_error", "unit_journal", "command_output", "ansible_output")
    no_talk = found[1].text if found else None
    # A driver that works needs no other module, whatever was tried.
    for cause, hints in () if loaded and not no_talk else _NO_MODULE:
        for name in _BUILD_CHANNELS:
            log = ctx.log(name)
            for hint in hints:
                line = next((line for line in log.lines_with(hint) if _of_the_driver(log, line, cause, hint)), None)
                if line is None:
                    continue
                lines = tuple(text for text in (no_talk, line.text) if text)
                return _host("driver_module_missing", cause, lines, order=2, **_stale(log.text))
    entries = driver_facts.dkms(ctx.text("dkms_status"))
    running = ctx.text("uname_r").strip()
    broken = [entry for entry in entries if entry["state"] == "broken"]
    if broken:
        return _host(
            "driver_module_missing",
            "dkms_tree_broken",
            (ctx.text("dkms_status").strip(),),
            order=2,
            stale_dkms_version=broken[0]["version"],
        )
    if loaded or not no_talk or (ctx.container and "Found no NVIDIA driver" in no_talk):
        return None
    built_here = any(e["state"] == "installed" and e["kernel"] == running for e in entries)
    # A module that speaks in the kernel's log has been built, whatever keeps it from the devices.
    cause = None if built_here or _first_line(ctx, "nvrm: ") else "not_built"
    lines = [no_talk]
    if entries:
        lines.append(f"dkms: {ctx.text('dkms_status').strip().splitlines()[0]}")
    if running:
        lines.append(f"running kernel {running}")
    return _host("driver_module_missing", cause, tuple(lines), order=2)


def _stale(text: str) -> dict[str, str]:
    found = re.search(rf"/(?:var/lib/dkms|usr/src)/nvidia[-/]({VERSION})", text)
    return {"stale_dkms_version": found.group(1), "stale_version": found.group(1)} if found else {}


def open_module(ctx: Context) -> Finding | None:
    """The kernel says that this GPU wants the open module."""
    for line in _kernel_lines(ctx, "open kernel module"):
        if "requires use of" not in line.text and "require" not in line.text:
            continue
        if re.search(r"loading NVIDIA UNIX", line.text):
            continue
        log = ctx.logs[line.channel]
        before = log.text[max(0, line.position - 400) : line.position + 400]
        pci = re.search(r"PCI ID: ([0-9a-f]{4}:[0-9a-f]{4})", before)
        bus = re.search(r"GPU ([0-9a-fA-F:.]+) \(PCI", before)
        parsed = {key: found.group(1) for key, found in (("pci_id", pci), ("pci_bus_id", bus)) if found}
        return _host("driver_open_module_required", None, (line.text,), **parsed)
    return None


def not_found(ctx: Context) -> Finding | None:
    """The module is there, no device comes up."""
    smi = ctx.text("nvidia_smi") + ctx.text("nvml_error")
    none = re.search(r"^.*(?:No devices were found|No devices found|NVML_ERROR_NOT_FOUND).*$", smi, re.M)
    adapter = _first_line(
        ctx,
        "rminitadapter failed",
        "rm_init_adapter failed",
        "this pci i/o region assigned to your nvidia device is invalid",
    )
    probe = _first_line(
        ctx,
        "none of the nvidia devices were",
        "no nvidia gpu found",
        "the nvidia probe routine failed",
        "no nvidia devices probed",
        "the nvidia probe routine was not called",
    )
    if not (none or adapter or probe):
        return None
    if not none and ctx.text("nvidia_smi_rc").strip() == "0":
        return None
    cause = "adapter_init_failed" if adapter else None
    return _host(
        "gpu_not_found", cause, tuple(line for line in (none and none.group(0), adapter, probe) if line), order=4
    )


_FABRIC_VERSIONS = re.compile(
    rf"[Ff]abric [Mm]anager.*?version ({VERSION}) (?:don't|doesn't|does not|do not) match (?:with )?(?:the )?driver version ({VERSION})"
)
_NO_SWITCH = re.compile(r"NV_WARN_NOTHING_TO_DO|[Nn]o NVSwitch(?:es)? (?:devices? )?(?:found|detected)")


def fabric_manager(ctx: Context) -> Finding | None:
    """Fabric Manager's version, absence, or uselessness."""
    driver = ctx.driver.get("driver_version") or ctx.driver.get("kernel_module_version")
    nothing = None
    for name in ("unit_journal", "journal", "fabric_manager_unit", "command_output"):
        found = ctx.search(_FABRIC_VERSIONS, name)
        if found:
            return _host(
                "fabric_manager_fault",
                "version_mismatch",
                (found[1].text,),
                fabric_manager_version=found[0].group(1),
                driver_version=found[0].group(2),
            )
        nothing = nothing or ctx.search(_NO_SWITCH, name)
    waits = None
    for channel in ("unit_journal", "command_output"):
        for hint in ("error 802", "system not yet initialized", "cudaerrorsystemnotready"):
            waits = waits or next(ctx.logs[channel].lines_with(hint, ctx.starts[channel]), None)
    # Of switches beyond its reach (NVLink 5) Fabric Manager says the same as of none; only the first keep CUDA waiting.
    if nothing and not waits:
        return _host("fabric_manager_fault", "not_applicable", (nothing[1].text,), order=9)
    installed = ctx.driver.get("fabric_manager_version") or _unit_version(ctx.text("fabric_manager_unit"))
    switches = ctx.channels.get("lspci_nvswitch")
    state = service_facts.parse_properties(ctx.text("fabric_manager_unit"))
    off = bool(state) and state.get("ActiveState") != "active"
    wrong = bool(installed and driver and installed != driver)
    if not waits and not (switches and (off or wrong)):
        return None
    lines = [waits.text] if waits else []
    if state:
        lines.append(f"nvidia-fabricmanager: {state.get('LoadState', '?')}, {state.get('ActiveState', '?')}")
    parsed: dict[str, object] = {"cuda_error": 802} if waits else {}
    if installed:
        parsed["fabric_manager_version"] = installed
        lines.append(f"Fabric Manager {installed}, driver {driver}")
    return _host(
        "fabric_manager_fault", "version_mismatch" if wrong else "not_running", tuple(lines), order=5, **parsed
    )


def _unit_version(text: str) -> str | None:
    found = re.search(rf"(?:[Ff]abric [Mm]anager|[Vv]ersion)\D{{0,20}}({VERSION})", text)
    return found.group(1) if found else None


def _missing_library(ctx: Context) -> tuple[str, str] | None:
    """(line, version) where a driver library of a certain version is named as missing."""
    absent = re.compile(r"no such file|not found|cannot stat|does not exist", re.I)
    for channel in ("unit_journal", "command_output", "journal"):
        for line in ctx.logs[channel].lines_with(".so.", ctx.starts[channel]):
            found = re.search(rf"lib[\w-]*(?:nvidia|cuda|nvcuvid|GLX|EGL)[\w-]*\.so\.({VERSION})", line.text)
            if found and absent.search(line.text):
                return line.text, found.group(1)
    return None


# What the container tools cannot do; a wrong or unloaded driver and an unmet CUDA level are told apart elsewhere.
_REFUSED = re.compile(
    r"(?:mount|container|device|ldcache|detection|initialization) error: (?!.*(?:version mismatch|[Dd]river not loaded))"
)


def container(ctx: Context) -> Finding | None:
    """The container lost its GPU, or its mounts name files of another driver."""
    inside = ctx.text("container_nvidia_smi")
    stale = _missing_library(ctx)
    driver = ctx.driver.get("kernel_module_version") or ctx.driver.get("driver_version")
    listed = re.search(rf"\.so\.({VERSION})", ctx.text("cdi_spec"))
    if stale and (driver is None or stale[1] != driver):
        return _host("container_gpu_unavailable", "stale_driver_mounts", (stale[0],), stale_version=stale[1])
    if listed and driver and listed.group(1) != driver and inside and not re.search(r"Driver Version", inside):
        return _host(
            "container_gpu_unavailable",
            "stale_driver_mounts",
            (f"CDI specification names {listed.group(1)}, the driver is {driver}",),
            order=0,
            stale_version=listed.group(1),
        )
    host_fine = ctx.text("nvidia_smi_rc").strip() == "0" or "GPU 0:" in ctx.text("nvidia_smi")
    own = ctx.text("nvidia_smi") if ctx.container else ""
    lost = re.search(
        r"^.*Failed to initialize NVML: (?:Unknown Error|Insufficient Permissions).*$", inside or own, re.M
    )
    if lost is None and driver and not _first_line(ctx, "rminitadapter failed", "rm_init_adapter failed"):
        # The host's module is visible from in here, so it is the devices that are not.
        lost = re.search(r"^.*(?:No devices were found|couldn't communicate with the NVIDIA driver).*$", own, re.M)
    if lost and (host_fine or ctx.container):
        return _host("container_gpu_unavailable", "device_cgroup_revoked", (lost.group(0),))
    if inside and host_fine and ctx.text("container_nvidia_smi_rc").strip() not in ("", "0"):
        cause = "device_cgroup_revoked" if re.search(r"Operation not permitted|No devices were found", inside) else None
        return _host("container_gpu_unavailable", cause, (inside.strip().splitlines()[0],), order=0)
    missing = None
    hints = [
        "unresolvable cdi devices",
        "could not select device driver",
        "failed to inject cdi devices",
        "failed to stat cdi host device",
        "setting up cdi devices",
        "nvidia-container-cli: ",
        "nvidia-container-runtime",
    ]
    if ctx.container:
        hints += ["found no nvidia driver", "no cuda gpus are available", "no cuda-capable device"]
    for channel in ("unit_journal", "command_output", "journal"):
        for hint in hints:
            missing = missing or next(
                (
                    line
                    for line in ctx.logs[channel].lines_with(hint, ctx.starts[channel])
                    if not hint.startswith("nvidia-container") or _REFUSED.search(line.text)
                ),
                None,
            )
    if missing:
        return _host("container_gpu_unavailable", None, (missing.text,), order=0)
    return None


# Kernels before 5 announce the kill in one line and report it in the next.
_VICTIM = re.compile(
    r"(?:(Memory cgroup out of memory|Out of memory[^:]*): )?Kill(?:ed)? process (\d+)(?:, UID \d+,)? \(([^)]*)\)"
)
# What a container runtime tells of the last run.
_RUNTIME_OOM = re.compile(r"\"OOMKilled\": ?true|Reason: +OOMKilled|\breason[=:] ?\"?OOMKilled")
_CONTAINER_SCOPE = re.compile(r"docker|libpod|cri-|containerd|kubepods|crio|nerdctl|machine\.slice")


def oom(ctx: Context) -> Finding | None:
    """The kernel's, a cgroup's or systemd-oomd's killer took a process of this unit."""
    unit = ctx.unit_name
    said = next(
        ctx.logs["unit_journal"].lines_with("killed by the oom killer", ctx.starts["unit_journal"]), None
    ) or next(
        (line for line in ctx.logs["journal"].lines_with("killed by the oom killer") if _of_this_unit(ctx, line.text)),
        None,
    )
    result = ctx.unit.get("Result") == "oom-kill" or any(
        True
        for _line in ctx.logs["unit_journal"].lines_with("failed with result 'oom-kill'", ctx.starts["unit_journal"])
    )
    own = bool(said or result)
    runtime = ctx.search(_RUNTIME_OOM, "command_output", "unit_journal", "journal")
    if runtime:
        return _host("host_oom_killed", "cgroup", (runtime[1].text,), order=-1)
    best: tuple[str, dict[str, object], str | None] | None = None
    for line in (*_kernel_lines(ctx, "killed process"), *_kernel_lines(ctx, "out of memory: kill process")):
        found = _VICTIM.search(line.text)
        if not found:
            continue
        log = ctx.logs[line.channel]
        near = log.text[max(0, line.position - 3000) : line.position + len(line.text)]
        group = re.search(rf"task_memcg=(\S*?),task=[^,]*,pid={found.group(2)}\b", near) or re.search(
            r"Task in (\S+) killed as a result of limit of", near
        )
        if not own and not _ours(ctx, unit, group.group(1) if group else "", found.group(2), found.group(3)):
            continue
        rss = re.search(r"anon-rss:(\d+)kB", line.text)
        memcg = "cgroup" in (found.group(1) or "") or bool(
            re.search(r"constraint=CONSTRAINT_MEMCG|killed as a result of limit of", near)
        )
        parsed: dict[str, object] = {"victim": found.group(3), "pid": int(found.group(2))}
        if rss:
            parsed["anon_rss_kb"] = int(rss.group(1))
        best = (line.text, parsed, "cgroup" if memcg else "global")
        break
    oomd = None
    for line in _kernel_lines(ctx, "systemd-oomd"):
        if "Killed" in line.text and (not unit or unit in line.text):
            oomd = line.text
    if best is None and not own and oomd is None:
        return None
    lines = tuple(text for text in (best and best[0], said and said.text, oomd, result and "Result=oom-kill") if text)
    return _host(
        "host_oom_killed",
        best[2] if best else ("cgroup" if oomd else None),
        lines,
        order=-1,
        **(best[1] if best else {}),
    )


def _of_this_unit(ctx: Context, text: str) -> bool:
    """Whether a line of the whole host's journal is about this unit; where its name is not known, whether it may be."""
    named = re.search(r"([\w@.:\\-]+\.\w+): A process of this unit", text)
    if named is None:
        return True
    if ctx.unit_name:
        return named.group(1) == ctx.unit_name
    engine = re.search(r"sglang|vllm|dflash|ddtree", named.group(1))
    return engine is not None or named.group(1) in ctx.logs["unit_journal"].text


def _ours(ctx: Context, unit: str, group: str, pid: str, name: str) -> bool:
    """Whether an OOM victim is a process of this unit, as far as cgroup, pid and name tell."""
    engine = (
        re.search(r"sglang|vllm|python|pt_main|ray::|ddtree|cicc|nvcc|ptxas|cudafe|cc1plus|ninja", name, re.I)
        is not None
    )
    if unit and group:
        # A unit that starts a container: the runtime puts its processes into a scope of its own.
        runs_container = _CONTAINER_SCOPE.search(ctx.unit.get("ExecStart", "")) or re.search(
            r"\b(?:docker|podman|nerdctl)(?:\[\d+\])?: ", ctx.logs["unit_journal"].text[-20000:]
        )
        return unit in group or bool(engine and runs_container and _CONTAINER_SCOPE.search(group))
    journal = ctx.logs["unit_journal"]
    if journal and re.search(rf"\[{pid}\]|\bpid[ =:]+{pid}\b", journal.text):
        return True
    if group and re.search(r"/[\w@-]+\.service", group) and journal:
        service = re.findall(r"/([\w@.-]+)\.service", group)[-1]
        return service in journal.text or re.search(r"sglang|vllm|dflash|ddtree", service) is not None
    return engine


RULES: tuple[Callable[[Context], Finding | None], ...] = (
    oom,
    container,
    xid,
    smi_lost,
    open_module,
    mismatch,
    module_missing,
    packages_mixed,
    not_found,
    fabric_manager,
)
