# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.inferlab.dflash.plugins.module_utils._driver import transaction

OLD, NEW = "580.126.09", "580.159.03"


def package(name, version=f"{NEW}-0ubuntu0.24.04.1", driver=NEW, held=False, state="installed", arch="amd64"):
    return {
        "name": name,
        "architecture": arch,
        "version": version,
        "driver_version": driver,
        "held": held,
        "state": state,
    }


def offer(name, version, driver=OLD, source="repository", path=None, arch="amd64"):
    return {
        "name": name,
        "architecture": arch,
        "version": version,
        "driver_version": driver,
        "source": source,
        "path": path,
    }


def test_members_move_together_to_the_version_that_looks_like_the_installed_one():
    members = [
        package("libnvidia-compute-580"),
        package("libnvidia-compute-580", arch="i386"),
        package("nvidia-utils-580", held=True),
    ]
    offers = [offer("libnvidia-compute-580", f"{OLD}-1", arch=arch) for arch in ("amd64", "i386")]
    offers += [offer("libnvidia-compute-580", f"{OLD}-0ubuntu0.24.04.1", arch=arch) for arch in ("amd64", "i386")]
    offers += [offer("nvidia-utils-580", f"{OLD}-1")]
    choice = transaction.choose(members, OLD, offers)
    assert [(change["name"], change["architecture"], change["to"]) for change in choice["changes"]] == [
        ("libnvidia-compute-580", "amd64", f"{OLD}-0ubuntu0.24.04.1"),
        ("libnvidia-compute-580", "i386", f"{OLD}-0ubuntu0.24.04.1"),
        ("nvidia-utils-580", "amd64", f"{OLD}-1"),
    ]
    assert [change["held"] for change in choice["changes"]] == [False, False, True]
    assert choice["missing"] == []


def test_the_repository_comes_before_the_cache_and_the_cache_before_a_directory():
    version = f"{OLD}-0ubuntu0.24.04.1"
    offers = [
        offer("a", version, source="directory", path="/srv/a.deb"),
        offer("a", version, source="archive", path="/var/cache/apt/archives/a.deb"),
        offer("a", version),
    ]
    assert transaction.choose([package("a")], OLD, offers)["changes"][0]["source"] == "repository"
    assert transaction.choose([package("a")], OLD, offers[:2])["changes"][0]["path"] == "/var/cache/apt/archives/a.deb"


def test_a_name_that_carries_the_version_is_replaced_and_the_old_one_stays():
    members = [package(f"nvidia-firmware-580-{NEW}")]
    choice = transaction.choose(members, OLD, [offer(f"nvidia-firmware-580-{OLD}", f"{OLD}-0ubuntu0.24.04.1")])
    assert choice["changes"][0]["name"] == f"nvidia-firmware-580-{OLD}"
    assert choice["changes"][0]["from"] is None
    there = [*members, package(f"nvidia-firmware-580-{OLD}", f"{OLD}-0ubuntu0.24.04.1", OLD)]
    again = transaction.choose(there, OLD, [])
    assert again["changes"] == [] and again["missing"] == []
    assert [entry["name"] for entry in again["kept"]] == [f"nvidia-firmware-580-{OLD}"]


def test_missing_versions_are_listed_with_what_can_be_had():
    offers = [
        offer("nvidia-utils-580", f"{NEW}-0ubuntu1", NEW),
        offer("nvidia-utils-580", "580.95.05-0ubuntu1", "580.95.05"),
    ]
    choice = transaction.choose([package("nvidia-utils-580"), package("libnvidia-compute")], OLD, offers)
    assert choice["changes"] == []
    text = transaction.describe_missing(choice["missing"])
    assert text == (
        f"nvidia-utils-580:amd64 (can be had: {NEW}-0ubuntu1, 580.95.05-0ubuntu1); libnvidia-compute:amd64 (can be had: none)"
    )


CHOICE = {
    "changes": [
        {"name": "a", "architecture": "amd64", "from": f"{NEW}-1", "to": f"{OLD}-1", "held": True, "replaces": None},
    ],
    "kept": [package("b", f"{OLD}-1", OLD)],
    "missing": [],
}
STEP = {"name": "a", "architecture": "amd64", "from": f"{NEW}-1", "to": f"{OLD}-1"}


