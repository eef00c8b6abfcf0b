#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: driver_rollback
short_description: Undo the last change that driver_reconcile made to the driver's packages
version_added: 1.0.0
description:
  - Takes the packages back to exactly the versions that the record names, in one transaction, with the holds and the
    unattended-upgrades exclusion of that time. Copies of the replaced packages were kept, so that it needs no network.
  - Without a recorded change it warns and reports no change. A package that was added beside (its name carries the version)
    stays, for nothing is removed.
  - A reload of the module or a reboot has nothing to be rolled back.
author:
  - inferlab.dflash contributors (@inferlab)
options:
  deb_dir:
    description: Directory on the host with package files that may be used beside the kept copies.
    type: path
  lock_timeout:
    description: Seconds to wait for the package manager's locks. They are never removed.
    type: int
    default: 300
  container:
    description: As for M(inferlab.dflash.gpu_facts).
    type: str
    default: auto
  state_dir:
    description: Where the record C(driver.json) and the copies are kept.
    type: path
    default: /var/lib/dflash
attributes:
  check_mode:
    description: Shows the exact transaction and changes nothing.
    support: full
  diff_mode:
    description: Returns each package's version and hold before and after, and the files that are written.
    support: full
seealso:
  - module: inferlab.dflash.driver_reconcile
"""

EXAMPLES = r"""
- name: Undo the last change of the driver
  inferlab.dflash.driver_rollback:
"""

RETURN = r"""
rolled_back_to:
  description: Loaded module, module on disk and user space of that time.
  returned: when there is something to roll back
  type: dict
versions:
  description: Loaded module, module on disk for the next boot, and user space, at the end.
  returned: always
  type: dict
transaction:
  description: The package manager's command, the packages that move and those that are kept.
  returned: when there is something to roll back
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.inferlab.dflash.plugins.module_utils._driver import locks, plan, record, shell
from ansible_collections.inferlab.dflash.plugins.module_utils._driver.reconcile import Options, Reconciler, Refused
from ansible_collections.inferlab.dflash.plugins.module_utils._gpu.host import Host


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "deb_dir": {"type": "path"},
            "lock_timeout": {"type": "int", "default": 300},
            "container": {"type": "str", "default": "auto"},
            "state_dir": {"type": "path", "default": "/var/lib/dflash"},
        },
        supports_check_mode=True,
    )
    options = Options(
        deb_dir=module.params["deb_dir"],
        lock_timeout=module.params["lock_timeout"],
        state_dir=module.params["state_dir"],
        container=None if module.params["container"] == "auto" else module.params["container"],
    )
    run = None
    try:
        run = Reconciler(Host(), plan.Wishes(), options, module.check_mode)
        result = run.roll_back()
    except (Refused, locks.Held, record.Damaged, shell.Failed) as error:
        result = {**(run.result if run else {}), **getattr(error, "more", {}), "msg": str(error), "failed": True}
    for warning in result.pop("warnings", []):
        module.warn(warning)
    if result.pop("failed", False):
        module.fail_json(**result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
