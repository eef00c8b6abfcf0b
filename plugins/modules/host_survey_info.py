#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: host_survey_info
short_description: Say what is on a host, reading only
version_added: 1.0.0
description:
  - Collects in one call what matters before an inference engine is deployed - services and processes of interest, listening
    ports, virtual environments and source checkouts, model directories, CUDA toolkits, disks, memory, limits, clock,
    pending reboot and automatic upgrades.
  - Writes nothing, imports nothing, and opens no GPU. The GPUs themselves are M(inferlab.dflash.gpu_facts)' business; its answer can
    be had in the same call with O(gpu_subset).
  - Is bounded in time, processes and directory entries; remote file systems are never entered. What was left out is named
    in RV(survey.warnings).
  - Of a command line only the program and options that can hold no secret are returned.
notes:
  - Where connection and privilege escalation allow pipelining and the interpreter is known, an action plugin sends the same code to the
    host's Python without Ansible's module code, which takes a host less than half the CPU. Everywhere else, and whenever that gives no
    whole answer, the module runs as usual.
author:
  - inferlab.dflash contributors (@inferlab)
options:
  patterns:
    description:
      - Kinds mapped to regular expressions over command lines, unit names and unit descriptions; the first kind that
        matches is it. When omitted, the kinds are V(ddtree), V(sglang), V(vllm), V(training) and V(serving).
    type: dict
  paths:
    description:
      - Directories below which virtual environments, checkouts and models are looked for. A C(*) between slashes stands
        for one directory level. When omitted, the usual places.
    type: list
    elements: str
  depth:
    description: How many levels below each of O(paths) to look.
    type: int
    default: 4
  entries:
    description: How many directory entries to look at in all.
    type: int
    default: 30000
  time_limit:
    description: Seconds after which the rest is left out.
    type: int
    default: 10
  control_time:
    description: The control node's time in seconds since 1970, to work out the clock's skew from.
    type: float
  import_test:
    description:
      - Whether to import torch, sglang, flash-attn and flashinfer in each virtual environment that has them. Takes seconds
        per environment; no GPU is visible to it.
    type: bool
    default: false
  gpu_subset:
    description:
      - Return the facts of M(inferlab.dflash.gpu_facts) too, as RV(gpu); this is its O(inferlab.dflash.gpu_facts#module:gather_subset).
        Empty for none.
      - A second call would cost the host Ansible's own start again, which is more than either module's work.
    type: list
    elements: str
    default: []
  root:
    description: Directory that stands for C(/). Below any other than V(/) no command is run.
    type: path
    default: /
attributes:
  check_mode:
    support: full
    description: Reads only, so check mode makes no difference.
  diff_mode:
    support: none
    description: Nothing is changed, so there is no difference to show.
"""

EXAMPLES = r"""
- name: Look at a host
  inferlab.dflash.host_survey_info:
    control_time: "{{ now(utc=true).timestamp() }}"
  register: result

- name: Look for services of one's own
  inferlab.dflash.host_survey_info:
    patterns:
      sglang: ['\bsglang\b']
      training: ['\bmy_trainer\b']
    paths: [/opt, /models]
  register: result
"""

RETURN = r"""
gpu:
  description: GPUs and driver, as M(inferlab.dflash.gpu_facts) returns them in C(ansible_facts.gpu).
  returned: when O(gpu_subset) is not empty
  type: dict
survey:
  description: What is on the host. What could not be read is null or empty and named in C(warnings).
  returned: always
  type: dict
  contains:
    schema:
      description: Version of this structure.
      type: int
    host:
      description: >-
        C(hostname), C(os), C(kernel), C(architecture), C(virtualization), C(cpu), C(numa_nodes), C(uptime_s), C(machine_id) and
        C(boot_id).
      type: dict
    time:
      description: C(epoch), C(skew_s) against O(control_time), C(synchronized), C(service) and C(timezone).
      type: dict
    memory:
      description: C(total_mib), C(available_mib), swap, C(hugepages) and C(transparent_hugepages).
      type: dict
    limits:
      description: Soft and hard C(nofile), C(memlock) and C(nproc) of a login, and kernel limits.
      type: dict
    disks:
      description: File systems with C(mount), C(device), C(type), C(size_mib) and C(free_mib); C(/dev/shm) is one of them.
      type: list
      elements: dict
    shared_memory_files:
      description: The ten largest plain files in C(/dev/shm).
      type: list
      elements: dict
    services:
      description: >-
        Units of interest and failed units, with C(unit), C(kind), C(active), C(sub), C(result), C(restarts), C(enabled), C(main_pid),
        C(path) and more.
      type: list
      elements: dict
    processes:
      description: >-
        Processes of interest, with C(pid), C(kind), C(user), C(command), harmless C(options), C(unit), C(guest), C(executable),
        C(executable_missing), C(environment), C(rss_mib) and C(ports).
      type: list
      elements: dict
    ports:
      description: Listening TCP ports with C(port), C(address), C(pid), C(command) and C(unit) of the holder.
      type: list
      elements: dict
    environments:
      description: Virtual environments with C(path), C(kind), C(python), C(packages), C(editable), C(torch_cuda) and C(imports).
      type: list
      elements: dict
    checkouts:
      description: Source checkouts of interest with C(path), C(remote), C(branch), C(commit) and C(tag).
      type: list
      elements: dict
    models:
      description: >-
        Model directories with C(path), C(name), C(role) (target or drafter), C(architecture), C(size_mib), C(missing_files), C(in_memory),
        C(copy_of) and, for drafters, C(pairs) with each target on the host.
      type: list
      elements: dict
    cuda_toolkits:
      description: CUDA toolkits with C(path), C(version) and C(nvcc).
      type: list
      elements: dict
    guests:
      description: Containers and virtual machines of a Proxmox host with C(kind), C(id), C(name), C(running) and C(gpus).
      type: list
      elements: dict
    reboot:
      description: C(required) and C(packages).
      type: dict
    upgrades:
      description: C(tool), C(enabled), C(driver_excluded) and C(timers) of automatic upgrades.
      type: dict
    warnings:
      description: What is unknown or incomplete, as C(field) and C(reason).
      type: list
      elements: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.inferlab.dflash.plugins.module_utils._survey.answer import ARGUMENTS, answer


def main() -> None:
    """Ansible's entry point."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    try:
        module.exit_json(changed=False, **answer(module.params))
    except ValueError as exc:
        module.fail_json(msg=str(exc))


if __name__ == "__main__":
    main()
