# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One run from facts to record, on a pretended machine: a table of packages that a pretended package manager moves."""

from __future__ import annotations

import json

import pytest
from ansible_collections.inferlab.dflash.plugins.module_utils._driver import plan, reconcile, shell
from ansible_collections.inferlab.dflash.plugins.module_utils._driver.plan import Wishes
from ansible_collections.inferlab.dflash.plugins.module_utils._driver.reconcile import Options, Refused
from ansible_collections.inferlab.dflash.plugins.module_utils._gpu import parse
from ansible_collections.inferlab.dflash.plugins.module_utils._gpu.host import Host

OLD, NEW = "580.126.09", "580.159.03"
NAMES = ("libnvidia-compute-580", "nvidia-utils-580")


class Machine:
    """What is installed, held and excluded, and what happens when packages move."""

    def __init__(self, loaded=OLD, disk=OLD, user=NEW, container="none"):
        self.loaded, self.disk, self.container = loaded, disk, container
        self.installed = dict.fromkeys(NAMES, f"{user}-1")
        self.held: set[str] = set()
        self.exclusion = None
        self.offered = (f"{OLD}-1", f"{NEW}-1")
        self.simulated_removal: list[str] = []
        self.apply_fails = self.nvml_fails = False
        self.moves: list[dict[str, str]] = []

    def packages(self):
        return [
            {
                "name": name,
                "architecture": "amd64",
                "version": version,
                "driver_version": parse.package_driver_version(version),
                "state": "installed",
                "held": name in self.held,
            }
            for name, version in sorted(self.installed.items())
        ]

    def facts(self):
        user = parse.package_driver_version(self.installed["libnvidia-compute-580"])
        source = {"version": user, "package": "libnvidia-compute-580", "file": f"/usr/lib/libnvidia-ml.so.{user}"}
        return {
            "identity": {"container": self.container},
            "devices": [],
            "driver": {
                "state": "healthy" if user == self.loaded else "mismatch",
                "kernel_module_version": self.loaded,
                "module_flavour": "open",
                "on_disk_module_version": self.disk,
                "next_boot_module_version": self.disk,
                "next_boot_kernel": "6.1.0",
                "next_boot_module_flavour": "open",
                "module_provider": "dkms",
                "module_package": None,
                "user_space_version": user,
                "library_path": source["file"],
                "library_package": "libnvidia-compute-580",
                "library_sources": [source],
                "packages": self.packages(),
                "package_manager": "dpkg",
                "fabric_manager_version": None,
                "nvswitches": 0,
            },
        }


class Backend:
    name = "fake"
    policy = None
    exclusion_path = "/etc/exclusion"

    def __init__(self, machine):
        self.machine = machine

    def offers(self, names):
        return [
            {
                "name": name,
                "architecture": "amd64",
                "version": version,
                "driver_version": parse.package_driver_version(version),
                "source": "repository",
                "path": None,
            }
            for name in names
            for version in self.machine.offered
        ]

    def command(self, choice):
        return ["fake", *[change["name"] for change in choice["changes"]]]

    def simulate(self, choice):
        steps = [{key: change[key] for key in ("name", "architecture", "from", "to")} for change in choice["changes"]]
        return {"installed": steps, "removed": self.machine.simulated_removal}

    def refresh(self):
        self.machine.offered = (f"{OLD}-1", f"{NEW}-1")

    def finish_interrupted(self, quiet):
        pass

    def keep_copies(self, choice, directory):
        return []

    def apply(self, choice, quiet):
        for number, change in enumerate(choice["changes"]):
            if self.machine.apply_fails and number == 1:
                self.machine.apply_fails = False
                raise shell.Failed("apt-get ended with status 100: No space left on device")
            self.machine.installed[change["name"]] = change["to"]
        self.machine.moves.append({change["name"]: change["to"] for change in choice["changes"]})

    def set_holds(self, hold, release):
        self.machine.held |= set(hold)
        self.machine.held -= set(release)

    @staticmethod
    def exclusion(names):
        return " ".join(sorted(names))

    def read_exclusion(self):
        return self.machine.exclusion

    def write_exclusion(self, text):
        self.machine.exclusion = text


@pytest.fixture
def start(monkeypatch, tmp_path):
    """Make a run on a machine: start(machine, check_mode=..., options...)."""
    monkeypatch.setattr(reconcile.locks, "wait", lambda timeout: None)

    def make(machine, wishes=None, check_mode=False, **options):
        class Run(reconcile.Reconciler):
            def _gather(self):
                return machine.facts()

            def _backend(self):
                return Backend(machine)

        nvml = {"ok": not machine.nvml_fails, "reason": "nvmlInit: error 999, Unknown Error"}
        monkeypatch.setattr(reconcile.context, "initialise_nvml", lambda: nvml)
        monkeypatch.setattr(reconcile, "gpu_processes", lambda host, gathered: [])
        monkeypatch.setattr(
            reconcile.packages, "database", lambda host: type("Base", (), {"packages": staticmethod(machine.packages)})
        )
        return Run(Host(), wishes or Wishes(), Options(state_dir=str(tmp_path), **options), check_mode)

    return make


def entries(tmp_path):
    return json.loads((tmp_path / "driver.json").read_text())["entries"]


