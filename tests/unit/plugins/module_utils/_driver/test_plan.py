# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import itertools

import pytest
from ansible_collections.inferlab.dflash.plugins.module_utils._driver import plan
from ansible_collections.inferlab.dflash.plugins.module_utils._driver.plan import Wishes

A, B, C = "580.126.09", "580.159.03", "580.95.05"
ALIGN = Wishes(strategy="align_userspace")


def evidence(loaded=A, next_boot=A, user_space=B, container="none", **more):
    sources = [
        {"version": user_space, "package": "libnvidia-compute-580", "file": f"/usr/lib/libnvidia-ml.so.{user_space}"}
    ]
    return {
        "state": "mismatch",
        "container": container,
        "loaded": loaded,
        "loaded_flavour": "open",
        "on_disk": next_boot,
        "next_boot": next_boot,
        "next_boot_kernel": "6.1.0-30-amd64",
        "next_boot_flavour": "open",
        "module_provider": "dkms",
        "user_space": user_space,
        "library_path": f"/usr/lib/libnvidia-ml.so.{user_space}" if user_space else None,
        "library_package": "libnvidia-compute-580" if user_space else None,
        "library_mounted": None,
        "next_boot_unchanged": None,
        "library_sources": sources if user_space else [],
        "packages": [],
        "fabric_manager": None,
        "nvswitches": 0,
        "unfinished": None,
        "holders": [],
        **more,
    }


# The table of the design, a row a line: L, D, U, container, wishes -> action, target.
TABLE = [
    ("equal", A, A, A, "none", Wishes(), "none", None),
    ("equal, module on disk newer", A, B, A, "none", Wishes(), "none", None),
    ("equal, module on disk newer, align", A, B, A, "none", ALIGN, "align_userspace", A),
    ("equal, nothing on disk", A, None, A, "none", Wishes(), "none", None),
    ("shorter spelling is no mismatch", A, A, "580.126", "none", Wishes(), "none", None),
    ("pending", A, B, B, "none", Wishes(), "blocked", B),
    ("pending, reload", A, B, B, "none", Wishes(allow_reload=True), "reload_module", B),
    ("pending, reboot", A, B, B, "none", Wishes(allow_reboot=True), "reboot", B),
    ("pending, both", A, B, B, "none", Wishes(allow_reload=True, allow_reboot=True), "reload_module", B),
    ("pending, align", A, B, B, "none", ALIGN, "align_userspace", A),
    ("pending, control node", A, B, B, "none", Wishes(allow_reboot=True, control_node=True), "blocked", B),
    ("library newer", A, A, B, "none", Wishes(), "align_userspace", A),
    ("library older", B, B, A, "none", Wishes(), "align_userspace", B),
    (
        "third component only",
        "570.124.06",
        "570.124.06",
        "570.124.04",
        "none",
        Wishes(),
        "align_userspace",
        "570.124.06",
    ),
    ("all differ", A, B, C, "none", Wishes(), "blocked", None),
    ("all differ, align", A, B, C, "none", ALIGN, "blocked", None),
    ("all differ, align to a version", A, B, C, "none", ALIGN._replace(target_version=A), "align_userspace", A),
    ("nothing on disk", A, None, B, "none", Wishes(), "blocked", A),
    ("not loaded, rest equal", None, B, B, "none", Wishes(), "blocked", B),
    ("not loaded, rest equal, reload", None, B, B, "none", Wishes(allow_reload=True), "reload_module", B),
    ("not loaded, rest differs", None, A, B, "none", Wishes(allow_reboot=True), "blocked", None),
    ("not loaded, not on disk", None, None, B, "none", Wishes(allow_reboot=True), "blocked", None),
    ("no library", A, A, None, "none", Wishes(), "blocked", None),
    ("lxc", A, None, B, "lxc", Wishes(), "align_userspace", A),
    ("lxc, whatever is on disk", A, B, B, "lxc", Wishes(allow_reboot=True, allow_reload=True), "align_userspace", A),
    ("lxc equal", A, None, A, "lxc", Wishes(), "none", None),
    ("lxc, no module on the host", None, None, B, "lxc", Wishes(), "host_action", None),
    ("lxc, another version asked for", A, None, B, "lxc", ALIGN._replace(target_version=B), "host_action", B),
    ("lxc, no library", A, None, None, "lxc", Wishes(), "blocked", None),
    ("wsl", A, None, B, "wsl", Wishes(), "none", None),
    ("another version, not allowed", A, A, B, "none", Wishes(target_version=C), "blocked", C),
    ("another version, no reboot", A, A, B, "none", ALIGN._replace(target_version=C), "blocked", C),
    (
        "another version, reboot",
        *(A, A, B, "none"),
        Wishes(strategy="align_userspace", target_version=C, allow_reboot=True),
        "align_userspace",
        C,
    ),
    ("the loaded version asked for", A, A, B, "none", Wishes(target_version=A), "align_userspace", A),
    ("pending, the loaded version asked for", A, B, B, "none", Wishes(target_version=A), "blocked", B),
    ("healthy, another version asked for", A, A, A, "none", Wishes(target_version=C), "blocked", C),
    ("pending, its version asked for", A, B, B, "none", Wishes(target_version=B, allow_reboot=True), "reboot", B),
]


