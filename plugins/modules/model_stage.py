#!/usr/bin/python
# Copyright 2026 inferlab.dflash contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: model_stage
short_description: Bring a model directory to a host, verified and in one rename
version_added: 1.0.0
description:
  - Copies a model directory from the control node to C(DIRECTORY/NAME) on the host. Space is checked before the first byte, every file is
    held against its SHA-256 on arrival, and the finished directory appears in one rename. A run that was killed goes on where it stopped.
  - A staged directory keeps a manifest; later runs compare sizes and times with it (or contents, see O(verify)) and send only what differs.
  - A directory already on the host is only inspected, never changed.
author:
  - inferlab.dflash contributors (@inferlab)
attributes:
  check_mode:
    support: full
    description: Predicts whether files would be sent.
  diff_mode:
    support: full
    description: Lists the files that differ.
options:
  source:
    description:
      - Absolute path of the model directory, on the control node for O(remote=false), on the host for O(remote=true).
    type: path
    required: true
  remote:
    description: The directory is on the host already and is used in place.
    type: bool
    default: false
  name:
    description: Name of the staged directory. Required unless O(remote=true).
    type: str
  directory:
    description: Where staged models live.
    type: path
    default: /var/lib/dflash/models
  verify:
    description: Compare staged files by size and time (V(quick)) or by content (V(full)).
    type: str
    choices: [quick, full]
    default: quick
  mirror:
    description: Directory in memory, such as C(/dev/shm/dflash), into which the staged model is copied too.
    type: path
  pending:
    description: In check mode, a source that is not there yet will come from a step that check mode only predicts.
    type: bool
    default: false
  phase:
    description: Used between the action plugin and the host; leave it alone.
    type: str
    choices: [compare, receive, publish]
    default: compare
  manifest:
    description: Used between the action plugin and the host; leave it alone.
    type: dict
  file:
    description: Used between the action plugin and the host; leave it alone.
    type: dict
"""

EXAMPLES = r"""
- name: Stage the target from the control node
  inferlab.dflash.model_stage:
    source: /srv/models/Qwen3.6-27B
    name: Qwen3.6-27B

- name: Use a model that is on the host already
  inferlab.dflash.model_stage:
    source: /data/models/Qwen3.6-27B
    remote: true
"""

RETURN = r"""
path:
  description: Directory to serve from (the mirror where there is one).
  returned: always
  type: str
  sample: /var/lib/dflash/models/Qwen3.6-27B
staged:
  description: Directory on disk that the mirror is made from.
  returned: always
  type: str
files:
  description: Files that were sent, or would be; for O(remote=true) the files of the model.
  returned: always
  type: list
  elements: str
digest:
  description: SHA-256 over the manifest; equal on every host that has the same files.
  returned: always
  type: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.inferlab.dflash.plugins.module_utils._models import safetensors, stage_host, staging

ARGUMENTS = {
    "source": {"type": "path", "required": True},
    "remote": {"type": "bool", "default": False},
    "name": {"type": "str"},
    "directory": {"type": "path", "default": "/var/lib/dflash/models"},
    "verify": {"type": "str", "choices": ["quick", "full"], "default": "quick"},
    "mirror": {"type": "path"},
    "pending": {"type": "bool", "default": False},
    "phase": {"type": "str", "choices": ["compare", "receive", "publish"], "default": "compare"},
    "manifest": {"type": "dict"},
    "file": {"type": "dict"},
}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, required_if=[("remote", False, ["name"])], supports_check_mode=True)
    try:
        if module.params["remote"]:
            result = stage_host.inspect(module.params["source"])
        elif module.params["phase"] == "receive":
            result = stage_host.receive(module.params)
        elif module.params["phase"] == "publish":
            result = stage_host.publish(module.params)
        else:
            result = stage_host.compare(module.params)
    except (staging.StagingError, safetensors.SafetensorsError) as error:
        module.fail_json(msg=str(error))
    except OSError as error:
        module.fail_json(msg=f"{error.filename or module.params['source']}: {error.strerror}")
    module.exit_json(**result)


if __name__ == "__main__":
    main()
