# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The operator's list: what it may name, what it means, who brings things back."""

from __future__ import annotations

import pytest
from ansible_collections.inferlab.dflash.plugins.module_utils._stop import listed

PROCESSES = {
    1: {"argv": ["/sbin/init"], "ppid": 0, "unit": "init.scope", "guest": None},
    50: {"argv": ["supervisord", "-n"], "ppid": 1, "unit": "supervisor.service", "guest": None},
    60: {"argv": ["python", "train.py", "--lr", "1"], "ppid": 50, "unit": "supervisor.service", "guest": None},
    61: {"argv": ["python", "train.py", "--lr", "2"], "ppid": 1, "unit": "session-1.scope", "guest": None},
    62: {"argv": ["python", "train.py"], "ppid": 1, "unit": None, "guest": {"kind": "lxc", "id": "129"}},
    63: {"argv": [], "ppid": 2, "unit": None, "guest": None},
    64: {"argv": ["python", "trainer.py"], "ppid": 1, "unit": None, "guest": None},
}


def test_units_and_commands():
    assert listed.check("training.service") == {"unit": "training.service", "command": None, "resume": False}
    assert listed.check({"unit": "a@b.service", "resume": True})["resume"] is True
    assert listed.check("python train.py *") == {"unit": None, "command": "python train.py *", "resume": False}


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"unit": "training"}, "no unit name"),
        ({"unit": "train*.service"}, "no unit name"),
        ({"unit": "sshd.service"}, "depends on it"),
        ({"unit": "ssh@1.service"}, "depends on it"),
        ({"unit": "systemd-logind.service"}, "depends on it"),
        ({"unit": "dflash-main.service"}, "inferlab.dflash.stop"),
        ("python", "could hit other processes"),
        ("python *", "could hit other processes"),
        ("python * train.py", "could hit other processes"),
        ("*", "could hit other processes"),
        ({"command": "python train.py", "resume": True}, "cannot be resumed"),
        ({"unit": "a.service", "command": "x y"}, "either a unit or a command"),
        ({}, "either a unit or a command"),
        ({"unit": "a.service", "force": True}, "'force' is unknown"),
    ],
)
def test_refused(entry, words):
    with pytest.raises(ValueError, match=words):
        listed.check(entry)


@pytest.mark.parametrize(
    ("command", "argv", "same"),
    [
        ("python train.py", ["python", "train.py"], True),
        ("python train.py", ["python", "train.py", "--lr"], False),
        ("python train.py *", ["python", "train.py", "--lr"], True),
        ("python train.py *", ["python", "train.py"], True),
        ("python train.py *", ["python", "train.pyx"], False),
        ("python  train.py", ["python", "train.py"], True),
    ],
)
def test_command_lines(command, argv, same):
    assert listed.matches(command, argv) is same


def test_what_a_command_means():
    assert listed.chosen("python train.py *", PROCESSES) == (
        [60, 61],
        ["pid 62 runs in the lxc guest 129; list it on that host"],
    )
    assert listed.chosen("python train.py *", PROCESSES, spare={60})[0] == [61]


def test_who_brought_it_back():
    assert listed.restarter(60, PROCESSES) == "pid 50 supervisord -n (unit supervisor.service)"
    assert listed.restarter(61, PROCESSES) == "systemd, unit session-1.scope"
    assert listed.restarter(99, PROCESSES) == "a process that has ended"
    assert "Restart=always" in listed.unit_restarter({"Restart": "always"})
    assert "train.timer" in listed.unit_restarter({"Restart": "always", "TriggeredBy": "train.timer"})
    assert "anew" in listed.unit_restarter({"Restart": "no"})


def device(used, *processes):
    return {"index": 0, "uuid": "GPU-a", "memory_used_mib": used, "processes": [dict(p) for p in processes]}


def test_memory_that_was_held_and_is_free_again():
    before = [device(41000, {"pid": 60, "memory_mib": 40000}, {"pid": 7, "memory_mib": 900})]
    held = listed.held(before, {60})
    assert held == {"GPU-a": 40000}
    assert listed.still_held(before, [device(1000)], held) == []
    (left,) = listed.still_held(before, [device(30000)], held)
    assert "30000 MiB in use, 41000 before" in left


def test_unreadable_memory_is_not_judged():
    before = [device(None, {"pid": 60, "memory_mib": 40000})]
    assert listed.still_held(before, [device(None)], listed.held(before, {60})) == []
