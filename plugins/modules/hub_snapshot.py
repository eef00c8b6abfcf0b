#!/usr/bin/python
# Copyright 2026 inferlab.dflash contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: hub_snapshot
short_description: Download one pinned revision of a model repository
version_added: 1.0.0
description:
  - Downloads a revision of a Hugging Face hub repository with huggingface_hub into a directory, usually on the control node, from where
    M(inferlab.dflash.model_stage) brings it to the hosts. An interrupted download goes on where it stopped.
  - C(HF_HUB_OFFLINE), C(HF_ENDPOINT) and the other variables of huggingface_hub are honoured.
author:
  - inferlab.dflash contributors (@inferlab)
requirements:
  - huggingface_hub
attributes:
  check_mode:
    support: full
    description: Predicts whether a download is needed.
  diff_mode:
    support: none
    description: The files are not compared, the revision is pinned.
options:
  repository:
    description: Repository, as C(ORG/NAME).
    type: str
    required: true
  revision:
    description: Commit hash, tag or branch; pin a commit hash.
    type: str
    required: true
  directory:
    description: Where the snapshot goes.
    type: path
    required: true
  token:
    description: Access token for gated and private repositories.
    type: str
"""

EXAMPLES = r"""
- name: Fetch the drafter to the control node
  inferlab.dflash.hub_snapshot:
    repository: z-lab/Qwen3.6-27B-DFlash
    revision: 0123456789abcdef0123456789abcdef01234567
    directory: ~/.cache/inferlab-dflash/hub/z-lab--Qwen3.6-27B-DFlash-0123456789ab
  delegate_to: localhost
"""

RETURN = r"""
path:
  description: Directory of the snapshot.
  returned: always
  type: str
present:
  description: Whether the snapshot is complete there now.
  returned: always
  type: bool
"""

import os

from ansible.module_utils.basic import AnsibleModule, missing_required_lib

# Written when a download is complete; hidden, so that it is no part of the model.
MARK = ".dflash-revision"


def complete(directory: str, revision: str) -> bool:
    try:
        with open(os.path.join(directory, MARK), encoding="utf-8") as stream:
            return stream.read().strip() == revision
    except OSError:
        return False


def download(module: AnsibleModule) -> None:
    """Fetch weights, configuration and tokenizer; other formats of the same weights are left out."""
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        module.fail_json(
            msg=missing_required_lib("huggingface_hub")
            + " It is needed for model references of the form hub:ORG/NAME@REVISION."
        )
    params = module.params
    try:
        snapshot_download(
            repo_id=params["repository"],
            revision=params["revision"],
            local_dir=params["directory"],
            token=params["token"] or None,
            allow_patterns=["*.json", "*.safetensors", "*.jinja", "*.txt", "*.model"],
        )
    except Exception as error:
        # huggingface_hub raises a dozen unrelated types; each text names repository, reason and way out.
        module.fail_json(msg=f"hub:{params['repository']}@{params['revision']} could not be downloaded: {error}")
    with open(os.path.join(params["directory"], MARK), "w", encoding="utf-8") as stream:
        stream.write(params["revision"] + "\n")


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "repository": {"type": "str", "required": True},
            "revision": {"type": "str", "required": True},
            "directory": {"type": "path", "required": True},
            "token": {"type": "str", "no_log": True},
        },
        supports_check_mode=True,
    )
    directory, revision = module.params["directory"], module.params["revision"]
    changed = not complete(directory, revision)
    if changed and not module.check_mode:
        download(module)
    module.exit_json(changed=changed, path=directory, present=complete(directory, revision))


if __name__ == "__main__":
    main()
