#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: server_ready
short_description: Wait until an inference server answers a real generation, or say why it will not
version_added: 1.0.0
description:
  - Polls the state of a systemd unit and its OpenAI-compatible HTTP port together.
  - Succeeds only after a real generation by C(/v1/completions); an open port, C(/health) or C(/v1/models) is never
    enough.
  - Ends at once when the unit is dead, when it keeps being restarted, or when nothing moves any more (no new stage in its
    journal, nothing read, no compiler at work).
  - On failure it returns the cause as a diagnosis code, the tail of the journal, and the stage that was reached.
author:
  - inferlab.dflash contributors (@inferlab)
options:
  unit:
    description: Name of the systemd unit.
    type: str
    required: true
  url:
    description: Base address of the server, without C(/v1).
    type: str
    default: http://127.0.0.1:30000
  model:
    description: Served model name. When omitted, the first one that C(/v1/models) lists.
    type: str
  api_key_file:
    description: File on the host that holds the server's API key. The key is sent, never logged or returned.
    type: path
  timeout:
    description: Seconds after which waiting ends, whatever moves.
    type: int
    default: 1800
  stall_timeout:
    description: Seconds without any sign of progress after which waiting ends.
    type: int
    default: 300
  max_restarts:
    description: How many automatic restarts by systemd are put up with before the unit counts as a crash loop.
    type: int
    default: 1
  algorithm:
    description:
      - How the server decodes. With V(dflash) or V(ddtree) the acceptance length of several requests is checked too.
    type: str
    choices: [none, dflash, ddtree]
    default: none
  min_acceptance_length:
    description:
      - Mean tokens per verification round below which speculation counts as collapsed. V(1.0) means that no draft is
        ever accepted.
    type: float
    default: 1.05
  lines:
    description: How many journal lines to return on failure.
    type: int
    default: 40
  history:
    description: File that M(inferlab.dflash.dflash_history) keeps; it tells which remedies were applied already.
    type: path
    default: /var/lib/dflash/history.jsonl
attributes:
  check_mode:
    support: partial
    description: Can run in check mode.
    details: In check mode nothing was started, so nothing can become ready; it returns at once as skipped.
  diff_mode:
    support: none
    description: Nothing is changed, so there is no difference to show.
"""

EXAMPLES = r"""
- name: Wait for the instance
  inferlab.dflash.server_ready:
    unit: dflash-chat.service
    url: http://127.0.0.1:30000
    model: chat
    algorithm: ddtree
    timeout: 900
"""

RETURN = r"""
ready:
  description: Whether a real generation was answered.
  returned: always
  type: bool
elapsed:
  description: Seconds waited.
  returned: always
  type: float
stage:
  description: The last stage of the start that the journal showed.
  returned: always
  type: str
  sample: graph capture
progress:
  description: The stages of the start and the seconds after which each began.
  returned: always
  type: list
  elements: dict
  sample: [{stage: weights, seconds: 4.0}]
verdict:
  description: Why waiting ended.
  returned: always
  type: str
  sample: ready
generation:
  description: The last generation, with C(text), C(tokens) and C(acceptance_length).
  returned: when one was answered
  type: dict
acceptance_length:
  description: Mean tokens per verification round over the requests made, null where the server does not tell.
  returned: always
  type: float
diagnosis:
  description:
    - On success only C(code), which is null. Otherwise C(code), C(cause), C(meaning), C(evidence) (lines that prove it), C(remedy),
      C(must_not), C(secondary_codes), C(parsed) (values by name), C(summary) (one line), C(block) (lines to show), and from the history
      C(tried), C(falsified) and C(next_likely).
  returned: always
  type: dict
journal_tail:
  description: The last lines of the unit's journal, without secrets.
  returned: on failure
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.inferlab.dflash.plugins.module_utils._diagnosis import examine, history, probe, readiness
from ansible_collections.inferlab.dflash.plugins.module_utils._diagnosis.collect import collect
from ansible_collections.inferlab.dflash.plugins.module_utils._diagnosis.evidence import Host
from ansible_collections.inferlab.dflash.plugins.module_utils._diagnosis.redact import redact_lines
from ansible_collections.inferlab.dflash.plugins.module_utils._diagnosis.secret import read_key
from ansible_collections.inferlab.dflash.plugins.module_utils._diagnosis.wait import wait


def settings_of(params):
    """The module's options as the state machine wants them."""
    speculative = params["algorithm"] != "none"
    return readiness.Settings(
        timeout=params["timeout"],
        stall_timeout=params["stall_timeout"],
        max_restarts=params["max_restarts"],
        min_acceptance_length=params["min_acceptance_length"] if speculative else 0.0,
        requests=4 if speculative else 1,
    )


def argument_spec():
    return {
        "unit": {"type": "str", "required": True},
        "url": {"type": "str", "default": "http://127.0.0.1:30000"},
        "model": {"type": "str"},
        "api_key_file": {"type": "path", "no_log": False},
        "timeout": {"type": "int", "default": 1800},
        "stall_timeout": {"type": "int", "default": 300},
        "max_restarts": {"type": "int", "default": 1},
        "algorithm": {"type": "str", "choices": ["none", "dflash", "ddtree"], "default": "none"},
        "min_acceptance_length": {"type": "float", "default": 1.05},
        "lines": {"type": "int", "default": 40},
        "history": {"type": "path", "default": "/var/lib/dflash/history.jsonl"},
    }


def main():
    module = AnsibleModule(argument_spec=argument_spec(), supports_check_mode=True)
    params = module.params
    if module.check_mode:
        module.exit_json(
            changed=False, skipped=True, msg="nothing was started, so nothing can become ready in check mode"
        )
    key = read_key(module)
    host = Host(params["unit"])
    state, verdict, sentence = wait(host, probe.Client(params["url"], key), settings_of(params), params["model"])
    result = {
        "changed": False,
        "ready": verdict == "ready",
        "verdict": verdict,
        "elapsed": round(state.elapsed, 1),
        "stage": state.stage,
        "generation": state.generations[-1] if state.generations else None,
        "acceptance_length": state.acceptance_length,
        "progress": state.progress,
        "diagnosis": {"code": None},
    }
    if verdict == "ready":
        module.exit_json(**result)
    channels = collect(host, api_key=key)
    records = history.read(params["history"])
    result["diagnosis"] = examine.of_wait(channels, state, verdict, sentence, host.unit, records)
    result["journal_tail"] = redact_lines(host.journal_tail(params["lines"]), [key] if key else ())
    stage = f"stage: {state.stage}, after {state.elapsed:.0f} s"
    module.fail_json(msg=f"{host.unit} is not ready: {sentence} ({stage}). {result['diagnosis']['summary']}", **result)


if __name__ == "__main__":
    main()
