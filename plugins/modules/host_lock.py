#!/usr/bin/python
# Copyright 2026 inferlab.dflash contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: host_lock
short_description: Let one run at a time plan and deploy on a host
version_added: 1.0.0
description:
  - Keeps C(/run/dflash/plan.lock) with the run that holds it and since when. A second run is refused with the holder's name and age.
  - A lock whose run certainly ended (same control node, process gone) is taken over with a warning, and so is one older than
    O(stale_minutes). The lock is no part of the host's state, so taking it and giving it back is not reported as a change.
author:
  - inferlab.dflash contributors (@inferlab)
attributes:
  check_mode:
    support: full
    description: Looks whether the lock could be had, and takes nothing.
  diff_mode:
    support: none
    description: Nothing that lasts is changed.
options:
  state:
    description: Take the lock, give it back, or look at it.
    type: str
    choices: [acquired, released, read]
    default: acquired
  owner:
    description: The run that asks, from P(inferlab.dflash.lock_owner#filter).
    type: dict
    default: {}
  take_over:
    description: Take the lock from whoever has it.
    type: bool
    default: false
  stale_minutes:
    description: Age from which a lock counts as left behind.
    type: int
    default: 120
  path:
    description: The lock file.
    type: path
    default: /run/dflash/plan.lock
"""

EXAMPLES = r"""
- name: Keep other runs out
  inferlab.dflash.host_lock:
    owner: "{{ {} | inferlab.dflash.lock_owner }}"
"""

RETURN = r"""
record:
  description: The owner of the lock before this call; empty when it was free.
  returned: always
  type: dict
age_seconds:
  description: Age of that lock.
  returned: always
  type: float
"""

import contextlib
import fcntl
import json
import os
import time
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.inferlab.dflash.plugins.module_utils._instance import locking


@contextlib.contextmanager
def alone(folder: str, make: bool) -> t.Iterator[None]:
    """One process at a time looks and acts: without this two runs could take over the same abandoned lock."""
    if make:
        os.makedirs(folder, mode=0o755, exist_ok=True)
    elif not os.path.isdir(folder):
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def read(path: str) -> tuple[dict, float]:
    """Owner and age of the lock; a damaged file counts as a lock of an unknown owner."""
    try:
        age = time.time() - os.stat(path).st_mtime
        with open(path, encoding="utf-8") as stream:
            value = json.load(stream)
        return (value if isinstance(value, dict) else {"user": "somebody"}), age
    except FileNotFoundError:
        return {}, 0.0
    except ValueError:
        return {"user": "somebody"}, age


def write(path: str, owner: dict, exclusive: bool) -> None:
    temporary = f"{path}.{os.getpid()}"
    with open(temporary, "w", encoding="utf-8") as stream:
        json.dump(owner, stream)
    try:
        if exclusive:
            os.link(temporary, path)
        else:
            os.replace(temporary, path)
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)


def acquire(module: AnsibleModule, path: str, record: dict, age: float) -> None:
    owner = module.params["owner"]
    stale = age > module.params["stale_minutes"] * 60
    free = not record or locking.same(record, owner)
    if not free and not stale and not module.params["take_over"]:
        module.fail_json(
            msg=f"another run is at work on this host: {locking.describe(record, age)}. Wait for it; if you know that it ended (a cancelled "
            f"job leaves its lock), run again with dflash_break_lock: true. The lock is {path}; it is taken over by itself when it is "
            f"{module.params['stale_minutes']} minutes old.",
            record=record,
            age_seconds=age,
        )
    if not free:
        module.warn(f"took over the lock of a run that ended without giving it back: {locking.describe(record, age)}")
    if not module.check_mode:
        try:
            write(path, owner, exclusive=not record)
        except FileExistsError:
            module.fail_json(
                msg=f"another run took the lock {path} at this moment; run again later", record=record, age_seconds=age
            )


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["acquired", "released", "read"], "default": "acquired"},
            "owner": {"type": "dict", "default": {}},
            "take_over": {"type": "bool", "default": False},
            "stale_minutes": {"type": "int", "default": 120},
            "path": {"type": "path", "default": "/run/dflash/plan.lock"},
        },
        supports_check_mode=True,
    )
    path, state = module.params["path"], module.params["state"]
    try:
        with alone(os.path.dirname(path), make=state == "acquired" and not module.check_mode):
            record, age = read(path)
            if state == "acquired":
                acquire(module, path, record, age)
            elif state == "released" and locking.same(record, module.params["owner"]) and not module.check_mode:
                os.unlink(path)
    except OSError as error:
        module.fail_json(msg=f"{error.filename}: {error.strerror}")
    module.exit_json(changed=False, record=record, age_seconds=age)


if __name__ == "__main__":
    main()
