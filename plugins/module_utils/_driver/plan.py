# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What to do about a driver: a pure function of the facts and of what was allowed. Private to this collection.

Three versions decide: L, the loaded module; D, the module on disk for the next boot; U, the user-space library.

    L = U                        none (a reboot is said to be required when D differs)
    L != U = D                   a reboot is pending: reload_module or reboot where allowed, else blocked
    L = D != U                   align_userspace
    all three differ, or mixed   blocked, with the exact reason
    container                    D does not count: align_userspace to L, or host_action

Outside a container align_userspace brings the module packages on disk along, so that the next boot is as sound as this one.
A healthy or reboot-pending host is moved only with the strategy align_userspace.
"""

from __future__ import annotations

import typing as t

from ansible_collections.inferlab.dflash.plugins.module_utils._gpu import container, parse
from ansible_collections.inferlab.dflash.plugins.module_utils._gpu.state import differ

NONE = "none"
ALIGN = "align_userspace"
RELOAD = "reload_module"
REBOOT = "reboot"
HOST_ACTION = "host_action"
BLOCKED = "blocked"

AUTO = "auto"
_WAY_ALIGN = "set driver_strategy: align_userspace to bring the packages to the loaded module's version"
_WAY_RELOAD = "set driver_allow_module_reload: true to reload the module (needs a GPU that no process holds)"
_WAY_REBOOT = "set driver_allow_reboot: true to reboot into the module on disk"


class Wishes(t.NamedTuple):
    """What the inventory asks for and allows. Everything that interrupts work is off unless it is named."""

    strategy: str = AUTO
    target_version: str | None = None
    allow_reload: bool = False
    allow_reboot: bool = False
    control_node: bool = False


def evidence(
    facts: t.Mapping[str, t.Any],
    unfinished: str | None = None,
    holders: t.Sequence[t.Mapping[str, t.Any]] = (),
) -> dict[str, t.Any]:
    """The part of gpu_facts that decides, with the target of a transaction that was cut off and the holders of the GPUs."""
    driver = facts["driver"]
    return {
        "state": driver["state"],
        "container": facts["identity"]["container"],
        "loaded": driver["kernel_module_version"],
        "loaded_flavour": driver["module_flavour"],
        "on_disk": driver["on_disk_module_version"],
        "next_boot": driver["next_boot_module_version"],
        "next_boot_kernel": driver["next_boot_kernel"],
        "next_boot_flavour": driver["next_boot_module_flavour"],
        "next_boot_unchanged": driver.get("next_boot_unchanged"),
        "module_provider": driver["module_provider"],
        "user_space": driver["user_space_version"],
        "library_path": driver["library_path"],
        "library_package": driver["library_package"],
        "library_mounted": driver.get("library_mounted"),
        "library_sources": driver["library_sources"],
        "packages": driver["packages"],
        "fabric_manager": driver["fabric_manager_version"],
        "nvswitches": driver["nvswitches"],
        "unfinished": unfinished,
        "holders": list(holders),
    }


def _plan(action: str, reason: str, **more: t.Any) -> dict[str, t.Any]:
    return {
        "action": action,
        "reason": reason,
        "target_version": None,
        "ways_out": [],
        "reboot_required": None,
        "host_action": None,
        **more,
    }


def describe_holder(holder: t.Mapping[str, t.Any]) -> str:
    """One line for a process that holds a GPU."""
    where = holder.get("unit") or "no unit"
    if holder.get("guest"):
        where += f" in {holder['guest']['kind']} {holder['guest']['id']}"
    memory = f", {holder['memory_mib']} MiB" if holder.get("memory_mib") is not None else ""
    return f"pid {holder['pid']} ({holder.get('command') or 'unknown command'}, user {holder.get('user')}, {where}{memory})"


def mixed_sources(e: t.Mapping[str, t.Any]) -> str | None:
    """Why the installed files do not come from one place, None when they do."""
    sources = e["library_sources"] or []
    branches: dict[str, list[str]] = {}
    for source in sources:
        branches.setdefault(parse.branch(source["version"]) or "", []).append(
            f"{source['version']} from {source['package'] or source['file']}"
        )
    if len(branches) > 1:
        return "driver libraries of two branches are installed: " + "; ".join(
            ", ".join(sorted(set(found))) for _name, found in sorted(branches.items())
        )
    unowned = [source for source in sources if source["package"] is None]
    if unowned and any(source["package"] for source in sources):
        return (
            f"{unowned[0]['file']} ({unowned[0]['version']}) belongs to no package while others of the driver do: leftovers of "
            "the vendor's .run installer beside packages"
        )
    owners = {
        source["package"]
        for source in sources
        if source["package"] and source["version"] == e["user_space"] and "/libnvidia-ml.so." in source["file"]
    }
    if len(owners) > 1:
        return f"two packages own the same library, two flavours of one driver: {', '.join(sorted(owners))}"
    return None


def _in_container(e: t.Mapping[str, t.Any], wishes: Wishes) -> dict[str, t.Any]:
    kind, loaded, user_space = e["container"], e["loaded"], e["user_space"]
    if kind == container.WSL:
        return _plan(NONE, "on WSL the driver belongs to Windows and its versions differ by design")
    if not loaded:
        if user_space is None:
            return _plan(NONE, "no NVIDIA driver is visible in this container")
        what = (
            f"load the nvidia module of {user_space} on the host of this container and pass the GPU's device files in"
        )
        return _plan(
            HOST_ACTION, f"no nvidia module is loaded on the host of this container ({kind})", host_action=what
        )
    if wishes.target_version and differ(loaded, wishes.target_version):
        what = f"bring the host's driver to {wishes.target_version}, then run this again"
        reason = (
            f"the host of this container runs module {loaded}: user space {wishes.target_version} would not work here"
        )
        return _plan(HOST_ACTION, reason, host_action=what, target_version=wishes.target_version)
    if user_space is None:
        reason = (
            f"module {loaded} is loaded on the host and no user-space library is installed in this container ({kind})"
        )
        return _plan(
            BLOCKED, reason, ways_out=[f"install the user-space packages of exactly {loaded} (no kernel module)"]
        )
    if not differ(loaded, user_space):
        return _plan(NONE, f"the module on the host and the user space here are both {loaded}")
    if e["library_package"] is None and e["library_mounted"] is False:
        reason = (
            f"user space {user_space} ({e['library_path']}) was put into this container by no package and is no mount, most likely by the "
            f"vendor's .run installer; the host's module is {loaded}"
        )
        ways = [
            f"run NVIDIA-Linux-*-{loaded}.run --no-kernel-module in this container",
            f"or remove that installation (nvidia-uninstall) and install the packages of exactly {loaded}, without a kernel module",
        ]
        return _plan(BLOCKED, reason, ways_out=ways, target_version=loaded)
    if e["library_package"] is None:
        what = "recreate the container, after regenerating the CDI specification on the host where one is used"
        reason = (
            f"user space {user_space} does not come from packages of this container ({e['library_path']}), most likely "
            f"mounted from the host, whose module is {loaded}"
        )
        return _plan(HOST_ACTION, reason, host_action=what)
    reason = mixed_sources(e)
    if reason:
        return _plan(BLOCKED, reason, ways_out=["keep one source of the driver, then run this again"])
    return _plan(ALIGN, f"the host's module is {loaded}, the user space here {user_space}", target_version=loaded)


def _pending(e: t.Mapping[str, t.Any], wishes: Wishes) -> dict[str, t.Any]:
    """The module on disk and the user space agree; what is loaded is another one, or nothing."""
    loaded, wanted = e["loaded"], e["user_space"]
    what = f"module {loaded} is loaded" if loaded else "no module is loaded"
    reason = f"a reboot is pending: {what}, user space and the module on disk are {wanted}"
    plan = {"target_version": wanted, "reboot_required": True}
    if loaded and wishes.strategy == ALIGN:
        return _align(e, wishes, loaded)
    if e["loaded_flavour"] and e["next_boot_flavour"] and e["loaded_flavour"] != e["next_boot_flavour"]:
        reason += (
            f"; but the module on disk is {e['next_boot_flavour']} and the loaded one {e['loaded_flavour']}: a change of flavour "
            "is not made on the side (some GPUs work with one of them only)"
        )
        return _plan(
            BLOCKED, reason, ways_out=["install the module package of the flavour that this GPU needs"], **plan
        )
    reload_refused = ""
    if wishes.allow_reload:
        if differ(e["on_disk"], wanted) or not e["on_disk"]:
            reload_refused = f"; the module on disk for the running kernel is {e['on_disk']}, a reload would not help"
        elif e["holders"]:
            listed = "; ".join(describe_holder(holder) for holder in e["holders"])
            reload_refused = f"; the module cannot be reloaded while it is in use by {listed}"
        else:
            return _plan(RELOAD, reason, target_version=wanted, reboot_required=False)
    align = [_WAY_ALIGN] if loaded and _align(e, wishes, loaded)["action"] == ALIGN else []
    kernel = e["next_boot_kernel"]
    if loaded and e["next_boot_unchanged"]:
        # As it was at the last boot, which loaded another module all the same.
        reason += f"; but it was there before this boot, which loaded {loaded}: the initramfs of {kernel} most likely still holds that one"
        rebuild = (
            f"rebuild it (update-initramfs -u -k {kernel}, or dracut --force --kver {kernel}), then run this again"
        )
        ways = [rebuild, *([] if wishes.allow_reload else [_WAY_RELOAD]), *align]
        return _plan(BLOCKED, reason + reload_refused, ways_out=ways, **plan)
    if wishes.allow_reboot:
        if wishes.control_node:
            reason += reload_refused + "; this host runs Ansible itself and is never rebooted from here"
            return _plan(BLOCKED, reason, ways_out=["reboot it by hand", *align], **plan)
        return _plan(REBOOT, reason + reload_refused, **plan)
    ways = ([] if wishes.allow_reload else [_WAY_RELOAD]) + [_WAY_REBOOT] + align
    return _plan(BLOCKED, reason + reload_refused, ways_out=ways, **plan)


def _align(e: t.Mapping[str, t.Any], wishes: Wishes, target: str) -> dict[str, t.Any]:
    reason = mixed_sources(e)
    if reason is None and not e["library_package"]:
        reason = f"{e['library_path']} belongs to no package: the user space comes from the vendor's .run installer"
    if reason:
        return _plan(BLOCKED, reason, ways_out=["keep one source of the driver, its packages, then run this again"])
    if not e["next_boot"]:
        reason = (
            f"no nvidia module is on disk for kernel {e['next_boot_kernel']}, which boots next: the user space would match until "
            "then only"
        )
        way = (
            f"install or build module {target} for {e['next_boot_kernel']} (its headers and dkms), then run this again"
        )
        return _plan(BLOCKED, reason, ways_out=[way], target_version=target)
    if differ(e["next_boot"], target) and e["module_provider"] == "run":
        reason = f"the module on disk is {e['next_boot']} and comes from the vendor's .run installer: no package can bring it to {target}"
        return _plan(BLOCKED, reason, ways_out=["replace it by a packaged module", _WAY_REBOOT], target_version=target)
    what = f"loaded module {e['loaded']}, module on disk {e['next_boot']}, user space {e['user_space']}: bringing the packages to {target}"
    return _plan(ALIGN, what, target_version=target, reboot_required=differ(e["loaded"], target))


def _to_another_version(e: t.Mapping[str, t.Any], wishes: Wishes, target: str) -> dict[str, t.Any]:
    """A version was asked for that is not the loaded one."""
    if not differ(e["user_space"], target) and not differ(e["next_boot"], target) and e["next_boot"]:
        return _pending(e, wishes)
    reason = f"version {target} is asked for and module {e['loaded']} is loaded: it works only after a reboot"
    if wishes.strategy != ALIGN:
        return _plan(
            BLOCKED, reason, ways_out=[_WAY_ALIGN.replace("the loaded module's version", target)], target_version=target
        )
    if not wishes.allow_reboot:
        return _plan(BLOCKED, reason, ways_out=[_WAY_REBOOT], target_version=target)
    if wishes.control_node:
        reason += ", and this host runs Ansible itself and is never rebooted from here"
        return _plan(BLOCKED, reason, ways_out=["choose the loaded version"], target_version=target)
    return _align(e, wishes, target)


def decide(e: t.Mapping[str, t.Any], wishes: Wishes) -> dict[str, t.Any]:
    """The plan: {action, reason, target_version, ways_out, reboot_required, host_action}. Never raises on odd facts."""
    loaded, on_disk, user_space = e["loaded"], e["next_boot"], e["user_space"]
    if e["unfinished"] and not differ(e["unfinished"], loaded or e["unfinished"]):
        reason = f"an earlier change of the packages to {e['unfinished']} was cut off and is taken up again"
        return _plan(ALIGN, reason, target_version=e["unfinished"])
    if not container.has_own_kernel(e["container"]):
        return _in_container(e, wishes)
    if e["state"] == "no_gpu":
        return _plan(NONE, "no NVIDIA GPU, module or library was found")
    if user_space is None:
        reason = "no user-space library is installed" + (f"; module {loaded} is loaded" if loaded else "")
        return _plan(BLOCKED, reason, ways_out=[f"install the driver's packages{f' of {loaded}' if loaded else ''}"])
    if wishes.target_version and loaded and differ(loaded, wishes.target_version):
        return _to_another_version(e, wishes, wishes.target_version)
    if loaded is None:
        if on_disk is None:
            reason = f"no nvidia module is loaded, and none is on disk for kernel {e['next_boot_kernel']}"
            way = f"install or build module {user_space} for this kernel (its headers and dkms), then run this again"
            return _plan(BLOCKED, reason, ways_out=[way])
        if differ(on_disk, user_space):
            reason = f"no module is loaded; the one on disk is {on_disk}, the user space {user_space}"
            return _plan(BLOCKED, reason, ways_out=["bring one of the two to the other's version by its packages"])
        return _pending(e, wishes)
    if not differ(loaded, user_space):
        pending = differ(loaded, on_disk)
        if pending and wishes.strategy == ALIGN:
            return _align(e, wishes, loaded)
        reason = f"the loaded module and the user space are both {loaded}"
        if pending:
            reason += f"; the next boot loads {on_disk}"
        return _plan(NONE, reason, reboot_required=pending if on_disk else None)
    mixed = mixed_sources(e)
    if mixed:
        return _plan(BLOCKED, mixed, ways_out=["keep one source of the driver, then run this again"])
    if on_disk is None:
        return _align(e, wishes, loaded)
    if not differ(user_space, on_disk):
        return _pending(e, wishes)
    if not differ(loaded, on_disk):
        return _align(e, wishes, loaded)
    reason = f"three versions: module {loaded} is loaded, {on_disk} is on disk for the next boot, the user space is {user_space}"
    if wishes.target_version and wishes.strategy == ALIGN:
        return _align(e, wishes, wishes.target_version)
    way = f"set driver_strategy: align_userspace and driver_target_version: {loaded} to bring everything to the loaded version"
    return _plan(BLOCKED, reason, ways_out=[way, "finish the upgrade by hand and reboot"])


def announcement(made: t.Mapping[str, t.Any], holders: t.Sequence[t.Mapping[str, t.Any]]) -> list[str]:
    """What interrupts work on the GPUs, and whose: said before it is done. Empty for plans that interrupt nothing."""
    words = {RELOAD: "the kernel module is reloaded", REBOOT: "this host is rebooted"}.get(made["action"])
    if words is None:
        return []
    listed = [f"holds a GPU: {describe_holder(holder)}" for holder in holders]
    return [f"{words}: {made['reason']}", *(listed or ["no process holds a GPU"])]


def fabric_manager_warning(e: t.Mapping[str, t.Any]) -> str | None:
    """Fabric Manager takes no other version than the driver's own, not even another patch level of its branch."""
    if e["fabric_manager"] and e["loaded"] and differ(e["fabric_manager"], e["loaded"]):
        needed = (
            "this host has NVSwitch"
            if e["nvswitches"]
            else "no NVSwitch was seen, so it may not be needed (those of NVLink 5 are not on the PCI bus)"
        )
        return f"Fabric Manager is {e['fabric_manager']} and the loaded module {e['loaded']}: they must be equal ({needed})"
    return None
