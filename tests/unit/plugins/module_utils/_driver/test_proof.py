# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.inferlab.dflash.plugins.module_utils._driver import proof

A, B = "580.126.09", "580.159.03"
GOOD = {"ok": True, "reason": None}
BAD = {"ok": False, "reason": "cuInit: error 802, system not yet initialized"}
BUSY = {"ok": None, "reason": "busy"}


def facts(loaded=A, user=A, disk=A, container="none"):
    driver = {"kernel_module_version": loaded, "user_space_version": user, "next_boot_module_version": disk}
    return {"driver": driver, "identity": {"container": container}}


@pytest.mark.parametrize(
    ("given", "nvml", "cuda", "deferred", "proved", "falsified", "words"),
    [
        (facts(), GOOD, [GOOD], False, True, False, "a CUDA context opens"),
        (facts(), GOOD, [], False, True, False, "no CUDA context"),
        (facts(), GOOD, [BUSY, GOOD], False, True, False, "a CUDA context opens"),
        (facts(), GOOD, [BUSY], False, True, False, "no CUDA context"),
        (facts(), GOOD, [BAD, GOOD], False, True, False, "a CUDA context opens"),
        (facts(), GOOD, [BAD], False, False, True, "Look elsewhere"),
        (facts(), BAD, [], False, False, True, "still failing"),
        (facts(user=B, disk=B), BAD, [], False, False, False, "loaded module is"),
        (facts(disk=B), GOOD, [GOOD], False, False, False, "on disk for the next boot"),
        (facts(disk=B, container="lxc"), GOOD, [GOOD], False, True, False, "NVML initialises"),
        (facts(loaded=B), GOOD, [], True, True, False, "after the reboot"),
        (facts(loaded=None), GOOD, [], False, False, False, "loaded module is None"),
    ],
)
def test_judge(given, nvml, cuda, deferred, proved, falsified, words):
    verdict = proof.judge(given, nvml, cuda, deferred)
    assert (verdict["proved"], verdict["falsified"]) == (proved, falsified)
    assert words in verdict["reason"]
