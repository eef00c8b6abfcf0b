# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter plan_instances: GPUs, port and environment for each instance of a host."""

from __future__ import annotations

DOCUMENTATION = r"""
name: plan_instances
author: inferlab.dflash contributors (@inferlab)
version_added: 1.0.0
short_description: Plan GPUs, ports and environment for the instances of a host
description:
  - Chooses free GPUs by UUID, a free port, NUMA node and environment for each instance. It reads facts only and touches
    nothing.
  - A GPU is free when its used memory, less that of the instances that are replaced, is below O(idle_mib) and no
    foreign process is on it.
  - With too few free GPUs it refuses and lists who holds the others.
positional: _input
options:
  _input:
    description: Complete instances, from P(inferlab.dflash.dflash_wishes#filter).
    type: list
    elements: dict
    required: true
  gpu:
    description: The fact C(ansible_facts.gpu) of the host, from M(inferlab.dflash.gpu_facts).
    type: dict
    required: true
  host:
    description: The inventory name of the host.
    type: str
    default: this host
  own:
    description:
      - Records of the instances that are on the host already, with C(name), C(gpus), C(port) and C(active) (whether the
        unit runs).
      - An instance keeps its recorded GPUs and port as long as they suit, so that a second run changes nothing.
    type: list
    elements: dict
    default: []
  peers:
    description:
      - Other hosts of the play by name, each with C(gpu), C(wishes) and C(own).
      - A host and its guests share GPUs and are planned jointly.
    type: dict
    default: {}
  listening:
    description: Listening sockets of the host, each with C(port) and, where known, C(pid), C(command), C(user),
      C(unit).
    type: list
    elements: dict
    default: []
  dead:
    description: GPUs that cannot open a CUDA context, UUID to reason.
    type: dict
    default: {}
  idle_mib:
    description: Memory in use, in MiB, below which a GPU counts as idle.
    type: int
    default: 1024
  first_port:
    description: Where C(port=auto) begins to look.
    type: int
    default: 30000
  tentative:
    description: Plan even though the driver is not healthy yet, as in check mode before a repair. The plan's warnings
      say so.
    type: bool
    default: false
  leaving:
    description:
      - Units and command lines that are stopped before anything is started, as M(inferlab.dflash.stop_first) takes them.
      - They hold nothing in this plan. Leave it away when planning again after they are stopped.
    type: list
    elements: raw
    default: []
"""

EXAMPLES = r"""
- name: Plan
  ansible.builtin.set_fact:
    plan: >-
      {{ dflash_instances | inferlab.dflash.dflash_wishes
         | inferlab.dflash.plan_instances(ansible_facts['gpu'], host=inventory_hostname) }}
"""

RETURN = r"""
_value:
  description:
    - The instances with C(engine_backend) decided, C(gpus) as UUIDs (empty on the CPU), C(port) as a number, C(env)
      complete,
      C(numa) (V(none) or C(node)), C(devices) (index, uuid and name of each GPU) and C(warnings).
  type: list
  elements: dict
"""

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.inferlab.dflash.plugins.module_utils._plan import ports
from ansible_collections.inferlab.dflash.plugins.module_utils._plan.errors import PlanError
from ansible_collections.inferlab.dflash.plugins.module_utils._plan.occupancy import IDLE_MIB
from ansible_collections.inferlab.dflash.plugins.plugin_utils._lazy import Lazy

planner = Lazy("module_utils._plan.planner")


def plan_instances(
    wishes: list[dict[str, t.Any]],
    gpu: dict[str, t.Any] | None,
    host: str = "this host",
    own: list[dict[str, t.Any]] | None = None,
    peers: dict[str, t.Any] | None = None,
    listening: list[dict[str, t.Any]] | None = None,
    dead: dict[str, str] | None = None,
    idle_mib: int = IDLE_MIB,
    first_port: int = ports.FIRST_PORT,
    tentative: bool = False,
    leaving: list[t.Any] | None = None,
) -> list[dict[str, t.Any]]:
    """Plan the instances of one host."""
    try:
        return planner.plan(
            wishes,
            gpu,
            host=str(host),
            own=own or [],
            peers=peers or {},
            listening=listening or [],
            dead=dead or {},
            idle_mib=int(idle_mib),
            first_port=int(first_port),
            tentative=bool(tentative),
            leaving=leaving or [],
        )
    except PlanError as exc:
        raise AnsibleFilterError(str(exc)) from exc


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Name to function."""
        return {"plan_instances": plan_instances}
