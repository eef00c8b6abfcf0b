#!/usr/bin/python
# Copyright 2026 inferlab.dflash contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: dflash_instance
short_description: One served instance as unit, environment and release together
version_added: 1.0.0
description:
  - Keeps a systemd unit, its environment, its release link and a record together as a generation, and takes the host from the present
    generation to the wanted one, or back.
  - A unit is held against C(systemd-analyze verify) before anything is switched. Every file is written atomically and every step can be
    repeated, so that a run that was killed is completed by the next one.
  - Only the unit file itself is owned; drop-ins in C(dflash-NAME.service.d) are left alone and stay in force.
  - Whether the service answers is not this module's question, see M(inferlab.dflash.server_ready).
author:
  - inferlab.dflash contributors (@inferlab)
attributes:
  check_mode:
    support: full
    description: Predicts the same actions that a run takes.
  diff_mode:
    support: full
    description: Shows the unit and the environment before and after.
options:
  name:
    description: Name of the instance; the unit is C(dflash-NAME.service).
    type: str
    required: true
  state:
    description:
      - V(started) installs the generation described by O(unit), O(environment), O(release) and O(record) and starts it when it does not run.
      - V(stopped) stops the unit and disables it; files stay.
      - V(absent) stops it and removes unit, configuration and generations; releases and models stay.
      - V(rolled_back) goes back to the newest other generation that was ready. It needs no network. It fails when there is none.
    type: str
    choices: [started, stopped, absent, rolled_back]
    default: started
  unit:
    description: Text of the unit file. Required for O(state=started).
    type: str
  environment:
    description: Variables for the unit's EnvironmentFile, written with mode 0600. Secrets belong into O(api_key).
    type: dict
    default: {}
  release:
    description: Release directory that the instance runs from. Required for O(state=started).
    type: path
  record:
    description: What else belongs to the generation, such as profile, algorithm and models. A change makes a new generation and a restart.
    type: dict
    default: {}
  api_key:
    description: API key for the service's credential, written with mode 0600. Without it the key file is removed.
    type: str
  enabled:
    description: Whether the unit starts at boot.
    type: bool
    default: true
  keep:
    description: Number of generations kept, the present one included.
    type: int
    default: 5
  skip_known_failure:
    description:
      - With O(state=started), leave the host as it is when this very generation failed before, another one became ready in its place,
        serves now, and nothing happened to the instance since. RV(known_failure) then says what is known.
      - This keeps a second deployment of a degraded instance from stopping what serves.
    type: bool
    default: false
  gpu_containers:
    description: Containers on this host that use a GPU now. A daemon-reload can cut their GPU access.
    type: list
    elements: str
    default: []
  allow_daemon_reload:
    description: Permit a daemon-reload although O(gpu_containers) is not empty.
    type: bool
    default: false
  root:
    description: Directory that stands for C(/), for fixtures and staged systems.
    type: path
    default: /
"""

EXAMPLES = r"""
- name: Serve from a release
  inferlab.dflash.dflash_instance:
    name: main
    unit: "{{ lookup('ansible.builtin.template', 'dflash.service.j2') }}"
    environment: {CUDA_VISIBLE_DEVICES: GPU-00000000-0000-0000-0000-000000000001}
    release: /opt/dflash/releases/0123456789ab

- name: Go back to the generation that served before
  inferlab.dflash.dflash_instance:
    name: main
    state: rolled_back
"""

RETURN = r"""
actions:
  description: What was done, or would be done in check mode, in order.
  returned: always
  type: list
  elements: str
  sample: [write_generation, install_unit, daemon_reload, restart, record_active]
generation:
  description: Id of the generation that is in force after the run.
  returned: always
  type: str
  sample: 3f0c2a91be77
previous:
  description: Id of the generation that was in force before.
  returned: always
  type: str
  sample: 90ab44c1d2e3
unit:
  description: Name of the unit.
  returned: always
  type: str
  sample: dflash-main.service
record:
  description: Record of the generation in force.
  returned: always
  type: dict
known_failure:
  description: Why the wanted generation was not started, with O(skip_known_failure); null when it was, or is in force.
  returned: always
  type: dict
  sample: {code: nccl_unhandled_system_error, cause: null, time: '2026-11-30T14:09:36Z'}
