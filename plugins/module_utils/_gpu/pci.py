# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""NVIDIA devices on the PCI bus, from /sys: what can be said without any driver. Private to this collection."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.inferlab.dflash.plugins.module_utils._gpu.host import Host

_DEVICES = "/sys/bus/pci/devices"
_VENDOR = "0x10de"
_IDS = ("/usr/share/misc/pci.ids", "/usr/share/hwdata/pci.ids")


def _names(host: Host, wanted: t.Collection[str]) -> dict[str, str]:
    """Names of device ids of the vendor, from pci.ids."""
    for path in _IDS:
        text = host.read(path)
        if text:
            start = text.find("\n10de  ")
            vendor = re.split(r"\n(?=[0-9a-f]{4}  )", text[start + 1 :], maxsplit=1)[0] if start >= 0 else ""
            found = re.findall(r"^\t([0-9a-f]{4})  (.+)$", vendor, re.MULTILINE)
            return {device: name for device, name in found if device in wanted}
    return {}


def numa_node(host: Host, address: str) -> int | None:
    """The NUMA node of a PCI address in the kernel's spelling; None where the machine has none (-1)."""
    text = (host.read(f"{_DEVICES}/{address}/numa_node") or "").strip()
    return int(text) if text.isdigit() else None


def read(host: Host) -> dict[str, t.Any]:
    """{readable, gpus: [{pci_bus_id, pci_device_id, name}], nvswitches: n}."""
    gpus: list[dict[str, t.Any]] = []
    switches = 0
    for address in host.listdir(_DEVICES):
        base = f"{_DEVICES}/{address}"
        if (host.read(f"{base}/vendor") or "").strip() != _VENDOR:
            continue
        kind = (host.read(f"{base}/class") or "").strip()
        device = (host.read(f"{base}/device") or "").strip()[2:]
        # 0300 VGA, 0302 3D controller; 0680 "other bridge" of this vendor is an NVSwitch.
        if kind.startswith(("0x0300", "0x0302")):
            gpus.append({"pci_bus_id": address, "pci_device_id": f"10de:{device}", "name": None})
        elif kind.startswith("0x0680"):
            switches += 1
    if gpus:
        names = _names(host, {gpu["pci_device_id"][5:] for gpu in gpus})
        for gpu in gpus:
            gpu["name"] = names.get(gpu["pci_device_id"][5:])
    return {"readable": host.exists(_DEVICES), "gpus": gpus, "nvswitches": switches}
