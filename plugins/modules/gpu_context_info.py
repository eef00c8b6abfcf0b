#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_context_info
short_description: Find GPUs on which no CUDA context can be opened
version_added: 1.0.0
description:
  - Opens a CUDA context on each of the given GPUs and closes it again. A GPU that has fallen off its bus or hangs is often
    listed by every tool as if nothing had happened; this is what finds it.
  - Each context is opened by a child process with a time limit, so that a hanging driver does not hang the play. It needs
    some hundred MiB of the GPU for a moment. GPUs that are not named are not touched.
author:
  - inferlab.dflash contributors (@inferlab)
options:
  uuids:
    description: UUIDs of the GPUs to try.
    type: list
    elements: str
    required: true
  timeout:
    description: Seconds for one GPU.
    type: int
    default: 30
attributes:
  check_mode:
    support: full
    description: Can run in check mode without changing anything; it never changes anything.
  diff_mode:
    support: none
    description: Nothing is changed, so there is no difference to show.
"""

EXAMPLES = r"""
- name: Try the planned GPUs
  inferlab.dflash.gpu_context_info:
    uuids: "{{ plan | map(attribute='gpus') | flatten }}"
  register: tried

- name: Plan again without the dead ones
  ansible.builtin.set_fact:
    plan: "{{ wishes | inferlab.dflash.plan_instances(ansible_facts['gpu'], dead=tried.dead) }}"
  when: tried.dead | length > 0
"""

RETURN = r"""
dead:
  description: UUID to reason of the GPUs on which a context could not be opened.
  type: dict
  returned: always
  sample: {"GPU-00000001-0000-4000-8000-000000000000": "cuInit: error 999, unknown error"}
unknown:
  description: UUID to reason of the GPUs about which nothing can be said, such as without a CUDA library.
  type: dict
  returned: always
opened:
  description: UUIDs on which a context was opened.
  type: list
  elements: str
  returned: always
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.inferlab.dflash.plugins.module_utils._gpu.context import open_context


def sort_answers(answers: t.Mapping[str, t.Mapping[str, t.Any]]) -> dict[str, t.Any]:
    """``dead``, ``unknown`` and ``opened`` from the answer of each GPU."""
    return {
        "dead": {uuid: str(answer["reason"]) for uuid, answer in answers.items() if answer["ok"] is False},
        "unknown": {uuid: str(answer["reason"]) for uuid, answer in answers.items() if answer["ok"] is None},
        "opened": [uuid for uuid, answer in answers.items() if answer["ok"]],
    }


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "uuids": {"type": "list", "elements": "str", "required": True},
            "timeout": {"type": "int", "default": 30},
        },
        supports_check_mode=True,
    )
    timeout = float(module.params["timeout"])
    answers = {uuid: open_context(uuid, timeout) for uuid in dict.fromkeys(module.params["uuids"])}
    module.exit_json(changed=False, **sort_answers(answers))


if __name__ == "__main__":
    main()
