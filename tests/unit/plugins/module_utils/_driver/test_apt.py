# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re

import pytest
from ansible_collections.inferlab.dflash.plugins.module_utils._driver import apt, shell
from ansible_collections.inferlab.dflash.plugins.module_utils._gpu.host import Host, Result

OLD, NEW = "580.126.09", "580.159.03"

SHOW = f"""\
Package: libnvidia-compute-580
Architecture: amd64
Version: {OLD}-0ubuntu1
Filename: pool/libnvidia-compute-580_{OLD}-0ubuntu1_amd64.deb

Package: libnvidia-compute-580
Status: install ok installed
Architecture: amd64
Version: {NEW}-0ubuntu1

Package: linux-modules-nvidia-580-open-6.8.0-90-generic
Architecture: amd64
Version: 6.8.0-90.91+1
Depends: linux-image-6.8.0-90-generic, nvidia-kernel-common-580 (<= {OLD}-1), nvidia-kernel-common-580 (>= {OLD})
Filename: pool/x.deb
"""


class FakeHost(Host):
    """Answers of programs by the first words of their command line."""

    def __init__(self, answers):
        super().__init__("/")
        self.answers = answers
        self.asked = []

    def run(self, argv, timeout=None):
        self.asked.append(list(argv))
        for words, answer in self.answers.items():
            if " ".join(argv).startswith(words):
                return answer
        return Result(1, "", "not expected")


def backend(answers, tmp_path, deb_dirs=()):
    return apt.Apt(FakeHost(answers), deb_dirs, str(tmp_path / "log"), 10)


def test_offers_are_what_a_repository_still_has(tmp_path):
    found = backend({"apt-cache show": Result(0, SHOW, "")}, tmp_path).offers(["libnvidia-compute-580"])
    assert [(offer["name"], offer["version"], offer["driver_version"], offer["source"]) for offer in found] == [
        ("libnvidia-compute-580", f"{OLD}-0ubuntu1", OLD, "repository"),
        ("linux-modules-nvidia-580-open-6.8.0-90-generic", "6.8.0-90.91+1", OLD, "repository"),
    ]


def test_files_of_the_cache_and_of_a_directory_are_offers(tmp_path, monkeypatch):
    cache, given = tmp_path / "archives", tmp_path / "given"
    cache.mkdir()
    given.mkdir()
    (cache / f"libnvidia-compute-580_1%3a{OLD}-0ubuntu1_amd64.deb").write_text("")
    (cache / f"unrelated_{OLD}-0ubuntu1_amd64.deb").write_text("")
    (given / "renamed.deb").write_text("")
    monkeypatch.setattr(apt, "ARCHIVES", str(cache))
    fields = f"Package: nvidia-utils-580\nVersion: {OLD}-1\nArchitecture: amd64\n"
    made = backend({"dpkg-deb --field": Result(0, fields, "")}, tmp_path, [str(given)])
    found = made.offers(["libnvidia-compute-580", "nvidia-utils-580"])
    assert [(offer["name"], offer["version"], offer["source"], offer["driver_version"]) for offer in found] == [
        ("libnvidia-compute-580", f"1:{OLD}-0ubuntu1", "archive", OLD),
        ("nvidia-utils-580", f"{OLD}-1", "directory", OLD),
    ]
    assert found[1]["path"] == str(given / "renamed.deb")


SIMULATION = f"""\
NOTE: This is only a simulation!
Reading package lists...
The following packages will be DOWNGRADED:
  libnvidia-compute-580 nvidia-utils-580
Inst nvidia-utils-580 [{NEW}-0ubuntu1] ({OLD}-0ubuntu1 StubNVIDIA:stable [amd64]) []
Inst libnvidia-compute-580:i386 [{NEW}-0ubuntu1] ({OLD}-0ubuntu1 Ubuntu:24.04/noble-updates, Ubuntu:24.04/noble-security [i386])
Inst nvidia-firmware-580-{OLD} ({OLD}-0ubuntu1 local-deb [amd64])
Remv xserver-xorg [1.0]
Conf libnvidia-compute-580 ({OLD}-0ubuntu1 StubNVIDIA:stable [amd64])
"""


def test_the_simulation_is_read_to_the_letter():
    assert apt.parse_simulation(SIMULATION) == {
        "installed": [
            {
                "name": "nvidia-utils-580",
                "architecture": "amd64",
                "from": f"{NEW}-0ubuntu1",
                "to": f"{OLD}-0ubuntu1",
            },
            {
                "name": "libnvidia-compute-580",
                "architecture": "i386",
                "from": f"{NEW}-0ubuntu1",
                "to": f"{OLD}-0ubuntu1",
            },
            {"name": f"nvidia-firmware-580-{OLD}", "architecture": "amd64", "from": None, "to": f"{OLD}-0ubuntu1"},
        ],
        "removed": ["xserver-xorg"],
    }


def choice(path=None, architecture="amd64"):
    change = {
        "name": "libnvidia-compute-580",
        "architecture": architecture,
        "from": f"{NEW}-0ubuntu1",
        "to": f"{OLD}-0ubuntu1",
        "path": path,
        "replaces": None,
    }
    return {"changes": [change], "kept": [], "missing": []}


def test_one_command_for_the_whole_transaction(tmp_path):
    made = backend({}, tmp_path)
    words = made.command(choice())
    assert words[0] == "apt-get" and words[-2:] == ["install", f"libnvidia-compute-580:amd64={OLD}-0ubuntu1"]
    assert {"--allow-downgrades", "--allow-change-held-packages"} <= set(words)
    assert not any(word.startswith("--force") or "unauthenticated" in word for word in words)
    assert made.command(choice(architecture="all"))[-1] == f"libnvidia-compute-580={OLD}-0ubuntu1"
    assert made.command(choice("/srv/a.deb"))[-1] == "/srv/a.deb"


def test_apts_words_are_passed_on_when_it_finds_no_solution(tmp_path):
    made = backend(
        {"apt-get": Result(100, "", "E: Unable to correct problems, you have held broken packages.\n")}, tmp_path
    )
    with pytest.raises(shell.Failed, match="held broken packages"):
        made.simulate(choice())


def test_the_exclusion_names_each_package_and_nothing_else():
    text = apt.Apt.exclusion(["nvidia-utils-580", "nvidia-firmware-580-580.126.09", "libstdc++6"])
    patterns = re.findall(r'"(\^.*\$)"', text)
    assert len(patterns) == 3
    for name in ("nvidia-utils-580", "nvidia-firmware-580-580.126.09", "libstdc++6"):
        assert sum(bool(re.match(pattern, name)) for pattern in patterns) == 1
    for other in ("nvidia-utils-580-server", "nvidia-utils", "nvidia-firmware-580-580x126.09"):
        assert not any(re.match(pattern, other) for pattern in patterns)


def test_a_command_that_fails_says_what_it_said(tmp_path):
    log = tmp_path / "folder" / "log"
    with pytest.raises(shell.Failed, match=r"status 3: .*broken"):
        shell.act(["sh", "-c", "echo broken; exit 3"], str(log))
    shell.act(["sh", "-c", "echo $NEEDRESTART_SUSPEND $DEBIAN_FRONTEND"], str(log))
    assert log.read_text().splitlines()[-1] == "1 noninteractive"
