# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""driver_reconcile and driver_rollback: collect, decide, act, prove. Private to this collection."""

from __future__ import annotations

import glob
import os
import typing as t

from ansible_collections.inferlab.dflash.plugins.module_utils._driver import (
    apt,
    dnf,
    locks,
    plan,
    proof,
    record,
    reload,
    shell,
    transaction,
)
from ansible_collections.inferlab.dflash.plugins.module_utils._driver.quiet import Quiet
from ansible_collections.inferlab.dflash.plugins.module_utils._gpu import (
    container,
    context,
    facts,
    packages,
    processes,
)
from ansible_collections.inferlab.dflash.plugins.module_utils._gpu.host import Host
from ansible_collections.inferlab.dflash.plugins.module_utils._gpu.state import differ

_DEVICES = ("/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia-uvm")
_SUBSET = {"driver", "devices", "processes", "packages"}


class Options(t.NamedTuple):
    """How to act, as opposed to what is wished for."""

    deb_dir: str | None = None
    update_cache: bool = True
    hold: bool = True
    lock_timeout: float = 300.0
    stop_units: tuple[str, ...] = ()
    state_dir: str = "/var/lib/dflash"
    container: str | None = None


class Refused(Exception):
    """Nothing was changed, or everything was put back; the message says why. `more` goes into the module's result."""

    def __init__(self, message: str, **more: t.Any) -> None:
        super().__init__(message)
        self.more = more


def versions(gathered: t.Mapping[str, t.Any]) -> dict[str, str | None]:
    driver = gathered["driver"]
    return {
        "loaded": driver["kernel_module_version"],
        "next_boot": driver["next_boot_module_version"],
        "user_space": driver["user_space_version"],
    }


def gpu_processes(host: Host, gathered: t.Mapping[str, t.Any]) -> list[dict[str, t.Any]]:
    """Who holds a GPU: every process with a device file of the driver open, with the memory that NVML tells for it."""
    memory: dict[int, int] = {}
    for device in gathered["devices"]:
        for process in device["processes"] or ():
            memory[process["pid"]] = memory.get(process["pid"], 0) + (process["memory_mib"] or 0)
    found = {holder["pid"]: holder for holder in (processes.holders(host) if host.live else ())}
    for device in gathered["devices"]:
        for process in device["processes"] or ():
            found.setdefault(process["pid"], {**process, "devices": []})
    for pid, holder in found.items():
        holder["memory_mib"] = memory.get(pid)
    return [found[pid] for pid in sorted(found)]


