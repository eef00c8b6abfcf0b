#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_facts
short_description: Facts about NVIDIA GPUs and their driver that survive a broken driver
version_added: 1.0.0
description:
  - Returns the driver's state, every version that takes part in it (loaded kernel module, module on disk for the running
    and for the next boot's kernel, user-space library, tools), and the GPUs with their processes and their topology.
  - It never fails because a driver is absent, broken or of two versions; finding that out is what it is for. What could
    not be read is V(null), with the reason in RV(ansible_facts.gpu.warnings).
  - Sources, in this order, are NVML through C(nvidia-ml-py) where the host's Python has it, C(nvidia-smi),
    C(/proc/driver/nvidia), C(/sys) and the PCI bus. RV(ansible_facts.gpu.sources) says which gave what. Native calls run in
    a child process with a time limit, because a driver fault can hang or kill the caller.
  - Versions are the full strings that were read, such as C(580.126.09).
author:
  - inferlab.dflash contributors (@inferlab)
options:
  gather_subset:
    description:
      - What to gather. V(driver) is always gathered; V(min) is that alone, V(all) is everything.
      - Also V(devices), V(processes), V(topology), V(packages) and V(toolkits); a leading V(!) leaves one out.
    type: list
    elements: str
    default: [all]
  root:
    description:
      - Read the system below this directory. With any other than V(/) no program of it is run, NVML is not asked, and a
        healthy state is judged by versions alone.
    type: path
    default: /
  container:
    description:
      - The kind of container that the host is, in place of what is detected; V(none) is a machine with a kernel of its
        own, V(auto) detects. For systems where detection is misled.
    type: str
    default: auto
  timeout:
    description: Seconds that NVML and each program may take.
    type: int
    default: 20
attributes:
  check_mode:
    description: Can run in check mode; it changes nothing in either mode.
    support: full
  diff_mode:
    description: Has no diff, since it changes nothing.
    support: none
seealso:
  - module: inferlab.dflash.driver_reconcile
"""

EXAMPLES = r"""
- name: Learn about the GPUs of a host
  inferlab.dflash.gpu_facts:

- name: Stop here unless the driver is sound
  ansible.builtin.assert:
    that: ansible_facts['gpu'].driver.state == 'healthy'
    fail_msg: "{{ ansible_facts['gpu'].driver }}"

- name: The driver alone, from a root file system that is mounted elsewhere
  inferlab.dflash.gpu_facts:
    gather_subset: [min]
    root: /mnt/image
