# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether two systems are one machine. Private to this collection."""

from __future__ import annotations

import typing as t

from ansible_collections.inferlab.dflash.plugins.module_utils._gpu import container as _container
from ansible_collections.inferlab.dflash.plugins.module_utils._gpu.host import Host

ALIAS = "alias"
HOST_AND_GUEST = "host_and_guest"
DIFFERENT = "different"


def read(host: Host, container: str | None = None) -> dict[str, t.Any]:
    """{machine_id, boot_id, container}; what cannot be read is None."""
    return {
        "machine_id": (host.read("/etc/machine-id") or "").strip() or None,
        "boot_id": (host.read("/proc/sys/kernel/random/boot_id") or "").strip() or None,
        "container": container or _container.kind(host),
    }


def relation(one: t.Mapping[str, t.Any], other: t.Mapping[str, t.Any]) -> str:
    """alias: one machine under two names; host_and_guest: shared GPUs, software of their own; else different.

    Two systems that share GPU UUIDs are host and guest whatever their boot ids say: a guest with GPUs passed through has its
    own kernel. The boot id alone proves nothing, for containers on one machine share it without sharing GPUs.
    """
    if one.get("machine_id") and one.get("machine_id") == other.get("machine_id"):
        return ALIAS
    shared = set(one.get("gpu_uuids") or ()) & set(other.get("gpu_uuids") or ())
    return HOST_AND_GUEST if shared else DIFFERENT
