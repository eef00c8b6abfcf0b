# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import subprocess
import sys

import pytest
from ansible_collections.inferlab.dflash.plugins.module_utils._driver import locks

HOLD = "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.lockf(f, fcntl.LOCK_EX); print('held', flush=True); sys.stdin.read()"


@pytest.fixture
def held(tmp_path):
    path = tmp_path / "lock-frontend"
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    process.stdout.readline()
    yield str(path), process
    process.communicate()


def test_a_free_or_missing_lock_has_no_holder(tmp_path):
    path = tmp_path / "lock"
    assert locks.holder(str(path)) is None
    path.write_text("")
    assert locks.holder(str(path)) is None
    locks.wait(0, [str(path)])


def test_the_holder_is_named_and_its_lock_stays(held):
    path, process = held
    assert locks.holder(path)[0] == process.pid
    with pytest.raises(locks.Held, match=f"process {process.pid} \\(python") as caught:
        locks.wait(0.2, [path], interval=0.1)
    assert "do not remove the lock file" in str(caught.value)
    assert locks.holder(path)[0] == process.pid


def test_waiting_ends_when_the_lock_is_released(held):
    path, process = held
    process.communicate()
    locks.wait(30, [path], interval=0.1)
