#!/usr/bin/python
# Copyright 2026 inferlab.dflash contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: dflash_history
short_description: Record what happened to an instance, for roll-back and for the memory of tried remedies
version_added: 1.0.0
description:
  - Adds one line to C(/var/lib/dflash/history.jsonl). A record equal to the newest one of the same instance is not added again, so that a
    second run changes nothing.
author:
  - inferlab.dflash contributors (@inferlab)
attributes:
  check_mode:
    support: full
    description: Predicts whether a line would be added.
  diff_mode:
    support: full
    description: Shows the line.
options:
  instance:
    description: Name of the instance.
    type: str
    required: true
  event:
    description: What happened.
    type: str
    choices: [ready, failed, rolled_back, remedy]
    required: true
  generation:
    description: Id of the generation concerned.
    type: str
  profile:
    description: Name of the profile that was tried.
    type: str
  code:
    description: Diagnosis code, for O(event=failed) and O(event=remedy).
    type: str
  cause:
    description: Finer cause of O(code).
    type: str
  remedy:
    description: What was done about O(code), for O(event=remedy).
    type: str
  root:
    description: Directory that stands for C(/), for fixtures and staged systems.
    type: path
    default: /
"""

EXAMPLES = r"""
- name: Remember that the generation served
  inferlab.dflash.dflash_history:
    instance: main
    event: ready
    generation: 3f0c2a91be77
"""

RETURN = r"""
entries:
  description: The instance's records, newest last, at most 50.
  returned: always
  type: list
  elements: dict
"""

import json

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.inferlab.dflash.plugins.module_utils._instance import act, store

KEYS = ("instance", "event", "generation", "profile", "code", "cause", "remedy")


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "instance": {"type": "str", "required": True},
            "event": {"type": "str", "choices": ["ready", "failed", "rolled_back", "remedy"], "required": True},
            "generation": {"type": "str"},
            "profile": {"type": "str"},
            "code": {"type": "str"},
            "cause": {"type": "str"},
            "remedy": {"type": "str"},
            "root": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
    )
    paths = store.Paths(module.params["instance"], module.params["root"])
    wanted = {key: module.params[key] for key in KEYS if module.params[key] is not None}
    entries = [entry for entry in store.read_history(paths.history) if entry.get("instance") == paths.name]
    newest = {key: value for key, value in entries[-1].items() if key in KEYS} if entries else {}
    changed = newest != wanted
    if changed and not module.check_mode:
        try:
            act.append_history(paths.history, wanted)
        except OSError as error:
            module.fail_json(msg=f"could not write {paths.history}: {error.strerror}")
    if changed:
        entries.append(wanted)
    line = json.dumps(wanted, sort_keys=True) + "\n"
    module.exit_json(
        changed=changed,
        entries=entries[-50:],
        diff={
            "before": "",
            "after": line if changed else "",
            "before_header": paths.history,
            "after_header": paths.history,
        },
    )


if __name__ == "__main__":
    main()
