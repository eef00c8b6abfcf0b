#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: service_diagnosis
short_description: Say why a unit died, hangs, or does not serve
version_added: 1.0.0
description:
  - Collects what the host can say about a unit (systemd, its journal including the first failing run, kernel log, NVML, C(/dev/shm), ports,
    core dumps, answers over HTTP, server arguments, package history) and names the cause by a stable code.
  - Quotes the lines that prove it, and says what to do and what not to do. Reads only.
  - Works on any unit at any time; a unit that is well gets the code V(no_fault), evidence that names nothing gets V(unknown).
author:
  - inferlab.dflash contributors (@inferlab)
options:
  unit:
    description: Name of the systemd unit.
    type: str
    required: true
  url:
    description: Base address of the server; when given, health and a one-token generation are asked for.
    type: str
  model:
    description: Served model name for that generation. When omitted, the first one that C(/v1/models) lists.
    type: str
  api_key_file:
    description: File on the host that holds the server's API key, if it has one. The key is sent, never logged or returned.
    type: path
  channels:
    description:
      - Further evidence by channel name, or evidence that replaces what would be collected, for example a kernel log read on the host of a
        guest.
    type: dict
    default: {}
  lines:
    description: How many lines of the unit's journal are read at most.
    type: int
    default: 20000
  budget:
    description: Seconds after which no further evidence is collected.
    type: int
    default: 60
  history:
    description: File that M(inferlab.dflash.dflash_history) keeps; it tells which remedies were applied already.
    type: path
    default: /var/lib/dflash/history.jsonl
  bundle:
    description:
      - Path on the host to write all evidence to, as a gzipped tar with mode 0600. Secrets and prompts are removed from it. Not written in
        check mode.
    type: path
  root:
    description: Directory that stands for C(/) where files are read, for fixtures and staged systems.
    type: path
    default: /
attributes:
  check_mode:
    support: full
    description: Reads only; O(bundle) is not written.
  diff_mode:
    support: none
    description: Nothing is changed, so there is no difference to show.
seealso:
  - module: inferlab.dflash.server_ready
"""

EXAMPLES = r"""
- name: Ask why the instance does not serve
  inferlab.dflash.service_diagnosis:
    unit: dflash-chat.service
    url: http://127.0.0.1:30000
  register: why

- name: Show it
  ansible.builtin.debug:
    msg: "{{ why.diagnosis.block }}"
"""

RETURN = r"""
diagnosis:
  description:
    - C(code), C(cause), C(meaning), C(evidence) (lines that prove it), C(remedy), C(must_not), C(secondary_codes), C(parsed) (values by
      name), C(summary) (one line), C(block) (lines to show), and from the history C(tried), C(falsified) and C(next_likely).
  returned: always
  type: dict
  sample:
    code: port_in_use
    cause: http
state:
  description: The unit's active state as systemd tells it.
  returned: always
  type: str
  sample: failed
degraded:
  description: Where a lower profile than the wished one serves, C(wanted), C(profile), C(code) and C(cause); otherwise null.
  returned: always
  type: dict
collected:
  description: Names of the channels that were collected.
  returned: always
  type: list
  elements: str
bundle:
  description: Path of the archive.
  returned: when O(bundle) was written
  type: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.inferlab.dflash.plugins.module_utils._diagnosis import bundle, examine, history
from ansible_collections.inferlab.dflash.plugins.module_utils._diagnosis.collect import collect
from ansible_collections.inferlab.dflash.plugins.module_utils._diagnosis.evidence import Host
from ansible_collections.inferlab.dflash.plugins.module_utils._diagnosis.secret import read_key


def argument_spec() -> dict:
    return {
        "unit": {"type": "str", "required": True},
        "url": {"type": "str"},
        "model": {"type": "str"},
        "api_key_file": {"type": "path", "no_log": False},
        "channels": {"type": "dict", "default": {}},
        "lines": {"type": "int", "default": 20000},
        "budget": {"type": "int", "default": 60},
        "history": {"type": "path", "default": "/var/lib/dflash/history.jsonl"},
        "bundle": {"type": "path"},
        "root": {"type": "path", "default": "/"},
    }


def main() -> None:
    module = AnsibleModule(argument_spec=argument_spec(), supports_check_mode=True)
    params = module.params
    key = read_key(module, required=False)
    host = Host(params["unit"])
    channels = collect(
        host, params["url"], params["model"], key, params["root"], budget=params["budget"], lines=params["lines"]
    )
    channels.update(params["channels"])
    records = history.read(params["history"])
    verdict = examine.judge(channels, host.unit, records)
    unit = host.show() or {}
    result = {
        "changed": False,
        "diagnosis": verdict,
        "state": unit.get("ActiveState", "unknown"),
        "degraded": history.degraded(records, host.unit),
        "collected": sorted(name for name, value in channels.items() if value is not None),
    }
    if params["bundle"] and not module.check_mode:
        try:
            bundle.write(params["bundle"], host.unit, channels, verdict)
        except OSError as exc:
            module.fail_json(msg=f"bundle {params['bundle']}: {exc.strerror}", **result)
        result.update(changed=True, bundle=params["bundle"])
    module.exit_json(**result)


if __name__ == "__main__":
    main()
