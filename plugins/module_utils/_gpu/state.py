# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state of the driver, decided from what was collected. Pure functions. Private to this collection."""

from __future__ import annotations

import typing as t

from ansible_collections.inferlab.dflash.plugins.module_utils._gpu import container, parse

NO_GPU = "no_gpu"
NO_DRIVER = "no_driver"
MODULE_ONLY = "module_only"
LIBRARY_ONLY = "library_only"
MISMATCH = "mismatch"
HEALTHY = "healthy"
UNKNOWN = "unknown"

NVML_VERSION_MISMATCH = 18


def differ(module: str | None, library: str | None) -> bool:
    """Whether two known versions name different drivers. A shorter spelling of the same version is no difference."""
    return parse.same_version(module, library) is False


def decide(evidence: t.Mapping[str, t.Any]) -> tuple[str, str | None]:
    """(state, reason) from the keys module_version, module_loaded, user_space_version, library_found, nvml_asked,
    nvml_error, nvml_code, gpus_seen, container and live. reason is a sentence where the state needs one."""
    module, library = evidence["module_version"], evidence["user_space_version"]
    # On WSL the module is Windows' own and the versions differ by design: only NVML's answer counts.
    comparable = evidence["container"] != container.WSL
    if evidence["nvml_code"] == NVML_VERSION_MISMATCH:
        return MISMATCH, "NVML: driver/library version mismatch"
    if comparable and differ(module, library):
        return MISMATCH, f"the loaded module is {module}, the user-space library {library}"
    if evidence["nvml_asked"] and not evidence["nvml_error"]:
        return HEALTHY, None
    if evidence["module_loaded"] and not evidence["library_found"]:
        return MODULE_ONLY, "a module is loaded and libnvidia-ml.so.1 is not installed"
    if evidence["library_found"] and not evidence["module_loaded"] and comparable:
        return LIBRARY_ONLY, "libnvidia-ml.so.1 is installed and no nvidia module is loaded"
    if not evidence["library_found"] and not evidence["module_loaded"]:
        if evidence["gpus_seen"]:
            return NO_DRIVER, "an NVIDIA GPU is on the PCI bus, and neither module nor library is there"
        return NO_GPU, None
    if not evidence["live"] and module and library:
        return HEALTHY, "judged by versions alone: NVML cannot be asked below a root other than /"
    if not evidence["nvml_asked"]:
        return UNKNOWN, "neither nvidia-ml-py nor nvidia-smi is there to ask NVML"
    return UNKNOWN, f"versions agree, and NVML does not work: {evidence['nvml_error']}"


def reboot_required(module: str | None, next_boot: str | None, kind: str | None) -> bool | None:
    """Whether the next boot loads another module than the one that runs; None where that is not known or not ours."""
    if not container.has_own_kernel(kind) or not module or not next_boot:
        return None
    return differ(module, next_boot)
