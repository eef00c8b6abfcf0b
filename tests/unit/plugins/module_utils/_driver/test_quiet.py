# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time

import pytest
from ansible_collections.inferlab.dflash.plugins.module_utils._driver.quiet import Quiet


@pytest.fixture
def policy(tmp_path):
    return tmp_path / "policy-rc.d"


def ask(policy):
    return subprocess.run([str(policy), "foreign", "restart"], check=False).returncode


def guardian(policy):
    return int(re.search(r"owner: (\d+)", policy.read_text()).group(1))


def wait_until(condition):
    for _attempt in range(200):
        if condition():
            return True
        time.sleep(0.05)
    return False


def test_nothing_is_started_meanwhile_and_nothing_is_left(policy, tmp_path):
    with Quiet(str(policy), []):
        assert ask(policy) == 101
    assert list(tmp_path.iterdir()) == []


def test_the_hosts_own_policy_comes_back(policy, tmp_path):
    policy.write_text("#!/bin/sh\nexit 104\n")
    policy.chmod(0o755)
    with Quiet(str(policy), []):
        assert ask(policy) == 101
    assert ask(policy) == 104
    assert list(tmp_path.iterdir()) == [policy]


def test_it_comes_back_after_an_exception(policy):
    with pytest.raises(RuntimeError), Quiet(str(policy), []):
        raise RuntimeError
    assert not policy.exists()


CALLER = """
import os, subprocess, sys
from ansible_collections.inferlab.dflash.plugins.module_utils._driver.quiet import Quiet
with Quiet(sys.argv[1], []) as quiet:
    # What apt is to the module: a child that outlives it and holds the descriptor.
    child = subprocess.Popen(["sleep", "60"], pass_fds=quiet.descriptors)
    print(child.pid, flush=True)
    child.wait()
"""


@pytest.fixture
def caller(policy):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(
        [sys.executable, "-c", CALLER, str(policy)], stdout=subprocess.PIPE, text=True, env=environment
    )
    process.child = int(process.stdout.readline())
    yield process
    for pid in (process.pid, process.child):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()


def test_a_killed_caller_leaves_it_in_place_until_the_package_manager_ends(policy, caller):
    caller.kill()
    caller.wait()
    assert ask(policy) == 101
    os.kill(caller.child, signal.SIGKILL)
    assert wait_until(lambda: not policy.exists())


def test_without_its_guardian_it_puts_the_hosts_policy_back_by_itself(policy, caller, tmp_path):
    backup = tmp_path / "policy-rc.d.dflash-saved"
    backup.write_text("#!/bin/sh\nexit 104\n")
    backup.chmod(0o755)
    keeper = guardian(policy)
    for pid in (keeper, caller.pid, caller.child):
        os.kill(pid, signal.SIGKILL)
    caller.wait()
    assert wait_until(lambda: ask(policy) == 104)
    assert "exit 104" in policy.read_text() and not backup.exists()


def test_what_a_killed_run_left_is_not_taken_for_the_hosts_policy(policy, tmp_path):
    policy.write_text("#!/bin/sh\n# Placed by inferlab.dflash driver while driver packages change\nexit 101\n")
    with Quiet(str(policy), []):
        assert ask(policy) == 101
    assert list(tmp_path.iterdir()) == []


def test_a_system_without_policies_gets_none(tmp_path):
    with Quiet(None, []) as quiet:
        assert quiet.descriptors == []


def test_a_policy_that_cannot_be_written_is_an_error(tmp_path):
    with pytest.raises(OSError, match="cannot be written"), Quiet(str(tmp_path / "missing" / "policy-rc.d"), []):
        pass