"""

RETURN = r"""
ansible_facts:
  description: Facts to add to C(ansible_facts).
  returned: always
  type: dict
  contains:
    gpu:
      description: GPUs and driver.
      returned: always
      type: dict
      contains:
        schema:
          description: Version of this structure.
          type: int
          returned: always
        sources:
          description: Which source gave which part.
          type: dict
          returned: always
        warnings:
          description: What could not be read, and why.
          type: list
          elements: dict
          returned: always
          contains:
            field: {description: The field that is V(null)., type: str, returned: always}
            reason: {description: Why., type: str, returned: always}
        identity:
          description: What tells machines apart.
          type: dict
          returned: always
          contains:
            machine_id: {description: The machine id., type: str, returned: always}
            boot_id: {description: The boot id; containers share their host's., type: str, returned: always}
            gpu_uuids: {description: UUIDs of the GPUs., type: list, elements: str, returned: always}
            container:
              description: V(none), V(lxc), V(docker), V(podman), V(wsl), or another manager's own name.
              type: str
              returned: always
        driver:
          description: The driver. Each version is a full string or V(null).
          type: dict
          returned: always
          contains:
            state:
              description:
                - V(no_gpu), V(no_driver), V(module_only), V(library_only), V(mismatch), V(healthy) or V(unknown).
                - V(healthy) means that NVML initialises and no two known versions differ; V(mismatch) that two known
                  versions differ or that NVML says so.
              type: str
              returned: always
            kernel_module_version: {description: Version of the loaded module., type: str, returned: always}
            module_flavour: {description: V(open) or V(proprietary)., type: str, returned: always}
            running_kernel: {description: Release of the running kernel., type: str, returned: always}
            on_disk_module_version:
              description: Version of the module on disk for the running kernel.
              type: str
              returned: always
            next_boot_kernel: {description: The kernel that the next boot takes., type: str, returned: always}
            next_boot_module_version: {description: Version of the module on disk for it., type: str, returned: always}
            next_boot_module_flavour: {description: Its flavour., type: str, returned: always}
            next_boot_module_path: {description: Its file., type: str, returned: always}
            next_boot_unchanged:
              description:
                - Whether that file and the kernel's initramfs are older than this boot, so that the next one loads the version that
                  this one did.
              type: bool
              returned: always
            module_provider:
              description: Who put it there; V(dkms), V(prebuilt) by a package, or V(run) by the vendor's installer.
              type: str
              returned: always
            module_package: {description: The package that owns that file., type: str, returned: always}
            dkms: {description: What dkms knows of the module., type: list, elements: dict, returned: always}
            user_space_version: {description: Version of the user-space library., type: str, returned: always}
            library_path: {description: The file behind C(libnvidia-ml.so.1)., type: str, returned: always}
            library_package: {description: The package that owns it., type: str, returned: always}
            library_mounted:
              description: Whether it is a mount of its own, as a container's runtime makes them.
              type: bool
              returned: always
            library_versions:
              description: Versions of all driver libraries found; more than one is a mixed installation.
              type: list
              elements: str
              returned: always
            library_sources:
              description: For each of these versions, the package that put it there; V(null) for files that no package owns.
              type: list
              elements: dict
              returned: always
            nvml_reported:
              description: The version that NVML prints; two components before R610.
              type: str
              returned: always
            nvml_driver_version: {description: The driver version that NVML reports., type: str, returned: always}
            nvml_error: {description: Code and text of NVML's failure., type: dict, returned: always}
            nvidia_smi_version: {description: Version of nvidia-smi., type: str, returned: always}
            driver_cuda: {description: The CUDA level that the driver supports., type: str, returned: always}
            fabric_manager_version: {description: Version of Fabric Manager., type: str, returned: always}
            persistenced_version: {description: Version of nvidia-persistenced., type: str, returned: always}
            container_toolkit_version:
              description: Version of the container toolkit.
              type: str
              returned: when V(toolkits) is gathered
            cuda_toolkits:
              description: CUDA toolkits found.
              type: list
              elements: dict
              returned: when V(toolkits) is gathered
            nvswitches: {description: Number of NVSwitch bridges on the PCI bus., type: int, returned: always}
            reboot_required:
              description: Whether the next boot loads another module version than the one that runs.
              type: bool
              returned: always
            packages:
              description: Installed packages that carry one of the driver versions found.
              type: list
              elements: dict
              returned: when V(packages) is gathered
            package_manager:
              description: V(dpkg) or V(rpm).
              type: str
              returned: when V(packages) is gathered
        devices:
          description:
            - The GPUs, from NVML or, while that fails, from C(/proc) and the PCI bus with most fields V(null).
            - Memory is in MiB, power in W, temperature in degrees Celsius, clocks in MHz, utilisation in per cent.
          type: list
          elements: dict
          returned: always
          contains:
            index: {description: NVML index., type: int, returned: always}
            uuid: {description: UUID., type: str, returned: always}
            name: {description: Product name., type: str, returned: always}
            architecture: {description: Architecture., type: str, returned: always}
            compute_capability: {description: "Compute capability, such as C(8.6).", type: str, returned: always}
            pci_bus_id: {description: PCI address as NVML writes it., type: str, returned: always}
            numa_node: {description: NUMA node., type: int, returned: always}
            memory_total_mib:
              description: Memory. V(null) with RV(ansible_facts.gpu.devices[].unified_memory) where it is the system's.
              type: int
              returned: always
            memory_used_mib: {description: Used memory., type: int, returned: always}
            unified_memory: {description: Whether the GPU shares the system's memory., type: bool, returned: always}
            mig_mode: {description: Whether MIG is enabled., type: bool, returned: always}
            processes:
              description: Processes on the GPU; V(null) when they could not be read.
              type: list
              elements: dict
              returned: always
              contains:
                pid: {description: Process id., type: int, returned: always}
                type: {description: "C(C) compute, C(G) graphics, C(C+G) both.", type: str, returned: always}
                user: {description: User., type: str, returned: always}
                command:
                  description: Program, and script or module of an interpreter. Arguments are left out; they can hold secrets.
                  type: str
                  returned: always
                unit: {description: systemd unit., type: str, returned: always}
                cgroup: {description: Control group., type: str, returned: always}
                guest: {description: Kind and id of the container it runs in., type: dict, returned: always}
                memory_mib: {description: GPU memory that it uses., type: int, returned: always}
        p2p:
          description: Each pair of GPUs once.
          type: list
          elements: dict
          returned: always
          contains:
            a: {description: UUID., type: str, returned: always}
            b: {description: UUID., type: str, returned: always}
            link: {description: "Path as C(nvidia-smi topo -m) names it, such as C(NV4), C(PIX) or C(SYS).", type: str, returned: always}
            ok: {description: Whether peer reads work in both directions., type: bool, returned: always}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.inferlab.dflash.plugins.module_utils._gpu import facts
from ansible_collections.inferlab.dflash.plugins.module_utils._gpu.host import Host


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "gather_subset": {"type": "list", "elements": "str", "default": ["all"]},
            "root": {"type": "path", "default": "/"},
            "container": {"type": "str", "default": "auto"},
            "timeout": {"type": "int", "default": 20},
        },
        supports_check_mode=True,
    )
    try:
        wanted = facts.subsets(module.params["gather_subset"])
    except ValueError as error:
        module.fail_json(msg=f"gather_subset: no such subset: {error}. Known: all, min, {', '.join(facts.SUBSETS)}.")
    host = Host(module.params["root"], timeout=module.params["timeout"])
    kind = None if module.params["container"] == "auto" else module.params["container"]
    module.exit_json(changed=False, ansible_facts={"gpu": facts.gather(host, wanted, kind)})


if __name__ == "__main__":
    main()
