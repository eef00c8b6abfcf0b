# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a driver works after something was done to it. Private to this collection."""

from __future__ import annotations

import typing as t

from ansible_collections.inferlab.dflash.plugins.module_utils._gpu import container
from ansible_collections.inferlab.dflash.plugins.module_utils._gpu.state import differ


def judge(
    facts: t.Mapping[str, t.Any], nvml: t.Mapping[str, t.Any], cuda: t.Sequence[t.Mapping[str, t.Any]], deferred: bool
) -> dict[str, t.Any]:
    """{proved, falsified, reason} from the facts, NVML's start and the attempts to open a CUDA context.

    falsified: the versions agree now and it still does not work, so that they were not the cause. deferred: the loaded module
    changes only with a reboot, so that only what is on disk can be proved.
    """
    driver = facts["driver"]
    loaded, user_space, next_boot = (
        driver[key] for key in ("kernel_module_version", "user_space_version", "next_boot_module_version")
    )
    own = container.has_own_kernel(facts["identity"]["container"])
    if own and next_boot and user_space and differ(next_boot, user_space):
        reason = f"the module on disk for the next boot is {next_boot}, the user space {user_space}"
        return {"proved": False, "falsified": False, "reason": reason}
    if deferred:
        return {"proved": True, "falsified": False, "reason": "what is on disk agrees; the rest shows after the reboot"}
    if differ(loaded, user_space) or not loaded or not user_space:
        reason = f"the loaded module is {loaded}, the user space {user_space}"
        return {"proved": False, "falsified": False, "reason": reason}
    failure = None if nvml["ok"] else nvml["reason"]
    if failure is None:
        refused = [attempt for attempt in cuda if attempt["ok"] is False]
        if refused and not any(attempt["ok"] for attempt in cuda):
            failure = refused[0]["reason"]
    if failure:
        reason = f"the versions now match ({loaded}), still failing: {failure}. Look elsewhere: the versions were not the cause."
        return {"proved": False, "falsified": True, "reason": reason}
    opened = any(attempt["ok"] for attempt in cuda)
    words = "a CUDA context opens" if opened else "no CUDA context was tried or possible"
    return {
        "proved": True,
        "falsified": False,
        "reason": f"module and user space are {loaded}, NVML initialises, {words}",
    }