@pytest.mark.parametrize(("name", "loaded", "disk", "user", "kind", "wishes", "action", "target"), TABLE)
def test_the_table(name, loaded, disk, user, kind, wishes, action, target):
    made = plan.decide(evidence(loaded, disk, user, kind), wishes)
    assert (made["action"], made["target_version"]) == (action, target)


def states():
    versions = (None, A, B, C)
    flags = (False, True)
    strategies = ("auto", "align_userspace")
    return itertools.product(
        versions, versions, versions, ("none", "lxc", "docker", "wsl"), strategies, (None, A, C), flags, flags, flags
    )


def test_what_holds_over_every_state():
    count = 0
    for loaded, disk, user, kind, strategy, target, reload, reboot, control in states():
        wishes = Wishes(strategy, target, reload, reboot, control)
        made = plan.decide(evidence(loaded, disk, user, kind), wishes)
        where = (loaded, disk, user, kind, wishes, made)
        count += 1
        own = kind == "none"
        assert made["action"] in ("none", "align_userspace", "reload_module", "reboot", "host_action", "blocked"), where
        assert made["reason"], where
        # Dangerous steps are opted in, on a machine with its own kernel, and never taken on the control node.
        if made["action"] == "reload_module":
            assert reload and own and disk == user != loaded, where
        if made["action"] == "reboot":
            assert reboot and own and not control and disk == user != loaded, where
        if made["action"] == "host_action":
            assert not own and made["host_action"], where
        if made["action"] == "blocked":
            assert made["ways_out"], where
        if made["action"] == "align_userspace":
            goal = made["target_version"]
            assert user and goal in (loaded, target), where
            # The next boot is as sound as this one: the module on disk can be brought along.
            assert not own or disk, where
            # A healthy or reboot-pending machine is moved only on demand.
            if own and (loaded == user or disk == user):
                assert strategy == "align_userspace", where
            if goal != loaded:
                assert own and strategy == "align_userspace" and (reboot or len({loaded, disk, user}) == 3), where
        # Nothing to do is said only of a machine whose versions agree, or where nothing can disagree.
        if made["action"] == "none" and loaded and user and kind != "wsl":
            assert loaded == user, where
    assert count == 4**3 * 4 * 2 * 3 * 2**3


def source(version, package, name="libnvidia-ml"):
    return {"version": version, "package": package, "file": f"/usr/lib/{name}.so.{version}"}


@pytest.mark.parametrize(
    ("sources", "words"),
    [
        ([source("590.44.01", "libnvidia-compute"), source(A, "libnvidia-cfg1-580", "libnvidia-cfg")], "two branches"),
        ([source(B, "libnvidia-compute-580"), source(B, None, "libcuda")], "belongs to no package while others"),
        ([source(B, "libnvidia-compute-580"), source(B, "libnvidia-compute-580-server")], "two flavours"),
    ],
)
def test_mixed_sources_are_blocked_with_their_reason(sources, words):
    for disk in (A, B):
        made = plan.decide(evidence(A, disk, sources[0]["version"], library_sources=sources), Wishes(allow_reboot=True))
        assert made["action"] == "blocked" and words in made["reason"], made


def test_a_half_done_upgrade_inside_one_branch_is_not_mixed():
    sources = [source(B, "libnvidia-compute-580"), source(A, "libnvidia-cfg1-580", "libnvidia-cfg")]
    assert plan.decide(evidence(library_sources=sources), Wishes())["action"] == "align_userspace"