class Reconciler:
    """One run on one host. Nothing is changed in check mode."""

    def __init__(self, host: Host, wishes: plan.Wishes, options: Options, check_mode: bool) -> None:
        self.host = host
        self.wishes = wishes
        self.options = options
        self.check_mode = check_mode
        self.record = record.Record(f"{options.state_dir}/driver.json")
        self.copies = f"{options.state_dir}/driver/debs"
        self.gathered = self._gather()
        self.result: dict[str, t.Any] = {
            "changed": False,
            "diff": [],
            "warnings": [],
            "reboot_needed": False,
            "versions": versions(self.gathered),
            "holders": [],
        }

    def _gather(self) -> dict[str, t.Any]:
        return facts.gather(self.host, set(_SUBSET), self.options.container)

    def _backend(self) -> apt.Apt | dnf.Dnf:
        log = f"{self.options.state_dir}/driver/transaction.log"
        directories = [self.copies, *([self.options.deb_dir] if self.options.deb_dir else [])]
        kind = self.gathered["driver"]["package_manager"]
        if kind == "dpkg":
            return apt.Apt(self.host, directories, log, self.options.lock_timeout)
        if kind == "rpm":
            return dnf.Dnf(self.host, directories, log, self.options.lock_timeout)
        raise Refused("neither dpkg nor rpm is on this host: there are no packages to move")

    # -- driver_reconcile ------------------------------------------------------------------------------------------

    def reconcile(self) -> dict[str, t.Any]:
        """Carry out the plan, or in check mode show it. Raises Refused when it cannot be carried out."""
        holders = gpu_processes(self.host, self.gathered)
        others = [holder for holder in holders if holder.get("unit") not in self.options.stop_units]
        entry = self.record.unfinished()
        unfinished = entry["target_version"] if entry and entry["action"] == plan.ALIGN else None
        evidence = plan.evidence(self.gathered, unfinished, others)
        made = plan.decide(evidence, self.wishes)
        self.result.update(plan=made, holders=holders, announcement=plan.announcement(made, holders))
        warning = plan.fabric_manager_warning(evidence)
        if warning:
            self.result["warnings"].append(warning)
        action = made["action"]
        if action in (plan.BLOCKED, plan.HOST_ACTION):
            raise Refused(self._sentence(made))
        if action == plan.NONE:
            self._keep_pinned()
        elif action == plan.ALIGN:
            self._align(made, entry if unfinished else None)
        elif action == plan.RELOAD:
            self._reload(made)
        else:
            self.result["reboot_needed"] = True
        return self.result

    @staticmethod
    def _sentence(made: t.Mapping[str, t.Any]) -> str:
        if made["action"] == plan.HOST_ACTION:
            return f"{made['reason']}. On the host: {made['host_action']}."
        return f"{made['reason']}. Ways out: {'; or '.join(made['ways_out'])}."

    def _block(self, made: dict[str, t.Any], reason: str, way: str) -> t.NoReturn:
        """The packages cannot be moved: for a container that is the host's matter, else the plan is blocked."""
        made["reason"] = reason
        if container.has_own_kernel(self.gathered["identity"]["container"]):
            made.update(action=plan.BLOCKED, ways_out=[way])
        else:
            made.update(
                action=plan.HOST_ACTION,
                host_action=f"bring its driver to {self.gathered['driver']['user_space_version']}, or here: {way}",
            )
        raise Refused(self._sentence(made))

    def _members(self, target: str) -> list[dict[str, t.Any]]:
        """The packages that move together: those that share a driver version with the libraries or with a module."""
        driver = self.gathered["driver"]
        found = list(driver["packages"])
        database = packages.database(self.host)
        if database and driver["module_provider"] == "prebuilt" and differ(driver["next_boot_module_version"], target):
            for package in database.packages():
                if package["name"] == driver["module_package"]:
                    found.append({**package, "driver_version": driver["next_boot_module_version"]})
        return found

    def _choose(self, backend: apt.Apt | dnf.Dnf, target: str) -> dict[str, t.Any]:
        members = self._members(target)
        names = {member["name"] for member in members}
        names |= {transaction.renamed(member["name"], member["driver_version"], target) for member in members}
        return transaction.choose(members, target, backend.offers(names))

    def _align(self, made: dict[str, t.Any], resumed: record.Entry | None) -> None:
        target = made["target_version"]
        backend = self._backend()
        choice = self._choose(backend, target)
        if choice["missing"] and self.options.update_cache and not self.check_mode:
            locks.wait(self.options.lock_timeout)
            backend.refresh()
            choice = self._choose(backend, target)
        if choice["missing"]:
            reason = (
                f"{made['reason']}; version {target} cannot be had of {transaction.describe_missing(choice['missing'])}"
            )
            way = f"make packages of {target} available: a repository, apt's cache, or a folder named by driver_deb_dir"
            self._block(made, reason, way)
        if self.check_mode:
            self._show(backend, choice, made)
            return
        self._carry_out(backend, choice, made, resumed)

    def _simulate(
        self, backend: apt.Apt | dnf.Dnf, choice: dict[str, t.Any], made: dict[str, t.Any]
    ) -> dict[str, t.Any]:
        if not choice["changes"]:
            return {"installed": [], "removed": []}
        try:
            simulated = backend.simulate(choice)
        except shell.Failed as error:
            self._block(
                made, f"{made['reason']}; {error}", "solve the conflict of packages by hand, then run this again"
            )
        own = container.has_own_kernel(self.gathered["identity"]["container"])
        against = transaction.objections(choice, simulated, made["target_version"], new_allowed=own)
        if against:
            reason = f"{made['reason']}; the transaction is refused because {'; '.join(against)}"
            self._block(made, reason, "solve this by hand, then run this again")
        return simulated

    def _names(self, choice: t.Mapping[str, t.Any]) -> list[str]:
        return sorted({entry["name"] for entry in [*choice["changes"], *choice["kept"]]})

    def _show(self, backend: apt.Apt | dnf.Dnf, choice: dict[str, t.Any], made: dict[str, t.Any]) -> None:
        """The transaction as a diff. An interrupted dpkg cannot simulate; then the plan stands for the simulation."""
        half = [package["name"] for package in self.gathered["driver"]["packages"] if package["state"] != "installed"]
        if half:
            self.result["warnings"].append(f"half installed, will be finished first: {', '.join(half)}")
            simulated: dict[str, t.Any] = {"installed": choice["changes"], "removed": []}
        else:
            simulated = self._simulate(backend, choice, made)
        self._describe(backend, choice, simulated)
        self.result.update(changed=True, reboot_needed=bool(made["reboot_required"]))

    def _describe(self, backend: apt.Apt | dnf.Dnf, choice: dict[str, t.Any], simulated: dict[str, t.Any]) -> None:
        self.result["transaction"] = {
            "command": backend.command(choice),
            "packages": simulated["installed"],
            "kept": [transaction.identity(package) for package in choice["kept"]],
        }
        self.result["diff"].append(transaction.diff(choice, simulated, self.options.hold))
        if self.options.hold:
            new = backend.exclusion(self._names(choice)) or ""
            old = backend.read_exclusion() or ""
            if new != old:
                self.result["diff"].append(
                    {
                        "before_header": backend.exclusion_path,
                        "after_header": backend.exclusion_path,
                        "before": old,
                        "after": new,
                    }
                )

    def _snapshot(self, backend: apt.Apt | dnf.Dnf) -> dict[str, t.Any]:
        keys = ("name", "architecture", "version", "held")
        return {
            "versions": versions(self.gathered),
            "packages": [{key: package[key] for key in keys} for package in self.gathered["driver"]["packages"]],
            "exclusion": backend.read_exclusion(),
        }

    def _carry_out(
        self,
        backend: apt.Apt | dnf.Dnf,
        choice: dict[str, t.Any],
        made: dict[str, t.Any],
        resumed: record.Entry | None,
    ) -> None:
        target = made["target_version"]
        locks.wait(self.options.lock_timeout)
        with Quiet(backend.policy) as quiet:
            backend.finish_interrupted(quiet)
            self.gathered = self._gather()
            choice = self._choose(backend, target)
            if choice["missing"]:
                self._block(
                    made, f"cannot be had: {transaction.describe_missing(choice['missing'])}", "make them available"
                )
            simulated = self._simulate(backend, choice, made)
            self._describe(backend, choice, simulated)
            entry = resumed or self.record.begin(
                action=plan.ALIGN, target_version=target, before=self._snapshot(backend), pinned=[]
            )
            lost = backend.keep_copies(choice, self.copies)
            if lost:
                words = "no package file of the present version is to be had, so that a way back needs one: "
                self.result["warnings"].append(words + ", ".join(lost))
            self.result["changed"] = True
            try:
                if choice["changes"]:
                    backend.apply(choice, quiet)
            except shell.Failed as error:
                self._give_up(backend, entry, str(error), False, quiet)
        self.gathered = self._gather()
        names = self._names(choice)
        pinned: list[str] = []
        if self.options.hold:
            pinned = names if self._pin(backend, names, backend.exclusion(names)) else []
        else:
            # What was on hold stays on hold: apt releases a hold when it moves the package.
            backend.set_holds([package["name"] for package in entry["before"]["packages"] if package["held"]], [])
        self.gathered = self._gather()
        verdict = self._prove(made)
        self.result["versions"] = versions(self.gathered)
        if not verdict["proved"]:
            with Quiet(backend.policy) as quiet:
                self._give_up(backend, entry, verdict["reason"], verdict["falsified"], quiet)
        self.record.finish(
            entry,
            record.DONE,
            after=self._snapshot(backend),
            pinned=pinned,
            proof=verdict["reason"],
        )
        self._prune_copies()
        self.result["reboot_needed"] = bool(made["reboot_required"])

    def _prune_copies(self) -> None:
        """Keep the package files that a roll-back of a standing entry would need; the record forgets old entries, and so do they."""
        needed = {
            (package["name"], package["version"].split(":", 1)[-1])
            for entry in self.record.entries
            if entry["state"] != record.ROLLED_BACK
            for package in entry.get("before", {}).get("packages", ())
        }
        for path in glob.glob(f"{self.copies}/*.*"):
            name = os.path.basename(path)
            if not any(
                name.startswith((f"{package}_", f"{package}-")) and version in name for package, version in needed
            ):
                os.unlink(path)

    def _prove(self, made: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        deferred = bool(made["reboot_required"]) and made["action"] == plan.ALIGN
        driver = self.gathered["driver"]
        half = [package["name"] for package in driver["packages"] if package["state"] != "installed"]
        if half:
            verdict = {"proved": False, "falsified": False, "reason": f"left half installed: {', '.join(half)}"}
        else:
            nvml: dict[str, t.Any] = {"ok": True}
            cuda: list[dict[str, t.Any]] = []
            if not deferred:
                nvml = context.initialise_nvml() if self.host.live else nvml
                cuda = self._cuda_attempts() if nvml["ok"] else []
            verdict = proof.judge(self.gathered, nvml, cuda, deferred)
            if verdict["falsified"]:
                verdict["reason"] += self._missing_devices()
        self.result["proof"] = verdict
        return verdict

    def _missing_devices(self) -> str:
        """In a container a driver of the right version fails without its device files, and they are its host's to give."""
        missing = [path for path in _DEVICES if not self.host.exists(path)]
        if container.has_own_kernel(self.gathered["identity"]["container"]) or not missing:
            return ""
        return f" The host of this container has to load the module and pass in {', '.join(missing)}."

    def _cuda_attempts(self) -> list[dict[str, t.Any]]:
        """Open a context on the emptiest GPU first, and on further ones only when the first cannot tell."""
        with_memory = [device for device in self.gathered["devices"] if device["uuid"]]
        attempts = []
        for device in sorted(with_memory, key=lambda entry: entry["memory_used_mib"] or 0):
            attempts.append({"uuid": device["uuid"], **context.open_context(device["uuid"])})
            if attempts[-1]["ok"]:
                break
        return attempts

    def _give_up(
        self, backend: apt.Apt | dnf.Dnf, entry: record.Entry, reason: str, falsified: bool, quiet: Quiet
    ) -> t.NoReturn:
        """Put the packages back and report the failure. The record keeps the attempt."""
        try:
            restored = self._restore(backend, entry, quiet)
            words = f"Rolled back: {restored}."
            state = record.ROLLED_BACK
        except (shell.Failed, Refused) as error:
            words = f"Rolling back failed too: {error} Run driver_rollback once its packages are available."
            state = record.DONE
        self.record.finish(entry, state, failure=reason, falsified=falsified)
        self.gathered = self._gather()
        self.result["versions"] = versions(self.gathered)
        raise Refused(f"{reason} {words}", falsified=falsified, rolled_back=state == record.ROLLED_BACK)

    def _restore(self, backend: apt.Apt | dnf.Dnf, entry: record.Entry, quiet: Quiet) -> str:
        before = entry["before"]
        backend.finish_interrupted(quiet)
        choice = self._restoring(backend, before)
        if choice["changes"]:
            simulated = backend.simulate(choice)
            if simulated["removed"]:
                raise Refused(f"it would remove {', '.join(simulated['removed'])}")
            backend.apply(choice, quiet)
        self._restore_pins(backend, entry)
        return ", ".join(f"{change['name']} {change['to']}" for change in choice["changes"]) or "no package had moved"

    def _restoring(self, backend: apt.Apt | dnf.Dnf, before: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        database = packages.database(self.host)
        installed = database.packages() if database else []
        choice = transaction.restore(
            before["packages"], installed, backend.offers(package["name"] for package in before["packages"])
        )
        if choice["missing"]:
            raise Refused(f"the former versions cannot be had: {transaction.describe_missing(choice['missing'])}.")
        return choice

    def _restore_pins(self, backend: apt.Apt | dnf.Dnf, entry: record.Entry) -> None:
        before = entry["before"]
        held = {package["name"] for package in before["packages"] if package["held"]}
        known = {package["name"] for package in before["packages"]} | set(entry.get("pinned") or ())
        try:
            backend.set_holds(held, known - held)
            backend.write_exclusion(before["exclusion"])
        except shell.Failed as error:
            self.result["warnings"].append(f"the former holds could not be set: {error}")

    def _keep_pinned(self) -> None:
        """Nothing to move. A hold or an exclusion of an earlier run that got lost since is set again."""
        entry = self.record.in_force(plan.ALIGN)
        if not entry or entry["state"] != record.DONE or not entry.get("pinned") or not self.options.hold:
            return
        now = {package["name"]: package for package in self.gathered["driver"]["packages"]}
        then = {package["name"]: package["version"] for package in entry["after"]["packages"]}
        pinned = [name for name in entry["pinned"] if name in now and now[name]["version"] == then.get(name)]
        if not pinned:
            return
        backend = self._backend()
        loose = [name for name in pinned if not now[name]["held"]]
        wanted, present = backend.exclusion(entry["pinned"]), backend.read_exclusion()
        if not loose and wanted == present:
            return
        self.result["changed"] = True
        self.result["diff"].append(
            {
                "before_header": "driver packages",
                "after_header": "driver packages",
                "before": "".join(f"{name}\n" for name in loose) + (present or ""),
                "after": "".join(f"{name} (hold)\n" for name in loose) + (wanted or ""),
            }
        )
        if not self.check_mode:
            locks.wait(self.options.lock_timeout)
            self._pin(backend, loose, wanted)

    def _pin(self, backend: apt.Apt | dnf.Dnf, names: t.Sequence[str], exclusion: str | None) -> bool:
        """Hold and exclude. A host that cannot hold packages (dnf without its plugin) is repaired all the same, with a warning."""
        try:
            backend.set_holds(names, [])
            backend.write_exclusion(exclusion)
        except shell.Failed as error:
            self.result["warnings"].append(f"the packages could not be put on hold: {error}")
            return False
        return True

    def _reload(self, made: dict[str, t.Any]) -> None:
        modules = reload.loaded(self.host)
        steps = reload.steps(modules)
        users = [name for name in modules if modules[name]["users"]]
        obstacles = [text for text in steps["obstacles"] if not (self.options.stop_units and users)]
        if obstacles:
            made.update(action=plan.BLOCKED, ways_out=[plan._WAY_REBOOT])
            made["reason"] += "; " + "; ".join(obstacles)
            raise Refused(self._sentence(made))
        commands = [f"rmmod {name}" for name in steps["unload"]] + [f"modprobe {name}" for name in steps["load"]]
        self.result["diff"].append(
            {
                "before_header": "loaded nvidia module",
                "after_header": "loaded nvidia module",
                "before": f"{self.result['versions']['loaded']}\n",
                "after": f"{made['target_version']}\n",
            }
        )
        self.result.update(changed=True, commands=commands)
        if self.check_mode:
            return
        entry = self.record.begin(
            action=plan.RELOAD, target_version=made["target_version"], before={"versions": self.result["versions"]}
        )
        stopped = [unit for unit in self.options.stop_units if self._systemctl("is-active", unit)]
        try:
            for unit in stopped:
                self._systemctl("stop", unit)
            steps = reload.steps(reload.loaded(self.host))
            if steps["obstacles"]:
                raise reload.Failed("; ".join(steps["obstacles"]))
            reload.carry_out(self.host, steps, self.result["versions"]["loaded"])
            self.gathered = self._gather()
            verdict = self._prove(made)
        except reload.Failed as error:
            self.record.finish(entry, record.ROLLED_BACK, failure=str(error))
            self.gathered = self._gather()
            self.result["versions"] = versions(self.gathered)
            raise Refused(str(error)) from error
        finally:
            for unit in stopped:
                self._systemctl("start", unit)
        self.result["versions"] = versions(self.gathered)
        self.record.finish(entry, record.DONE, after={"versions": versions(self.gathered)}, proof=verdict["reason"])
        if not verdict["proved"]:
            raise Refused(verdict["reason"], falsified=verdict["falsified"], rolled_back=False)

    def _systemctl(self, verb: str, unit: str) -> bool:
        return self.host.run(["systemctl", verb, unit], timeout=180).rc == 0

    # -- driver_rollback -------------------------------------------------------------------------------------------

    def roll_back(self) -> dict[str, t.Any]:
        """Take the packages, holds and the exclusion back to what they were before the last change that stands."""
        entry = self.record.in_force(plan.ALIGN)
        if entry is None:
            self.result["warnings"].append(
                f"{self.record.path} holds no change of the driver that could be rolled back"
            )
            return self.result
        backend = self._backend()
        choice = self._restoring(backend, entry["before"])
        simulated = {"installed": choice["changes"], "removed": []}
        half = [package["name"] for package in self.gathered["driver"]["packages"] if package["state"] != "installed"]
        if choice["changes"] and not half:
            simulated = backend.simulate(choice)
            if simulated["removed"]:
                raise Refused(f"the way back is refused because it would remove {', '.join(simulated['removed'])}")
        self.result.update(changed=True, rolled_back_to=entry["before"]["versions"])
        self.result["transaction"] = {
            "command": backend.command(choice),
            "packages": simulated["installed"],
            "kept": [transaction.identity(package) for package in choice["kept"]],
        }
        self._describe_way_back(backend, entry)
        if self.check_mode:
            return self.result
        locks.wait(self.options.lock_timeout)
        with Quiet(backend.policy) as quiet:
            self._restore(backend, entry, quiet)
        self.record.finish(entry, record.ROLLED_BACK)
        self.gathered = self._gather()
        self.result["versions"] = versions(self.gathered)
        return self.result

    def _describe_way_back(self, backend: apt.Apt | dnf.Dnf, entry: record.Entry) -> None:
        database = packages.database(self.host)
        installed = database.packages() if database else []
        shown = transaction.diff_back(entry["before"]["packages"], installed, entry.get("pinned") or ())
        self.result["diff"].append(shown)
        old, new = backend.read_exclusion() or "", entry["before"]["exclusion"] or ""
        if old != new:
            path = backend.exclusion_path
            self.result["diff"].append({"before_header": path, "after_header": path, "before": old, "after": new})
