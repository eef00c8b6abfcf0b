#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: driver_reconcile
short_description: Bring the NVIDIA user space and the kernel module to one version
version_added: 1.0.0
description:
  - Compares the loaded kernel module, the module on disk for the next boot and the user-space library, and makes a plan.
    A host whose versions agree is left alone, and so is one that only waits for its reboot, unless a way is opted in.
  - The plan V(align_userspace) moves the driver's packages to the loaded module's version in one transaction, puts them
    on hold and excludes them from unattended upgrades. Packages are found by who owns the libraries and by the version
    that they share, never by their names. Nothing is removed, and nothing outside the driver is moved.
  - No service is restarted meanwhile. A policy-rc.d of its own is in place for the duration, needrestart is suspended.
  - Afterwards it proves the repair (NVML initialises, the versions agree, a CUDA context opens). When that fails, the
    packages go back to where they were and the failure is reported.
  - It never reboots. Where the plan calls for a reboot it returns RV(reboot_needed), and the role C(driver) reboots.
author:
  - inferlab.dflash contributors (@inferlab)
options:
  strategy:
    description:
      - V(auto) moves packages only when the module on disk agrees with the loaded one and the user space does not.
      - V(align_userspace) also moves the packages of a host that waits for a reboot, back to the loaded version.
    type: str
    choices: [auto, align_userspace]
    default: auto
  target_version:
    description:
      - Full driver version to bring the packages to, in place of the loaded module's. Another one than the loaded needs
        O(strategy=align_userspace) and O(allow_reboot), for it works after a reboot only.
    type: str
  allow_reload:
    description: Whether the kernel module may be reloaded, which needs GPUs that no process holds.
    type: bool
    default: false
  allow_reboot:
    description: Whether a reboot may be planned. The module itself never reboots.
    type: bool
    default: false
  control_node:
    description: Say V(true) for the machine that Ansible runs on; a reboot is then never planned.
    type: bool
    default: false
  stop_units:
    description:
      - Units that hold the GPU and may be stopped for a reload, such as C(nvidia-persistenced.service). They are started
        again afterwards, whatever happens. No other unit is ever stopped.
    type: list
    elements: str
    default: []
  deb_dir:
    description: Directory on the host with package files that may be used beside the repositories and the cache.
    type: path
  update_cache:
    description: Refresh the package lists when the wanted version is not in them. Never in check mode.
    type: bool
    default: true
  hold:
    description: Put the packages on hold and exclude them from unattended upgrades.
    type: bool
    default: true
  lock_timeout:
    description: Seconds to wait for the package manager's locks. They are never removed.
    type: int
    default: 300
  container:
    description: As for M(inferlab.dflash.gpu_facts).
    type: str
    default: auto
  state_dir:
    description: Where the record C(driver.json) and copies of the replaced packages are kept.
    type: path
    default: /var/lib/dflash
  fail_when_blocked:
    description:
      - Fail when the plan is V(blocked) or V(host_action). With V(false) the plan is returned and nothing is changed.
    type: bool
    default: true
attributes:
  check_mode:
    description: Shows the exact transaction, as the package manager simulates it, and changes nothing.
    support: full
  diff_mode:
    description: Returns each package's version and hold before and after, and the files that are written.
    support: full
seealso:
  - module: inferlab.dflash.driver_rollback
  - module: inferlab.dflash.gpu_facts
"""

EXAMPLES = r"""
- name: Repair a mismatch, or say why not
  inferlab.dflash.driver_reconcile:

- name: Bring a host that waits for a reboot back to the loaded version, from a folder of packages
  inferlab.dflash.driver_reconcile:
    strategy: align_userspace
    deb_dir: /srv/nvidia-580.126.09

- name: Reload the module if nothing but the persistence daemon holds the GPUs
  inferlab.dflash.driver_reconcile:
    allow_reload: true
    stop_units: [nvidia-persistenced.service]