def test_the_run_installer_is_no_package_and_is_left_alone():
    facts = evidence(library_package=None, library_sources=[source(B, None)])
    made = plan.decide(facts, Wishes())
    assert made["action"] == "blocked" and ".run installer" in made["reason"]
    pending = evidence(A, B, B, library_package=None, library_sources=[source(B, None)])
    assert plan.decide(pending, Wishes(allow_reboot=True))["action"] == "reboot"


def test_a_module_of_the_run_installer_cannot_be_brought_along():
    made = plan.decide(evidence(A, B, A, module_provider="run"), ALIGN)
    assert made["action"] == "blocked" and ".run installer" in made["reason"]


def test_holders_block_a_reload_and_are_listed():
    holder = {
        "pid": 4242,
        "command": "python3 train.py",
        "user": "ada",
        "unit": "train.service",
        "guest": {"kind": "lxc", "id": "105"},
        "memory_mib": 56000,
    }
    made = plan.decide(evidence(A, B, B, holders=[holder]), Wishes(allow_reload=True))
    assert made["action"] == "blocked"
    for word in ("4242", "train.py", "ada", "train.service", "lxc 105", "56000 MiB"):
        assert word in made["reason"]
    assert (
        plan.decide(evidence(A, B, B, holders=[holder]), Wishes(allow_reload=True, allow_reboot=True))["action"]
        == "reboot"
    )


def test_a_reload_takes_the_module_of_the_running_kernel():
    made = plan.decide(evidence(A, B, B, on_disk=A), Wishes(allow_reload=True))
    assert made["action"] == "blocked" and "would not help" in made["reason"]


def test_a_change_of_flavour_is_not_made_on_the_side():
    made = plan.decide(evidence(A, B, B, next_boot_flavour="proprietary"), Wishes(allow_reboot=True, allow_reload=True))
    assert made["action"] == "blocked" and "flavour" in made["reason"]


def test_libraries_mounted_into_a_container_are_the_hosts():
    made = plan.decide(evidence(container="docker", library_package=None, library_sources=[source(B, None)]), Wishes())
    assert made["action"] == "host_action" and "CDI" in made["host_action"]


def test_a_run_installer_in_a_container_is_no_mount():
    made = plan.decide(
        evidence(container="lxc", library_package=None, library_mounted=False, library_sources=[source(B, None)]),
        Wishes(),
    )
    assert (made["action"], made["target_version"]) == ("blocked", A)
    assert "--no-kernel-module" in made["ways_out"][0] and A in made["ways_out"][0]
    assert "mounted" not in made["reason"] and not made["host_action"]


@pytest.mark.parametrize("wishes", [Wishes(), Wishes(allow_reboot=True), Wishes(allow_reboot=True, control_node=True)])
def test_a_reboot_that_would_load_the_old_module_again_is_not_made(wishes):
    made = plan.decide(evidence(A, B, B, next_boot_unchanged=True), wishes)
    assert made["action"] == "blocked" and "initramfs" in made["reason"]
    assert "update-initramfs" in made["ways_out"][0]
    assert not any("driver_allow_reboot" in way for way in made["ways_out"])
    assert plan.decide(evidence(A, B, B, next_boot_unchanged=False), Wishes(allow_reboot=True))["action"] == "reboot"


def test_a_reload_mends_it_without_a_reboot():
    assert (
        plan.decide(evidence(A, B, B, next_boot_unchanged=True), Wishes(allow_reload=True))["action"] == "reload_module"
    )


def test_no_way_out_is_named_that_would_be_refused():
    packaged = plan.decide(evidence(A, B, B), Wishes())
    unpackaged = plan.decide(evidence(A, B, B, library_package=None, library_sources=[source(B, None)]), Wishes())
    assert [any("align_userspace" in way for way in made["ways_out"]) for made in (packaged, unpackaged)] == [
        True,
        False,
    ]


def test_a_transaction_that_was_cut_off_is_taken_up_again():
    made = plan.decide(evidence(A, A, A, unfinished=A), Wishes())
    assert (made["action"], made["target_version"]) == ("align_userspace", A)
    assert plan.decide(evidence(B, B, B, unfinished=A), Wishes())["action"] == "none"


def test_a_host_without_gpu_is_left_alone():
    assert plan.decide(evidence(None, None, None, state="no_gpu"), Wishes())["action"] == "none"


@pytest.mark.parametrize(("version", "warned"), [(A, False), (B, True), (None, False)])
def test_fabric_manager_must_have_the_drivers_version(version, warned):
    warning = plan.fabric_manager_warning(evidence(A, A, A, fabric_manager=version, nvswitches=4))
    assert bool(warning) is warned
