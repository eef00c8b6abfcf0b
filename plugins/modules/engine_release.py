#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: engine_release
short_description: Make, repair and keep engine releases
version_added: 1.0.0
description:
  - Makes a release, that is, a virtual environment below O(releases) with exactly the packages of a lock file, the
    DDTree plugin and, where a lock calls for them, patches. Its name is a hash over all of these.
  - A release that is there is verified. Files that were added are removed; one that drifted otherwise is made beside
    it, from its good files and the wheels where that suffices, else anew, and exchanged in one step.
  - The control node provides the wheels and sends those that the host lacks, so that a host needs no network.
  - No instance's link is touched. Older releases are removed with the wheels that only they were made from, but none
    that an instance links to, records as its way back, or still runs from.
attributes:
  check_mode:
    description: Says what would be made or removed, and changes nothing on the host or the control node.
    support: full
  diff_mode:
    description: Names the drifted files and the releases that go.
    support: full
options:
  lock:
    description: The lock file on the control node, as C(tools/resolve_lock.py) writes it.
    type: path
    required: true
  plugin:
    description: Directory of the DDTree Python project on the control node.
    type: path
    required: true
  patches:
    description: Directory on the control node with C(patches.json) and the diffs it names. None are applied without it.
    type: path
  python:
    description: Interpreter of the host that the release is made with, by name or path.
    type: str
    default: python3
  releases:
    description: Directory of the releases on the host.
    type: path
    default: /opt/dflash/releases
  wheels:
    description: Directory of the host for the wheels that the control node sends.
    type: path
    default: /opt/dflash/wheels
  source:
    description:
      - Where the wheels come from.
      - V(controller) sends them from the control node.
      - V(directory) takes them from O(wheelhouse), and fails when one is not there.
      - V(index) lets pip on the host fetch them.
    type: str
    choices: [controller, directory, index]
    default: controller
  wheelhouse:
    description: A directory of the host that already holds wheels, mounted perhaps. It is only read.
    type: path
  wheel_cache:
    description: Directory of the control node for fetched wheels.
    type: path
    default: ~/.cache/inferlab-dflash/wheels
  find_links:
    description: Further places where the control node's pip looks for wheels.
    type: list
    elements: str
    default: []
  imports:
    description: Python modules that must import in the new release before it counts as made.
    type: list
    elements: str
    default: []
  compile:
    description:
      - V(imports) keeps the byte code of what O(imports) load.
      - V(all) compiles everything, for an engine of which much loads only with a GPU.
    type: str
    choices: [imports, all]
    default: imports
  instances:
    description: Directory of the instances, whose links and records protect a release from removal.
    type: path
    default: /var/lib/dflash/instances
  verify:
    description:
      - V(full) reads and hashes every file of a release that is there.
      - V(quick) reads those whose size, inode or time of change is another one than when the release was made.
    type: str
    choices: [full, quick]
    default: quick
  keep:
    description: How many of the newest releases stay.
    type: int
    default: 3
  _request:
    description: For internal use. What the action plugin read on the control node, and which phase it asks for.
    type: dict
author:
  - inferlab.dflash contributors (@inferlab)
seealso:
  - module: inferlab.dflash.engine_info
"""

EXAMPLES = r"""
- name: Make the release of the stand-alone engine
  inferlab.dflash.engine_release:
    lock: "{{ role_path }}/files/locks/transformers-cp311.txt"
    plugin: "{{ role_path }}/files/ddtree"
    python: python3.11
    imports: [ddtree.server]
  register: release

- name: Say where it is
  ansible.builtin.debug:
    var: release.path
"""

RETURN = r"""
id:
  description: Name of the release.
  returned: always
  type: str
  sample: transformers-cp311-0f3a9c2d41b7
path:
  description: Directory of the release.
  returned: always
  type: str
  sample: /opt/dflash/releases/transformers-cp311-0f3a9c2d41b7
state_before:
  description: What was found, V(absent), V(incomplete), V(drifted) or V(complete).
  returned: success
  type: str
drift:
  description: The files that differed from the manifest, each with V(path) and V(problem), the first 50.
  returned: success
  type: list
  elements: dict
removed:
  description: Releases that were removed, or would be.
  returned: success
  type: list
  elements: str
missing:
  description: Packages whose wheel the host lacked.
  returned: success
  type: list
  elements: str
code:
  description: Provisioning code of a failure, where one fits.
  returned: failure
  type: str
  sample: venv_unavailable
"""

from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.inferlab.dflash.plugins.module_utils._engine import build, lock, release
from ansible_collections.inferlab.dflash.plugins.module_utils._engine.errors import EngineError


def arguments() -> dict[str, Any]:
    """The argument specification, shared with the action plugin."""
    return {
        "lock": {"type": "path", "required": True},
        "plugin": {"type": "path", "required": True},
        "patches": {"type": "path"},
        "python": {"type": "str", "default": "python3"},
        "releases": {"type": "path", "default": "/opt/dflash/releases"},
        "wheels": {"type": "path", "default": "/opt/dflash/wheels"},
        "source": {"type": "str", "choices": ["controller", "directory", "index"], "default": "controller"},
        "wheelhouse": {"type": "path"},
        "wheel_cache": {"type": "path", "default": "~/.cache/inferlab-dflash/wheels"},
        "find_links": {"type": "list", "elements": "str", "default": []},
        "imports": {"type": "list", "elements": "str", "default": []},
        "compile": {"type": "str", "choices": ["imports", "all"], "default": "imports"},
        "instances": {"type": "path", "default": "/var/lib/dflash/instances"},
        "verify": {"type": "str", "choices": ["full", "quick"], "default": "quick"},
        "keep": {"type": "int", "default": 3},
        # What the action plugin read on the control node: phase, id, lock_text, plugin, patches, archive.
        "_request": {"type": "dict"},
    }


def main() -> None:
    module = AnsibleModule(
        argument_spec=arguments(),
        required_if=[("source", "directory", ["wheelhouse"])],
        supports_check_mode=True,
    )
    params = module.params
    request = params["_request"]
    if not request:
        module.fail_json(msg="engine_release works through its action plugin, which was not found on the control node")
    releases = Path(params["releases"])
    try:
        spec = build.Spec(
            releases=releases,
            id=request["id"],
            lock=lock.parse(request["lock_text"]),
            python=params["python"],
            wheels=[Path(path) for path in (params["wheels"], params["wheelhouse"]) if path],
            index=params["source"] == "index",
            plugin_name=request["plugin"]["name"],
            plugin_version=request["plugin"]["version"],
            plugin_sha256=request["plugin"]["sha256"],
            patches=request["patches"],
            imports=params["imports"],
            compile=params["compile"],
        )
        instances = Path(params["instances"])
        result = release.run(spec, request, Path(params["wheels"]), instances, params["keep"], params["verify"])
    except EngineError as error:
        module.fail_json(msg=str(error), code=error.code, id=request["id"], path=str(releases / request["id"]))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
