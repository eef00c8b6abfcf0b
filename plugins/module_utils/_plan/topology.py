# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which GPUs belong together: peer-to-peer links, NUMA nodes, and boards on which peer-to-peer is known to hang."""

from __future__ import annotations

import itertools
import re
import typing as t

#: Best link first; what nvidia-smi's topology matrix calls them. NV<n> (NVLink) precedes all of these.
_LINKS = ("PIX", "PXB", "PHB", "NODE", "SYS")

# Boards without NVSwitch whose NCCL peer-to-peer over PCIe hangs or faults on many machines (IOMMU, virtual machines,
# NVIDIA/nccl issues 1999 and 2418; the server edition of the RTX PRO 6000 is the same board). A100, H100, L40S are not
# in this list.
_WORKSTATION = re.compile(r"\b(?:GeForce|Quadro|TITAN|RTX\s+(?:PRO\s+)?A?\d{3,4})\b", re.IGNORECASE)

P2P_VARIABLE = "NCCL_P2P_DISABLE"


def pair(p2p: t.Iterable[t.Mapping[str, t.Any]] | None, one: str, two: str) -> dict[str, t.Any]:
    """The entry of the P2P matrix for two UUIDs in either order; empty when unknown."""
    for entry in p2p or []:
        if {entry.get("a"), entry.get("b")} == {one, two}:
            return dict(entry)
    return {}


def _rank(entry: t.Mapping[str, t.Any]) -> int:
    """0 is best. A pair that cannot do P2P is worse than any that can; unknown lies between."""
    link = str(entry.get("link") or "")
    if link.startswith("NV") and link != "NODE":
        return 0
    if entry.get("ok") is False:
        return 20
    if link in _LINKS:
        return 1 + _LINKS.index(link)
    return 10


def choose_group(
    devices: t.Sequence[t.Mapping[str, t.Any]],
    size: int,
    p2p: t.Iterable[t.Mapping[str, t.Any]] | None,
) -> list[t.Mapping[str, t.Any]]:
    """The ``size`` devices that belong together best: links first, then one NUMA node, then the lowest index.

    Up to 16 candidates every group is compared, which is 12,870 groups at most.
    """
    matrix = list(p2p or [])
    candidates = sorted(devices, key=lambda device: (device.get("index") is None, device.get("index")))[:16]
    if len(candidates) < size:
        raise ValueError(f"{size} of {len(candidates)} devices asked for")
    if size == 1:
        return candidates[:1]
    ranks = {
        frozenset((a["uuid"], b["uuid"])): _rank(pair(matrix, a["uuid"], b["uuid"]))
        for a, b in itertools.combinations(candidates, 2)
    }

    def cost(group: tuple[t.Mapping[str, t.Any], ...]) -> tuple[int, int, int]:
        links = [ranks[frozenset((a["uuid"], b["uuid"]))] for a, b in itertools.combinations(group, 2)]
        # The slowest link decides how fast a collective is.
        return max(links), sum(links), len({device.get("numa_node") for device in group})

    # min() keeps the first of equals, and combinations come in the order of the index.
    return list(min(itertools.combinations(candidates, size), key=cost))


def p2p_advice(
    group: t.Sequence[t.Mapping[str, t.Any]],
    p2p: t.Iterable[t.Mapping[str, t.Any]] | None,
) -> str | None:
    """Why NCCL's peer-to-peer is to be turned off for this group, or None."""
    if len(group) < 2:
        return None
    matrix = list(p2p or [])
    entries = [pair(matrix, a["uuid"], b["uuid"]) for a, b in itertools.combinations(group, 2)]
    if all(_rank(entry) == 0 for entry in entries):
        return None
    boards = sorted({str(d.get("name")) for d in group if _is_workstation(d.get("name"))})
    if any(entry.get("ok") is False for entry in entries):
        return "the P2P matrix says that not all of these GPUs can reach each other"
    if boards:
        return (
            f"{', '.join(boards)}: a PCIe workstation board, on which NCCL peer-to-peer without NVLink is known to hang"
        )
    return None


def _is_workstation(name: t.Any) -> bool:
    return bool(name) and bool(_WORKSTATION.search(str(name)))


def numa_node(group: t.Sequence[t.Mapping[str, t.Any]]) -> int | None:
    """The one NUMA node of all these GPUs, or None when they are spread or it is unknown."""
    nodes = {device.get("numa_node") for device in group}
    node = nodes.pop() if len(nodes) == 1 else None
    return node if isinstance(node, int) and node >= 0 else None