"""

RETURN = r"""
plan:
  description: What was planned.
  returned: always
  type: dict
  contains:
    action:
      description: V(none), V(align_userspace), V(reload_module), V(reboot), V(host_action) or V(blocked).
      type: str
      returned: always
    reason: {description: Why., type: str, returned: always}
    target_version: {description: The version that packages or module go to., type: str, returned: always}
    ways_out: {description: What unblocks a blocked plan., type: list, elements: str, returned: always}
    host_action: {description: What the host of a container must do., type: str, returned: always}
    reboot_required: {description: Whether the result takes a reboot., type: bool, returned: always}
versions:
  description: Loaded module, module on disk for the next boot, and user space, at the end.
  returned: always
  type: dict
transaction:
  description: The package manager's command, the packages that move and those that are kept.
  returned: when packages move
  type: dict
proof:
  description: Whether the repair was proved, and how.
  returned: after acting
  type: dict
falsified:
  description: The versions agree now and it still fails; they were not the cause. The packages were put back.
  returned: on failure of the proof
  type: bool
rolled_back:
  description: Whether the packages were put back after a failure.
  returned: on failure
  type: bool
reboot_needed:
  description: Whether the plan calls for a reboot, which was allowed and is left to the caller.
  returned: always
  type: bool
holders:
  description: Processes that hold a GPU.
  returned: always
  type: list
  elements: dict
announcement:
  description: For plans that interrupt work on the GPUs, what is interrupted and who holds the GPUs.
  returned: always
  type: list
  elements: str
commands:
  description: The module commands of a reload.
  returned: for a reload
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.inferlab.dflash.plugins.module_utils._driver import locks, plan, record, shell
from ansible_collections.inferlab.dflash.plugins.module_utils._driver.reconcile import Options, Reconciler, Refused
from ansible_collections.inferlab.dflash.plugins.module_utils._gpu import parse
from ansible_collections.inferlab.dflash.plugins.module_utils._gpu.host import Host


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "strategy": {"type": "str", "choices": ["auto", "align_userspace"], "default": "auto"},
            "target_version": {"type": "str"},
            "allow_reload": {"type": "bool", "default": False},
            "allow_reboot": {"type": "bool", "default": False},
            "control_node": {"type": "bool", "default": False},
            "stop_units": {"type": "list", "elements": "str", "default": []},
            "deb_dir": {"type": "path"},
            "update_cache": {"type": "bool", "default": True},
            "hold": {"type": "bool", "default": True},
            "lock_timeout": {"type": "int", "default": 300},
            "container": {"type": "str", "default": "auto"},
            "state_dir": {"type": "path", "default": "/var/lib/dflash"},
            "fail_when_blocked": {"type": "bool", "default": True},
        },
        supports_check_mode=True,
    )
    given = module.params
    target = given["target_version"] or None
    if target and not parse.is_driver_version(target):
        module.fail_json(msg=f"target_version: {target!r} is no full driver version such as 580.126.09.")
    wishes = plan.Wishes(given["strategy"], target, given["allow_reload"], given["allow_reboot"], given["control_node"])
    options = Options(
        deb_dir=given["deb_dir"],
        update_cache=given["update_cache"],
        hold=given["hold"],
        lock_timeout=given["lock_timeout"],
        stop_units=tuple(given["stop_units"]),
        state_dir=given["state_dir"],
        container=None if given["container"] == "auto" else given["container"],
    )
    run = None
    try:
        run = Reconciler(Host(), wishes, options, module.check_mode)
        result = run.reconcile()
    except (Refused, locks.Held, record.Damaged, shell.Failed) as error:
        result = {**(run.result if run else {}), **getattr(error, "more", {}), "msg": str(error)}
        blocked = result.get("plan", {}).get("action") in (plan.BLOCKED, plan.HOST_ACTION)
        result["failed"] = given["fail_when_blocked"] or not blocked
    for warning in result.pop("warnings", []):
        module.warn(warning)
    if result.pop("failed", False):
        module.fail_json(**result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
