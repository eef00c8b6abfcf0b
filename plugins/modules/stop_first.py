#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: stop_first
short_description: Stop the units and processes that the operator listed, and start the units again
version_added: 1.0.0
description:
  - Ends exactly what is listed, such as a training job that holds a GPU. SIGTERM, then waiting; SIGKILL only with O(kill).
  - Proves that it is gone, that it stays gone for O(settle) seconds, and that the GPU memory it held is free.
  - What comes back is a failure that names who started it again.
  - Units with C(resume) are remembered on the host and started again by O(state=resumed), also by a later run.
author:
  - inferlab.dflash contributors (@inferlab)
options:
  stop:
    description:
      - What to stop. A string is a unit name with its suffix, or a command line as C(ps -eo args) shows it, whose end may be a C(*).
      - A mapping has C(unit) or C(command), and C(resume) for units.
    type: list
    elements: raw
    default: []
  state:
    description: V(stopped) stops what is listed, V(resumed) starts the remembered units again.
    type: str
    choices: [stopped, resumed]
    default: stopped
  grace:
    description: Seconds that each has to end after SIGTERM.
    type: int
    default: 60
  kill:
    description: Whether what does not end within O(grace) gets SIGKILL.
    type: bool
    default: false
  settle:
    description: Seconds to watch whether something comes back.
    type: int
    default: 3
  free_timeout:
    description: Seconds to wait until the GPU memory is free.
    type: int
    default: 30
  record:
    description: File on the host that remembers the units to start again.
    type: path
    default: /var/lib/dflash/stopped.json
attributes:
  check_mode:
    support: full
    description: Says what would be stopped or started, with pids and GPU memory.
  diff_mode:
    support: none
    description: What is stopped is in RV(stopped).
"""

EXAMPLES = r"""
- name: Make room
  inferlab.dflash.stop_first:
    stop:
      - unit: nightly-training.service
        resume: true
      - /srv/train/.venv/bin/python train.py *
    grace: 120

- name: Start the training again
  inferlab.dflash.stop_first:
    state: resumed
"""

RETURN = r"""
stopped:
  description: What was stopped, or would be.
  type: list
  elements: dict
  returned: always
  contains:
    what:
      description: The unit or command line of the list.
      type: str
    pids:
      description: The processes.
      type: list
      elements: int
    held_mib:
      description: GPU UUID to MiB that they held.
      type: dict
    killed:
      description: Whether SIGKILL was needed.
      type: bool
resumed:
  description: Units that were started again, or would be.
  type: list
  elements: str
  returned: always
absent:
  description: Entries of the list that mean nothing on this host.
  type: list
  elements: str
  returned: always
