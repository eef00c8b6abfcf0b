# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real processes of this test: seen, ended by SIGTERM, left alone without permission, killed with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from ansible_collections.inferlab.dflash.plugins.module_utils._gpu.host import Host
from ansible_collections.inferlab.dflash.plugins.module_utils._stop import host as system

STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('on', flush=True); time.sleep(600)"
)
WILLING = "import time; print('on', flush=True); time.sleep(600)"


@pytest.fixture()
def child():
    children = []

    def start(program):
        process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
        assert process.stdout.readline() == b"on\n"
        children.append(process)
        return {process.pid: system.processes(Host())[process.pid]["started"]}

    yield start
    for process in children:
        process.kill()
        process.wait()
        process.stdout.close()


def test_a_process_is_seen_as_it_is(child):
    (pid,) = child(WILLING)
    process = system.processes(Host())[pid]
    assert process["argv"] == [sys.executable, "-c", WILLING]
    assert process["ppid"] == os.getpid()
    assert process["guest"] is None


def test_a_willing_one_ends_on_sigterm(child):
    assert system.end(Host(), child(WILLING), grace=20, may_kill=False) == ({}, False)


def test_a_stubborn_one_is_left_without_permission_and_killed_with_it(child):
    wanted = child(STUBBORN)
    assert system.end(Host(), wanted, grace=0.3, may_kill=False) == (wanted, False)
    assert system.end(Host(), wanted, grace=0.3, may_kill=True) == ({}, True)


def test_a_pid_that_was_used_again_gets_no_signal(child):
    wanted = child(WILLING)
    (pid,) = wanted
    system.send(Host(), pid, "1", signal.SIGKILL)
    assert system.alive(Host(), pid, wanted[pid])


def test_this_run_and_what_is_above_it_are_known():
    above = system.ancestors(system.processes(Host()))
    assert {os.getpid(), os.getppid()} <= above
