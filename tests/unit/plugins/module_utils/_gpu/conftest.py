# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os

import pytest
from ansible_collections.inferlab.dflash.plugins.module_utils._gpu.host import Host, Result


class FixtureHost(Host):
    """A fixture root whose module files hold what modinfo prints."""

    def inspect(self, argv, path):
        return Result(0, self.read(path) or "", "")


@pytest.fixture
def make_root(tmp_path):
    """Lay out a root from {path: text} and {path: link target} and give the host that reads it."""

    def make(files, links=None):
        for path, text in files.items():
            target = tmp_path / path.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
        for path, target in (links or {}).items():
            link = tmp_path / path.lstrip("/")
            link.parent.mkdir(parents=True, exist_ok=True)
            os.symlink(target, link)
        return FixtureHost(str(tmp_path))

    return make
