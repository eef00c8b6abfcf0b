# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""host_lock: one run at a time, and what becomes of locks that were left behind."""

from __future__ import annotations

import json
import multiprocessing
import os
import time

import pytest
from ansible_collections.inferlab.dflash.plugins.modules import host_lock

MINE = {"controller": "here/1", "namespace": "pid:[1]", "user": "me", "pid": 10, "started": "100", "job": None}
THEIRS = {"controller": "pod-7/", "namespace": "pid:[2]", "user": "runner", "pid": 12, "started": "7", "job": "41"}


class Failed(Exception):
    pass


class Module:
    """The part of AnsibleModule that the functions under test use."""

    def __init__(self, path, check_mode=False, **params):
        self.params = {"owner": MINE, "take_over": False, "stale_minutes": 120, "path": str(path), **params}
        self.check_mode = check_mode
        self.warnings = []

    def fail_json(self, msg, **dummy):
        raise Failed(msg)

    def warn(self, text):
        self.warnings.append(text)


def take(path, **params):
    module = Module(path, **params)
    with host_lock.alone(str(path.parent), make=not module.check_mode):
        host_lock.acquire(module, str(path), *host_lock.read(str(path)))
    return module


@pytest.fixture
def lock(tmp_path):
    return tmp_path / "run" / "plan.lock"


def held(lock, record, minutes=3):
    lock.parent.mkdir()
    lock.write_text(record if isinstance(record, str) else json.dumps(record))
    then = time.time() - minutes * 60
    os.utime(lock, (then, then))


def test_a_free_lock_is_taken_and_the_same_run_may_take_it_again(lock):
    assert take(lock).warnings == []
    assert json.loads(lock.read_text()) == MINE
    assert take(lock).warnings == []
    assert [path.name for path in lock.parent.iterdir()] == ["plan.lock"]


def test_a_second_run_is_refused_with_holder_age_and_the_way_out(lock):
    held(lock, THEIRS)
    with pytest.raises(Failed) as failure:
        take(lock)
    for text in ("runner on pod-7 (pid 12, job 41), for 3 minutes", "dflash_break_lock", "120 minutes", str(lock)):
        assert text in str(failure.value)
    assert json.loads(lock.read_text()) == THEIRS


@pytest.mark.parametrize(("minutes", "params"), [(3, {"take_over": True}), (121, {}), (30, {"stale_minutes": 20})])
def test_an_old_lock_and_one_that_is_known_to_be_dead_are_taken_over_with_a_warning(lock, minutes, params):
    held(lock, THEIRS, minutes)
    module = take(lock, **params)
    assert "job 41" in module.warnings[0]
    assert json.loads(lock.read_text()) == MINE


def test_check_mode_takes_nothing_but_is_refused_as_well(lock):
    take(lock, check_mode=True)
    assert not lock.exists()
    held(lock, THEIRS)
    with pytest.raises(Failed):
        take(lock, check_mode=True)


def test_a_damaged_lock_belongs_to_somebody(lock):
    held(lock, "{", 1)
    with pytest.raises(Failed, match="somebody"):
        take(lock)


def test_two_runs_that_come_at_the_same_moment_do_not_both_get_it(lock):
    held(lock, THEIRS)
    with pytest.raises(Failed, match="at this moment"):
        host_lock.acquire(Module(lock), str(lock), {}, 0.0)


def attempt(lock, pid):
    try:
        take(lock, owner={**MINE, "pid": pid})
    except Failed:
        return False
    return True


def test_of_many_runs_exactly_one_takes_over_an_abandoned_lock(lock):
    held(lock, THEIRS, 121)
    with multiprocessing.get_context("fork").Pool(6) as pool:
        assert sum(pool.starmap(attempt, [(lock, pid) for pid in range(100, 106)])) == 1
