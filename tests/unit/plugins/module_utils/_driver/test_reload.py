# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.inferlab.dflash.plugins.module_utils._driver import reload
from ansible_collections.inferlab.dflash.plugins.module_utils._gpu.host import Host, Result


def idle(*holders):
    return {"users": 0, "holders": list(holders)}


def test_dependents_go_first_and_come_last():
    modules = {
        "nvidia": idle("nvidia_uvm", "nvidia_modeset"),
        "nvidia_uvm": idle(),
        "nvidia_modeset": idle("nvidia_drm"),
    }
    modules["nvidia_drm"] = idle()
    steps = reload.steps(modules)
    assert steps["unload"] == ["nvidia_drm", "nvidia_modeset", "nvidia_uvm", "nvidia"]
    assert steps["load"] == ["nvidia", "nvidia_uvm", "nvidia_modeset", "nvidia_drm"]
    assert steps["obstacles"] == []


def test_nothing_loaded_is_only_loaded():
    assert reload.steps({}) == {"unload": [], "load": ["nvidia"], "obstacles": []}


def test_users_and_foreign_modules_are_obstacles():
    steps = reload.steps({"nvidia": {"users": 3, "holders": ["gdrdrv", "nvidia_uvm"]}, "nvidia_uvm": idle()})
    assert "nvidia is in use (3 open)" in steps["obstacles"]
    assert any("gdrdrv" in text for text in steps["obstacles"])


class Kernel(Host):
    """A kernel with modules, of which some refuse a command."""

    def __init__(self, modules, refuses=(), old_file=None):
        super().__init__("/")
        self.modules, self.refuses, self.old_file = list(modules), refuses, old_file
        self.done = []

    def exists(self, path):
        return path.rsplit("/", 1)[1] in self.modules

    def read(self, path):
        return "6.1.0\n"

    def glob(self, pattern):
        return [self.old_file] if self.old_file else []

    def run(self, argv, timeout=None):
        command, name = argv[0], argv[1].rsplit("/", 1)[-1].split(".")[0]
        if (command, name) in self.refuses:
            return Result(1, "", f"{command}: no")
        self.done.append(" ".join(argv))
        if command == "rmmod":
            self.modules.remove(name)
        else:
            self.modules.append(name)
        return Result(0, "", "")


STEPS = {"unload": ["nvidia_uvm", "nvidia"], "load": ["nvidia", "nvidia_uvm"]}


def test_unload_and_load():
    kernel = Kernel(["nvidia", "nvidia_uvm"])
    reload.carry_out(kernel, STEPS, "580.126.09")
    assert kernel.done == ["rmmod nvidia_uvm", "rmmod nvidia", "modprobe nvidia", "modprobe nvidia_uvm"]


def test_a_module_that_stays_brings_the_others_back():
    kernel = Kernel(["nvidia", "nvidia_uvm"], refuses=[("rmmod", "nvidia")])
    with pytest.raises(reload.Failed, match="Undone: loaded again nvidia_uvm"):
        reload.carry_out(kernel, STEPS, "580.126.09")
    assert sorted(kernel.modules) == ["nvidia", "nvidia_uvm"]


def test_a_module_that_does_not_load_gives_way_to_the_old_file():
    old = "/var/lib/dkms/nvidia/580.126.09/6.1.0/x86_64/module/nvidia.ko"
    kernel = Kernel(["nvidia", "nvidia_uvm"], refuses=[("modprobe", "nvidia")], old_file=old)
    with pytest.raises(reload.Failed, match=r"Undone: loaded again .*nvidia\.ko, nvidia_uvm"):
        reload.carry_out(kernel, STEPS, "580.126.09")
    assert f"insmod {old}" in kernel.done


def test_when_undoing_fails_it_says_so():
    kernel = Kernel(["nvidia", "nvidia_uvm"], refuses=[("modprobe", "nvidia")])
    with pytest.raises(reload.Failed, match="Undoing it failed too"):
        reload.carry_out(kernel, STEPS, "580.126.09")


def test_nothing_unloaded_is_nothing_to_undo():
    kernel = Kernel(["nvidia", "nvidia_uvm"], refuses=[("rmmod", "nvidia_uvm")])
    with pytest.raises(reload.Failed, match="Nothing had been unloaded"):
        reload.carry_out(kernel, STEPS, "580.126.09")
