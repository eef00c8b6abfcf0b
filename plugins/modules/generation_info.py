#!/usr/bin/python
# Copyright 2026 inferlab.dflash contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: generation_info
short_description: A few real completions from a server, with speed and acceptance
version_added: 1.0.0
description:
  - Asks an OpenAI-compatible server for a few greedy completions, one after another, and tells the text of the first, tokens a second and
    the acceptance figures of these requests. It is a smoke test after a deployment, not a benchmark.
author:
  - inferlab.dflash contributors (@inferlab)
attributes:
  check_mode:
    support: full
    description: Does nothing in check mode, since nothing was started.
  diff_mode:
    support: none
    description: Nothing is changed, so there is no difference to show.
options:
  url:
    description: Base address of the server, without C(/v1).
    type: str
    required: true
  model:
    description: Served model name.
    type: str
    required: true
  api_key_file:
    description: File on the host that holds the server's API key.
    type: path
  prompts:
    description: Prompts to complete; the default is a few short ones.
    type: list
    elements: str
    default: []
  max_tokens:
    description: Tokens asked for, per prompt.
    type: int
    default: 64
  timeout:
    description: Seconds for one completion.
    type: int
    default: 120
"""

EXAMPLES = r"""
- name: See it generate
  inferlab.dflash.generation_info:
    url: http://127.0.0.1:30000
    model: main
"""

RETURN = r"""
completion:
  description: Prompt and text of the first completion.
  returned: success
  type: dict
  sample: {prompt: "1, 2, 3,", text: " 4, 5, 6,"}
tokens_per_second:
  description: Completion tokens a second over all requests, one client.
  returned: success
  type: float
acceptance_length:
  description: Mean tokens a verification round, the bonus token included; null without speculation.
  returned: success
  type: float
acceptance_histogram:
  description: How many rounds emitted 1, 2, 3, ... tokens.
  returned: success
  type: list
  elements: int
"""

import time

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.inferlab.dflash.plugins.module_utils._diagnosis import probe
from ansible_collections.inferlab.dflash.plugins.module_utils._instance import metrics


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "url": {"type": "str", "required": True},
            "model": {"type": "str", "required": True},
            "api_key_file": {"type": "path", "no_log": False},
            "prompts": {"type": "list", "elements": "str", "default": []},
            "max_tokens": {"type": "int", "default": 64, "no_log": False},
            "timeout": {"type": "int", "default": 120},
        },
        supports_check_mode=True,
    )
    if module.check_mode:
        module.exit_json(changed=False, skipped=True, msg="nothing was started, so nothing is asked in check mode")
    key = None
    if module.params["api_key_file"]:
        try:
            with open(module.params["api_key_file"], encoding="utf-8") as stream:
                key = stream.read().strip()
        except OSError as error:
            module.fail_json(msg=f"api_key_file {module.params['api_key_file']}: {error.strerror}")
        module.no_log_values.add(key)
    client = probe.Client(module.params["url"], key)
    prompts = module.params["prompts"] or list(probe.PROMPTS)
    before = client.request("/metrics").body
    texts, tokens = [], 0
    begin = time.monotonic()
    for prompt in prompts:
        answer = client.generate(module.params["model"], prompt, module.params["max_tokens"], module.params["timeout"])
        outcome = probe.generation(answer)
        if not outcome["ok"]:
            module.fail_json(
                msg=f"{module.params['url']} did not complete the prompt {prompt[:40]!r}: {outcome['error']}"
            )
        texts.append(outcome["text"])
        tokens += outcome["tokens"] or 0
    seconds = time.monotonic() - begin
    accepted = metrics.acceptance(before, client.request("/metrics").body)
    module.exit_json(
        changed=False,
        completion={"prompt": prompts[0], "text": texts[0]},
        tokens_per_second=round(tokens / seconds, 1),
        acceptance_length=accepted["length"],
        acceptance_histogram=accepted["histogram"],
    )


if __name__ == "__main__":
    main()