"""

import os
import re

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.inferlab.dflash.plugins.module_utils._instance import act, generation, store, systemd_text

SHOW = "LoadState,ActiveState,UnitFileState,NeedDaemonReload,InvocationID"


def show_unit(module: AnsibleModule, unit: str) -> dict[str, str]:
    status, out, _err = module.run_command(["systemctl", "show", "--property", SHOW, unit])
    return dict(line.split("=", 1) for line in out.splitlines() if "=" in line) if status == 0 else {}


def wanted_generation(module: AnsibleModule, paths: store.Paths) -> dict:
    """The generation that the options describe, or the one that a roll-back goes to."""
    active = (store.read_json(paths.active) or {}).get("generation")
    if module.params["state"] == "rolled_back":
        history = store.read_history(paths.history)
        available = store.complete_generations(paths)
        target = generation.previous_ready(history, paths.name, active, available)
        found = store.read_generation(paths, target) if target else None
        if found is None:
            module.fail_json(
                msg=f"instance {paths.name!r} cannot be rolled back: no other generation of it was ever ready and is still on this host "
                f"(present: {active or 'none'}; kept: {', '.join(available) or 'none'}). Deploy the wanted version instead."
            )
        if module.params["root"] == "/" and not os.path.isdir(found["release"]):
            module.fail_json(
                msg=f"instance {paths.name!r} cannot be rolled back to generation {target}: its release {found['release']} is no longer "
                "on this host. Deploy that version again."
            )
        return {"id": target, "enabled": module.params["enabled"], **found}
    try:
        environment = systemd_text.environment_file(
            {key: str(value) for key, value in module.params["environment"].items()}
        )
    except ValueError as error:
        module.fail_json(msg=f"environment of instance {paths.name!r}: {error}")
    described = {
        "unit": module.params["unit"],
        "environment": environment,
        "release": module.params["release"],
        "record": module.params["record"],
    }
    return {"id": generation.generation_id(**described), "enabled": module.params["enabled"], **described}


def known_failure(module: AnsibleModule, paths: store.Paths, current: dict, wanted: dict | None) -> dict | None:
    """What is known of a start that is not worth repeating; None where the host is to be changed, or already as wanted."""
    if not module.params["skip_known_failure"] or module.params["state"] != "started" or wanted is None:
        return None
    if wanted["id"] == current["active"] or current["active_state"] != "active":
        return None
    return generation.known_failure(store.read_history(paths.history), paths.name, wanted["id"], current["active"])


def refuse_daemon_reload(module: AnsibleModule, actions: list[str]) -> None:
    containers = module.params["gpu_containers"]
    if "daemon_reload" in actions and containers and not module.params["allow_daemon_reload"]:
        module.fail_json(
            msg="the unit changes, which needs a systemctl daemon-reload, and that can cut the GPU access of containers running on this "
            f"host: {', '.join(containers)}. Stop them, or set dflash_allow_daemon_reload: true to accept it."
        )


def keep_key(module: AnsibleModule, paths: store.Paths) -> str | None:
    """A roll-back keeps the key that is there; otherwise the option decides."""
    return store.read_text(paths.api_key) if module.params["state"] == "rolled_back" else module.params["api_key"]


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["started", "stopped", "absent", "rolled_back"], "default": "started"},
            "unit": {"type": "str"},
            "environment": {"type": "dict", "default": {}},
            "release": {"type": "path"},
            "record": {"type": "dict", "default": {}},
            "api_key": {"type": "str", "no_log": True},
            "enabled": {"type": "bool", "default": True},
            "keep": {"type": "int", "default": 5},
            "skip_known_failure": {"type": "bool", "default": False},
            "gpu_containers": {"type": "list", "elements": "str", "default": []},
            "allow_daemon_reload": {"type": "bool", "default": False},
            "root": {"type": "path", "default": "/"},
        },
        required_if=[("state", "started", ["unit", "release"])],
        supports_check_mode=True,
    )
    name, state = module.params["name"], module.params["state"]
    if not re.match(r"^[a-z0-9][a-z0-9-]{0,40}$", name):
        module.fail_json(
            msg=f"instance name {name!r} is not usable in a unit name; use lower-case letters, digits and dashes, 41 at most"
        )
    paths = store.Paths(name, module.params["root"])
    show = show_unit(module, paths.unit_name)
    starting = state in ("started", "rolled_back")
    wanted = wanted_generation(module, paths) if starting else None
    key = keep_key(module, paths)
    current = store.read_current(paths, wanted["id"] if wanted else None, key, show)
    known = known_failure(module, paths, current, wanted)
    if known is not None:
        actions = []
    elif wanted is not None:
        actions = generation.plan_start(current, wanted)
    else:
        actions = generation.plan_stop(current) if state == "stopped" else generation.plan_absent(current)
    refuse_daemon_reload(module, actions)
    if actions and not module.check_mode:
        try:
            if wanted is not None:
                act.start(paths, actions, wanted, key, module.run_command)
                history = store.read_history(paths.history)
                act.prune(
                    paths,
                    set(generation.superseded(history, name, store.complete_generations(paths), module.params["keep"]))
                    - {wanted["id"]},
                )
            else:
                act.stop(paths, actions, module.run_command)
        except act.ActError as error:
            module.fail_json(msg=f"instance {name!r}: {error.step} failed: {error}", actions=actions)
        except OSError as error:
            module.fail_json(msg=f"instance {name!r}: {error.strerror}: {error.filename}", actions=actions)
    taken = wanted if known is None else None
    after = taken or ({"unit": None, "environment": None} if state == "absent" else current)
    module.exit_json(
        changed=bool(actions),
        actions=actions,
        generation=wanted["id"] if wanted else current["active"],
        previous=current["active"],
        unit=paths.unit_name,
        record=taken["record"] if taken else {},
        known_failure=known,
        diff=[
            {
                "before": current["unit"] or "",
                "after": after["unit"] or "",
                "before_header": paths.unit,
                "after_header": paths.unit,
            },
            {
                "before": current["environment"] or "",
                "after": after["environment"] or "",
                "before_header": paths.environment,
                "after_header": paths.environment,
            },
        ],
    )


if __name__ == "__main__":
    main()
