# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.inferlab.dflash.plugins.module_utils._driver import dnf
from ansible_collections.inferlab.dflash.plugins.module_utils._gpu.host import Host

TABLE = """\
Last metadata expiration check: 0:00:01 ago on Mon Nov 30 14:44:55 2026.
Dependencies resolved.
================================================================================
 Package                     Arch       Version                 Repo       Size
================================================================================
Installing:
 nvidia-kmod-common          noarch     3:580.126.09-1.el9      local     6.0 k
Downgrading:
 nvidia-driver-cuda          x86_64     3:580.126.09-1.el9      local     6.0 k
 nvidia-driver-cuda-libs     x86_64     3:580.126.09-1.el9      local     6.0 k
Removing dependent packages:
 nvidia-driver               x86_64     3:580.159.03-1.el9      @local    1 M

Transaction Summary
================================================================================
Downgrade  2 Packages
 not-a-package               x86_64     1                       local     1 k
"""


def test_the_table_of_dnf():
    found = dnf.parse_simulation(TABLE)
    assert [(step["name"], step["architecture"], step["to"]) for step in found["installed"]] == [
        ("nvidia-kmod-common", "noarch", "3:580.126.09-1.el9"),
        ("nvidia-driver-cuda", "x86_64", "3:580.126.09-1.el9"),
        ("nvidia-driver-cuda-libs", "x86_64", "3:580.126.09-1.el9"),
    ]
    assert found["removed"] == ["nvidia-driver:x86_64"]


def test_full_names_with_epoch_in_one_command(tmp_path):
    change = {"name": "nvidia-driver-cuda", "architecture": "x86_64", "from": None, "path": None}
    changes = [{**change, "to": "3:580.126.09-1.el9"}, {**change, "name": "other", "to": "580.126.09-1.el9"}]
    words = dnf.Dnf(Host(), [], str(tmp_path / "log"), 10).command({"changes": changes})
    assert words[-3:] == ["install", "nvidia-driver-cuda-3:580.126.09-1.el9.x86_64", "other-0:580.126.09-1.el9.x86_64"]
    assert words[:2] == ["dnf", "--assumeyes"]
