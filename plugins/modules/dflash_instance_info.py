#!/usr/bin/python
# Copyright 2026 inferlab.dflash contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: dflash_instance_info
short_description: The instances on a host, and who listens on which port
version_added: 1.0.0
description:
  - Reads the records of the instances that M(inferlab.dflash.dflash_instance) keeps, the state of their units, the listening sockets with
    their holders, and the recent history.
author:
  - inferlab.dflash contributors (@inferlab)
attributes:
  check_mode:
    support: full
    description: Reads only.
  diff_mode:
    support: none
    description: Nothing is changed, so there is no difference to show.
options:
  root:
    description: Directory that stands for C(/), for fixtures and staged systems.
    type: path
    default: /
"""

EXAMPLES = r"""
- name: See what serves here
  inferlab.dflash.dflash_instance_info:
  register: here
"""

RETURN = r"""
instances:
  description: One entry an instance, from the record of its present generation.
  returned: always
  type: list
  elements: dict
  sample:
    - name: main
      unit: dflash-main.service
      active: true
      generation: 3f0c2a91be77
      release: /opt/dflash/releases/0123456789ab
      gpus: []
      port: 30000
      record: {profile: ddtree}
listening:
  description: Listening TCP sockets with C(port), C(address) and, where known, C(pid), C(command) and C(unit).
  returned: always
  type: list
  elements: dict
history:
  description: Records of C(history.jsonl), newest last, at most 200.
  returned: always
  type: list
  elements: dict
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.inferlab.dflash.plugins.module_utils._instance import store
from ansible_collections.inferlab.dflash.plugins.module_utils._survey.processes import collect_ports
from ansible_collections.inferlab.dflash.plugins.module_utils._survey.source import Source


def describe(module: AnsibleModule, name: str, root: str) -> dict:
    paths = store.Paths(name, root)
    active = (store.read_json(paths.active) or {}).get("generation")
    kept = store.read_generation(paths, active) if active else None
    record = kept["record"] if kept else {}
    status, out, _err = module.run_command(["systemctl", "is-active", paths.unit_name])
    return {
        "name": name,
        "unit": paths.unit_name,
        "active": status == 0 or out.strip() in ("activating", "reloading"),
        "generation": active,
        "release": kept["release"] if kept else None,
        "gpus": record.get("gpus") or [],
        "port": record.get("port"),
        "record": record,
    }


def main() -> None:
    module = AnsibleModule(argument_spec={"root": {"type": "path", "default": "/"}}, supports_check_mode=True)
    root = module.params["root"]
    folder = os.path.dirname(store.Paths("x", root).state)
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    instances = [describe(module, name, root) for name in names]
    module.exit_json(
        changed=False,
        instances=instances,
        listening=store.attribute_ports(collect_ports(Source(root), []), instances),
        history=store.read_history(store.Paths("x", root).history)[-200:],
    )


if __name__ == "__main__":
    main()