def test_the_whole_way_and_back(start, tmp_path):
    machine = Machine()
    shown = start(machine, check_mode=True).reconcile()
    assert shown["changed"] and machine.moves == [] and not (tmp_path / "driver.json").exists()

    done = start(machine).reconcile()
    assert done["changed"] and done["proof"]["proved"] and done["diff"] == shown["diff"]
    assert set(machine.installed.values()) == {f"{OLD}-1"} and machine.held == set(NAMES)
    assert entries(tmp_path)[-1]["state"] == "done"

    assert start(machine).reconcile()["changed"] is False

    back = start(machine).roll_back()
    assert back["changed"] and set(machine.installed.values()) == {f"{NEW}-1"}
    assert machine.held == set() and machine.exclusion is None
    assert entries(tmp_path)[-1]["state"] == "rolled_back"
    assert start(machine).roll_back()["changed"] is False


def test_copies_that_no_way_back_needs_are_removed(start, tmp_path):
    copies = tmp_path / "driver" / "debs"
    copies.mkdir(parents=True)
    for name in (f"nvidia-utils-580_{NEW}-1_amd64.deb", "nvidia-utils-580_575.57.08-1_amd64.deb"):
        (copies / name).write_text("")
    start(Machine()).reconcile()
    assert [path.name for path in copies.iterdir()] == [f"nvidia-utils-580_{NEW}-1_amd64.deb"]


def test_a_hold_of_before_is_there_again_after_the_roll_back(start):
    machine = Machine()
    machine.held, machine.exclusion = {"nvidia-utils-580"}, "mine"
    start(machine).reconcile()
    start(machine).roll_back()
    assert machine.held == {"nvidia-utils-580"} and machine.exclusion == "mine"


def test_without_holding_only_the_old_holds_are_kept(start):
    machine = Machine()
    machine.held = {"nvidia-utils-580"}
    start(machine, hold=False).reconcile()
    assert machine.held == {"nvidia-utils-580"} and machine.exclusion is None


def test_a_failing_proof_is_falsified_and_undone(start, tmp_path):
    machine = Machine()
    machine.nvml_fails = True
    with pytest.raises(Refused, match="still failing") as caught:
        start(machine).reconcile()
    assert caught.value.more == {"falsified": True, "rolled_back": True}
    assert set(machine.installed.values()) == {f"{NEW}-1"} and machine.held == set()
    assert entries(tmp_path)[-1]["state"] == "rolled_back" and entries(tmp_path)[-1]["falsified"] is True


def test_a_transaction_that_fails_half_way_is_undone(start, tmp_path):
    machine = Machine()
    machine.apply_fails = True
    with pytest.raises(Refused, match="No space left") as caught:
        start(machine).reconcile()
    assert caught.value.more == {"falsified": False, "rolled_back": True}
    assert set(machine.installed.values()) == {f"{NEW}-1"}


def test_a_run_that_was_cut_off_is_taken_up_and_remembers_the_first_state(start, tmp_path):
    machine = Machine()
    cut = start(machine)
    cut.record.begin(action=plan.ALIGN, target_version=OLD, before=cut._snapshot(Backend(machine)), pinned=[])
    machine.installed["libnvidia-compute-580"] = f"{OLD}-1"
    done = start(machine).reconcile()
    assert done["changed"] and "cut off" in done["plan"]["reason"]
    assert set(machine.installed.values()) == {f"{OLD}-1"} and len(entries(tmp_path)) == 1
    start(machine).roll_back()
    assert set(machine.installed.values()) == {f"{NEW}-1"}


def test_versions_that_cannot_be_had_block_with_those_that_can(start):
    machine = Machine()
    machine.offered = (f"{NEW}-1", "580.95.05-1")
    with pytest.raises(Refused, match=r"580\.159\.03-1, 580\.95\.05-1"):
        start(machine, update_cache=False).reconcile()
    assert machine.moves == []


def test_the_lists_are_refreshed_once_and_never_in_check_mode(start):
    machine = Machine()
    machine.offered = (f"{NEW}-1",)
    with pytest.raises(Refused):
        start(machine, check_mode=True).reconcile()
    assert start(machine).reconcile()["changed"]


def test_in_a_guest_what_cannot_be_had_is_the_hosts_matter(start):
    machine = Machine(container="lxc")
    machine.offered = ()
    run = start(machine, check_mode=True)
    with pytest.raises(Refused, match="On the host"):
        run.reconcile()
    assert run.result["plan"]["action"] == "host_action"


def test_a_transaction_that_removes_something_is_refused(start):
    machine = Machine()
    machine.simulated_removal = ["xserver-xorg"]
    for check_mode in (True, False):
        with pytest.raises(Refused, match="would remove xserver-xorg"):
            start(machine, check_mode=check_mode).reconcile()
    assert machine.moves == []


def test_a_lost_hold_is_set_again_but_not_for_packages_that_moved_on(start):
    machine = Machine()
    start(machine).reconcile()
    machine.held.discard("nvidia-utils-580")
    shown = start(machine, check_mode=True).reconcile()
    assert shown["changed"] and "nvidia-utils-580" not in machine.held
    assert start(machine).reconcile()["changed"] and "nvidia-utils-580" in machine.held
    machine.held.clear()
    machine.installed = dict.fromkeys(NAMES, f"{NEW}-1")
    machine.loaded = machine.disk = NEW
    assert start(machine).reconcile()["changed"] is False and machine.held == set()


def test_a_blocked_plan_changes_nothing_and_names_the_ways_out(start, tmp_path):
    machine = Machine(disk=NEW)
    with pytest.raises(Refused, match="driver_allow_reboot"):
        start(machine).reconcile()
    assert machine.moves == [] and not (tmp_path / "driver.json").exists()


def test_a_reboot_is_only_reported(start):
    machine = Machine(disk=NEW)
    done = start(machine, Wishes(allow_reboot=True)).reconcile()
    assert done["reboot_needed"] and not done["changed"] and machine.moves == []
    assert done["announcement"][0].startswith("this host is rebooted")
