#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: drafter_info
short_description: Check that a target model and a DFlash drafter are whole and belong together
version_added: 1.0.0
description:
  - Reads configurations, tokenizers and the headers of the safetensors files of a target and of its drafter. No weights are
    loaded, and neither torch nor transformers is needed.
  - Finds truncated and missing files, drafters with missing or contradicting settings, weights that do not fit their
    configuration, and pairs that would start but accept nothing.
  - Taps are checked with the convention of DFlash. Tap C(i) of C(target_layer_ids) is the output of layer C(i), counted
    from 0, which is C(hidden_states[i + 1]) in transformers. A target of n layers has taps 0 to n - 1.
author:
  - inferlab.dflash contributors (@inferlab)
options:
  target:
    description: Directory of the target model on the host.
    type: path
    required: true
  drafter:
    description: Directory of the drafter on the host. When omitted, the target alone is checked.
    type: path
  require_weights:
    description: Whether a directory without weights is an error. Servers that run on dummy weights need none.
    type: bool
    default: true
  root:
    description: Directory that stands in for C(/), for checking a staged system.
    type: path
    default: /
attributes:
  check_mode:
    support: full
    description: Can run in check mode without changing anything; it never changes anything.
  diff_mode:
    support: none
    description: Nothing is changed, so there is no difference to show.
"""

EXAMPLES = r"""
- name: Look at a pair
  inferlab.dflash.drafter_info:
    target: /var/lib/dflash/models/qwen3.6-27b
    drafter: /var/lib/dflash/models/qwen3.6-27b-dflash
  register: pair

- name: Refuse what does not belong together
  ansible.builtin.assert:
    that: pair.ok
    fail_msg: "{{ pair.summary }}"
"""

RETURN = r"""
ok:
  description: Whether there is no finding of severity V(error).
  type: bool
  returned: always
summary:
  description: One sentence, made of the first error or of what the pair is.
  type: str
  returned: always
findings:
  description: What is wrong, errors first.
  type: list
  elements: dict
  returned: always
  contains:
    severity:
      description: An V(error) must not be started.
      type: str
      choices: [error, warning]
    code:
      description: Diagnosis code, such as V(draft_target_mismatch), or V(checkpoint_incomplete).
      type: str
    cause:
      description: Finer reason, such as V(hidden_size), or null.
      type: str
    message:
      description: What was found.
      type: str
    remedy:
      description: What to do.
      type: str
target:
  description: What the target is.
  type: dict
  returned: always
  sample:
    architecture: Qwen3_5ForConditionalGeneration
    hidden_size: 5120
    lm_head: dense
    num_layers: 64
    vocab_size: 248320
drafter:
  description: What the drafter is; null when none was given.
  type: dict
  returned: always
  sample:
    block_size: 16
    layer_types: {full_attention: 1, sliding_attention: 4}
    mask_token_id: 248070
    taps: [2, 17, 32, 47, 62]
    target_layer_ids: [1, 16, 31, 46, 61]
"""

import os
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.inferlab.dflash.plugins.module_utils._models import checkpoint, pair


def _under(root: str, path: str) -> str:
    return path if root == "/" else os.path.join(root, path.lstrip("/"))


def summarise(found: list[dict[str, t.Any]], target: dict[str, t.Any], drafter: dict[str, t.Any] | None) -> str:
    """The first error with its remedy, or what the pair is."""
    errors = [item for item in found if item["severity"] == "error"]
    if errors:
        more = f" ({len(errors) - 1} more)" if len(errors) > 1 else ""
        return f"{errors[0]['message']}. {errors[0]['remedy']}{more}"
    what = f"{target['architecture']}, {target['num_layers']} layers of {target['hidden_size']}"
    if drafter is None:
        return what
    return f"{what}, with a drafter of {drafter['num_layers']} layers, block {drafter['block_size']}"


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "target": {"type": "path", "required": True},
            "drafter": {"type": "path"},
            "require_weights": {"type": "bool", "default": True},
            "root": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
    )
    root = module.params["root"]
    target = checkpoint.read(_under(root, module.params["target"]))
    draft = None
    if module.params["drafter"]:
        draft = checkpoint.read(_under(root, module.params["drafter"]))
    found = pair.check(target, draft, module.params["require_weights"])
    about_target = pair.describe_target(target)
    about_draft = None if draft is None else pair.describe_drafter(draft)
    module.exit_json(
        changed=False,
        ok=not any(item["severity"] == "error" for item in found),
        summary=summarise(found, about_target, about_draft),
        findings=found,
        target=about_target,
        drafter=about_draft,
    )


if __name__ == "__main__":
    main()