def step(name, old, new):
    return {"name": name, "architecture": "amd64", "from": old, "to": new}


@pytest.mark.parametrize(
    ("removed", "more", "new_allowed", "words"),
    [
        ([], [], True, []),
        (["xserver:amd64"], [], True, ["would remove xserver:amd64"]),
        ([], [step("libc6", "2.36", "2.37")], True, ["also change libc6:amd64"]),
        ([], [step("c", f"{NEW}-1", f"{OLD}-1")], True, []),
        ([], [step("firmware", None, f"{OLD}-1")], True, []),
        ([], [step("firmware", None, f"{OLD}-1")], False, ["also install firmware:amd64"]),
        ([], [step("dkms", None, "3.0")], True, ["also install dkms:amd64"]),
    ],
)
def test_objections(removed, more, new_allowed, words):
    found = transaction.objections(CHOICE, {"removed": removed, "installed": [STEP, *more]}, OLD, new_allowed)
    assert len(found) == len(words)
    assert all(word in text for word, text in zip(words, found))


def test_a_transaction_that_leaves_a_package_out_or_takes_another_version_is_refused():
    assert transaction.objections(CHOICE, {"removed": [], "installed": []}, OLD, True) == ["it would not touch a:amd64"]
    other = {**STEP, "to": f"{OLD}-2"}
    assert "not to" in transaction.objections(CHOICE, {"removed": [], "installed": [other]}, OLD, True)[0]


def test_the_diff_names_versions_and_holds():
    shown = transaction.diff(CHOICE, {"removed": [], "installed": [STEP]}, hold=True)
    assert shown["before"] == f"a:amd64 {NEW}-1 (hold)\nb:amd64 {OLD}-1\n"
    assert shown["after"] == f"a:amd64 {OLD}-1 (hold)\nb:amd64 {OLD}-1 (hold)\n"


def test_restore_goes_back_to_the_very_versions_of_the_record():
    recorded = [
        {"name": "a", "architecture": "amd64", "version": f"{NEW}-0ubuntu1"},
        {"name": "b", "architecture": "amd64", "version": f"{NEW}-0ubuntu1"},
        {"name": "c", "architecture": "amd64", "version": f"{NEW}-0ubuntu1"},
    ]
    installed = [
        package("a", f"{OLD}-0ubuntu1", OLD),
        package("b", f"{NEW}-0ubuntu1"),
        package("c", f"{NEW}-0ubuntu1", state="half-configured"),
    ]
    offers = [
        offer("a", f"{NEW}-0ubuntu1", NEW, "directory", "/x/a.deb"),
        offer("c", f"{NEW}-0ubuntu2", NEW),
    ]
    choice = transaction.restore(recorded, installed, offers)
    assert [(change["name"], change["from"], change["to"], change["path"]) for change in choice["changes"]] == [
        ("a", f"{OLD}-0ubuntu1", f"{NEW}-0ubuntu1", "/x/a.deb")
    ]
    assert [entry["name"] for entry in choice["kept"]] == ["b"]
    assert choice["missing"] == [{"name": "c", "architecture": "amd64", "can_be_had": [f"{NEW}-0ubuntu2"]}]


def test_the_way_back_shows_what_differs_from_the_record():
    recorded = [
        {"name": "a", "architecture": "amd64", "version": f"{NEW}-1", "held": False},
        {"name": "b", "architecture": "amd64", "version": f"{OLD}-1", "held": True},
    ]
    installed = [
        package("a", f"{OLD}-1", OLD, held=True),
        package("b", f"{OLD}-1", OLD, held=True),
        package(f"firmware-{OLD}", f"{OLD}-1", OLD, held=True),
        package("other", "1.0", None, held=True),
    ]
    shown = transaction.diff_back(recorded, installed, ["a", "b", f"firmware-{OLD}"])
    assert shown["before"] == f"a:amd64 {OLD}-1 (hold)\nfirmware-{OLD}:amd64 {OLD}-1 (hold)\n"
    assert shown["after"] == f"a:amd64 {NEW}-1\nfirmware-{OLD}:amd64 {OLD}-1\n"
