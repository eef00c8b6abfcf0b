#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: engine_info
short_description: Report and verify the engine releases of a host
version_added: 1.0.0
description:
  - Lists the releases below O(releases), verifies each against its manifest and names every file that changed, is
    missing or was added. Byte code counts like any other file, so a stale C(.pyc) is drift.
  - Says what the host offers a release (Python, C library, processor, free space).
  - Finds engines that something else installed, when told where to look, and reports them by path. They are never
    changed.
author:
  - inferlab.dflash contributors (@inferlab)
options:
  releases:
    description: Directory of the releases.
    type: path
    default: /opt/dflash/releases
  instances:
    description: Directory of the instances, whose links tell which release each one uses.
    type: path
    default: /var/lib/dflash/instances
  wheels:
    description: Directory of wheels to list with their hashes. None are listed without it.
    type: path
  id:
    description: Verify and report only this release.
    type: str
  verify:
    description:
      - V(full) reads and hashes every file.
      - V(quick) reads those whose size, inode or time of change is another one than when the release was made.
      - V(none) reads only the manifests, and RV(releases[].state) is V(unverified).
    type: str
    choices: [full, quick, none]
    default: full
  python:
    description: Interpreter to look for, by name or path.
    type: str
    default: python3
  search:
    description:
      - Directories in which to look for foreign engines, that is, virtual environments and source checkouts with
        SGLang.
      - The search goes O(depth) levels deep and stays on the file system.
    type: list
    elements: path
    default: []
  depth:
    description: How many levels below O(search) are looked at.
    type: int
    default: 4
  root:
    description: Prefix for all paths, for a host whose file system is mounted elsewhere.
    type: path
    default: /
attributes:
  check_mode:
    support: full
    description: Only reads, in check mode too.
  diff_mode:
    support: none
    description: Nothing is changed, so there is no difference to show.
"""

EXAMPLES = r"""
- name: Verify every release
  inferlab.dflash.engine_info:
  register: engine

- name: Fail when a file changed after the installation
  ansible.builtin.assert:
    that: item.state == 'complete'
    fail_msg: "{{ item.id }}: {{ item.drift }}"
  loop: "{{ engine.releases }}"

- name: Look for engines that were there before
  inferlab.dflash.engine_info:
    verify: none
    search: [/opt, /srv, /home]
"""

RETURN = r"""
host:
  description: What the host offers a release.
  returned: always
  type: dict
  contains:
    python:
      description: The interpreter, with V(name), V(found), V(path), V(version), V(venv) and V(ensurepip).
      type: dict
      returned: always
    glibc:
      description: Version of the C library; null where it is another one.
      type: str
      returned: always
    machine:
      description: Processor architecture.
      type: str
      returned: always
    free_bytes:
      description: Room left where releases go.
      type: int
      returned: always
releases:
  description: The releases, oldest first.
  returned: always
  type: list
  elements: dict
  contains:
    id:
      description: Name.
      type: str
      returned: always
    path:
      description: Directory.
      type: str
      returned: always
    state:
      description: V(complete), V(drifted), V(incomplete) or V(unverified).
      type: str
      returned: always
    drift:
      description: The first 50 files that differ, each with V(path) and V(problem).
      type: list
      elements: dict
      returned: always
    drift_count:
      description: How many files differ.
      type: int
      returned: always
    backend:
      description: Engine, V(transformers) or V(sglang).
      type: str
      returned: always
    lock:
      description: Name of the lock file.
      type: str
      returned: always
    created:
      description: When it was made, in seconds since 1970.
      type: int
      returned: always
    python:
      description: Version of its Python.
      type: str
      returned: always
    packages:
      description: Versions by package.
      type: dict
      returned: always
    plugin:
      description: The DDTree plugin, with V(name), V(version) and V(sha256).
      type: dict
      returned: always
    patches:
      description: Patched files, each with V(name), V(file) and the hashes V(before) and V(after).
      type: list
      elements: dict
      returned: always
    instances:
      description: Instances that link to it or name it as their way back.
      type: list
      elements: str
      returned: always
wheels:
  description: The wheels in O(wheels), each with V(name) and V(sha256).
  returned: when O(wheels) is given
  type: list
  elements: dict
foreign:
  description:
    - Engines that something else installed, each with V(path), V(kind) (V(venv) or V(checkout)), V(version) and
      V(python).
  returned: always
  type: list
  elements: dict
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.inferlab.dflash.plugins.module_utils._engine import info


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "releases": {"type": "path", "default": "/opt/dflash/releases"},
            "instances": {"type": "path", "default": "/var/lib/dflash/instances"},
            "wheels": {"type": "path"},
            "id": {"type": "str"},
            "verify": {"type": "str", "choices": ["full", "quick", "none"], "default": "full"},
            "python": {"type": "str", "default": "python3"},
            "search": {"type": "list", "elements": "path", "default": []},
            "depth": {"type": "int", "default": 4},
            "root": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
    )
    params = module.params
    places = info.Places(Path(params["root"]), params["releases"], params["instances"])
    result = {
        "host": info.host_offers(places, params["python"]),
        "releases": info.releases(places, params["id"], params["verify"]),
        "foreign": info.foreign_engines(places, params["search"], params["depth"]),
    }
    if params["wheels"]:
        result["wheels"] = info.wheel_files(places, params["wheels"])
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
