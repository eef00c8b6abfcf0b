# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
import subprocess
import sys

from ansible_collections.inferlab.dflash.plugins.module_utils._instance import locking


def test_this_run_is_alive_and_the_same_as_itself():
    me = locking.owner()
    assert locking.same(me, locking.owner())
    assert not locking.is_dead(me)
    assert me["user"] in locking.describe(me, 90)
    assert "for 2 minutes" in locking.describe(me, 90)


def test_a_run_whose_process_is_gone_is_dead():
    child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    record = {**locking.owner(), "pid": child.pid, "started": locking._start_time(child.pid)}
    assert not locking.is_dead(record)
    child.communicate()
    assert locking.is_dead(record)


def test_a_reused_pid_is_not_the_old_run():
    assert locking.is_dead({**locking.owner(), "pid": os.getpid(), "started": "1"})


def test_another_control_node_is_never_called_dead():
    assert not locking.is_dead({**locking.owner(), "controller": "elsewhere/1", "pid": 1, "started": "1"})
    assert not locking.is_dead({})
    assert not locking.is_dead(None)


def test_a_run_in_another_container_of_the_control_node_is_neither_dead_nor_the_same():
    elsewhere = {**locking.owner(), "namespace": "pid:[1]", "started": "1"}
    assert not locking.is_dead(elsewhere)
    assert not locking.same({**locking.owner(), "namespace": "pid:[1]"}, locking.owner())


def test_a_controller_s_job_is_named():
    record = {"controller": "pod-7/", "user": "runner", "pid": 12, "job": "41"}
    assert locking.describe(record, 180) == "runner on pod-7 (pid 12, job 41), for 3 minutes"