"""

import json
import os
import time
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.inferlab.dflash.plugins.module_utils._gpu.host import Host
from ansible_collections.inferlab.dflash.plugins.module_utils._stop import host as system
from ansible_collections.inferlab.dflash.plugins.module_utils._stop import listed

_DOWN = ("inactive", "failed", "")


class StopError(Exception):
    """Something listed could not be stopped, or came back; the text says what and by whom."""


def remembered(path: str) -> list[str]:
    """Units to start again."""
    try:
        with open(path, encoding="utf-8") as stream:
            return [str(unit) for unit in json.load(stream)["units"]]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def remember(path: str, units: t.Sequence[str]) -> None:
    """Write the record in one step, or remove it when nothing is left to start."""
    if not units:
        if os.path.exists(path):
            os.unlink(path)
        return
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    partial = f"{path}.new"
    with open(partial, "w", encoding="utf-8") as stream:
        json.dump({"units": sorted(set(units))}, stream)
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(partial, path)


def targets(host: Host, entries: t.Sequence[t.Mapping[str, t.Any]]) -> tuple[list[dict[str, t.Any]], list[str]]:
    """What the entries mean now: ``what, unit, pids`` (pid to start time) of each; and the entries that mean nothing."""
    everything = system.processes(host)
    spare = system.ancestors(everything)
    found, absent = [], []
    for entry in entries:
        if entry["unit"]:
            shown = system.show(host, entry["unit"])
            group = shown.get("ControlGroup")
            pids = [
                pid
                for pid, process in everything.items()
                if group and (process["cgroup"] == group or str(process["cgroup"]).startswith(group + "/"))
            ]
            active = shown.get("ActiveState", "") not in _DOWN
        else:
            pids, refused = listed.chosen(entry["command"], everything, spare)
            if refused:
                raise StopError(f"{entry['command']}: {'; '.join(refused)}")
            active = bool(pids)
        if spare & set(pids):
            raise StopError(f"{entry['unit'] or entry['command']} is what this very run depends on")
        what = entry["unit"] or entry["command"]
        if not active:
            absent.append(what)
            continue
        starts = {pid: everything[pid]["started"] for pid in pids}
        found.append({"what": what, "unit": entry["unit"], "resume": entry["resume"], "pids": starts})
    return found, absent


def stop_one(host: Host, target: t.Mapping[str, t.Any], grace: int, may_kill: bool) -> bool:
    """End one target; whether SIGKILL was needed. Raises StopError with what is left."""
    left, killed = system.end(host, target["pids"], grace, may_kill)
    if left:
        pids = ", ".join(str(pid) for pid in left)
        way_out = "" if may_kill else "; it was sent no SIGKILL, which needs kill: true (dflash_stop_first_kill)"
        raise StopError(f"{target['what']}: pid {pids} did not end within {grace} s after SIGTERM{way_out}")
    if target["unit"]:
        # All its processes are gone, so this only keeps systemd from starting it again.
        result = host.run(["systemctl", "stop", target["unit"]], timeout=grace + 30)
        if result.rc != 0:
            raise StopError(f"systemctl stop {target['unit']}: {result.reason or result.err.strip()}")
    return killed


def came_back(host: Host, entries: t.Sequence[t.Mapping[str, t.Any]]) -> list[str]:
    """Who started again what was stopped; empty when nothing came back."""
    back, _absent = targets(host, entries)
    everything = system.processes(host)
    said = []
    for target in back:
        if target["unit"]:
            who = listed.unit_restarter(system.show(host, target["unit"]))
            said.append(f"{target['what']} was started again by {who}")
        else:
            for pid in target["pids"]:
                said.append(f"{target['what']} runs again as pid {pid}, started by {listed.restarter(pid, everything)}")
    return said


def wait_free(host: Host, before: list[dict[str, t.Any]], held: t.Mapping[str, int], seconds: int) -> list[str]:
    """Wait until the memory that was held is free; the GPUs where it is not."""
    deadline = time.monotonic() + seconds
    while True:
        left = listed.still_held(before, system.gpus(host), held)
        if not left or time.monotonic() >= deadline:
            return left
        time.sleep(1)


def stop(module: AnsibleModule, host: Host, result: dict[str, t.Any]) -> None:
    """Stop what is listed; fills in ``result``."""
    params = module.params
    entries = [listed.check(entry) for entry in params["stop"]]
    found, result["absent"] = targets(host, entries)
    before = system.gpus(host) if found else []
    for target in found:
        held = listed.held(before, target["pids"])
        result["stopped"].append(
            {"what": target["what"], "pids": sorted(target["pids"]), "held_mib": held, "killed": False}
        )
    result["changed"] = bool(found)
    if module.check_mode or not found:
        return
    units = [target["unit"] for target in found if target["unit"] and target["resume"]]
    if units:
        # Before the first signal: a run that is cut off here must not leave the training forgotten.
        remember(params["record"], remembered(params["record"]) + units)
    for target, said in zip(found, result["stopped"]):
        said["killed"] = stop_one(host, target, params["grace"], params["kill"])
    time.sleep(params["settle"])
    back = came_back(host, entries)
    if back:
        raise StopError(f"{'; '.join(back)}. Stop that first, or list it too")
    total: dict[str, int] = {}
    for said in result["stopped"]:
        for uuid, mib in said["held_mib"].items():
            total[uuid] = total.get(uuid, 0) + mib
    left = wait_free(host, before, total, params["free_timeout"]) if total else []
    if left:
        raise StopError(f"what was stopped is gone, its GPU memory is not free: {'; '.join(left)}")


def resume(module: AnsibleModule, host: Host, result: dict[str, t.Any]) -> None:
    """Start the remembered units; fills in ``result``."""
    path = module.params["record"]
    units = remembered(path)
    result["resumed"] = [unit for unit in units if system.show(host, unit).get("ActiveState") != "active"]
    result["changed"] = bool(units)
    if module.check_mode:
        return
    for unit in units:
        answer = host.run(["systemctl", "start", unit])
        if answer.rc != 0:
            raise StopError(f"systemctl start {unit}: {answer.reason or answer.err.strip()}")
        remember(path, [other for other in remembered(path) if other != unit])


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "stop": {"type": "list", "elements": "raw", "default": []},
            "state": {"type": "str", "choices": ["stopped", "resumed"], "default": "stopped"},
            "grace": {"type": "int", "default": 60},
            "kill": {"type": "bool", "default": False},
            "settle": {"type": "int", "default": 3},
            "free_timeout": {"type": "int", "default": 30},
            "record": {"type": "path", "default": "/var/lib/dflash/stopped.json"},
        },
        supports_check_mode=True,
    )
    result: dict[str, t.Any] = {"changed": False, "stopped": [], "resumed": [], "absent": []}
    act = stop if module.params["state"] == "stopped" else resume
    try:
        act(module, Host(), result)
    except (StopError, ValueError, OSError) as exc:
        module.fail_json(msg=str(exc), **result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
