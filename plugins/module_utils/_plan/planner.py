# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""From wishes and facts to GPUs, port and environment for each instance of a host."""

from __future__ import annotations

import typing as t

from . import identity, ports, topology
from .errors import PlanError
from .occupancy import IDLE_MIB, Own, assess, describe_gpu, merge_views, unit_name

#: More than this share of a GPU planned for several instances leaves no room for CUDA contexts and activations.
MOST_SHARED = 0.9


def _own(
    wishes: t.Sequence[t.Mapping[str, t.Any]],
    records: t.Sequence[t.Mapping[str, t.Any]],
    gpu: t.Any,
    leaving: t.Sequence[t.Any],
) -> Own:
    units = frozenset(unit_name(wish["name"]) for wish in wishes)
    recorded: dict[str, list[str]] = {}
    for record in records:
        unit = unit_name(str(record.get("name")))
        if unit in units and record.get("active"):
            for uuid in record.get("gpus") or []:
                recorded.setdefault(str(uuid), []).append(unit)
    container = ((gpu or {}).get("identity") or {}).get("container")
    listed = [entry.get("unit") or entry.get("command") if isinstance(entry, dict) else entry for entry in leaving]
    return Own(units, recorded, bool(container) and container != "none", tuple(str(entry) for entry in listed if entry))


def _not_free(devices: t.Sequence[t.Mapping[str, t.Any]], verdicts: t.Mapping[str, t.Mapping[str, t.Any]]) -> str:
    lines = []
    for device in devices:
        verdict = verdicts[str(device.get("uuid"))]
        if not verdict["free"]:
            used = device.get("memory_used_mib")
            used = "" if used is None else f", {used} of {device.get('memory_total_mib')} MiB used"
            lines.append(f"{describe_gpu(device)}{used}: {'; '.join(verdict['reasons'])}")
    return " | ".join(lines)


def _state(gpu: t.Mapping[str, t.Any]) -> str:
    return str((gpu.get("driver") or {}).get("state") or "unknown")


class _Host:
    """The GPUs of one host while its instances are planned."""

    def __init__(
        self,
        name: str,
        wishes: t.Sequence[t.Mapping[str, t.Any]],
        gpu: t.Mapping[str, t.Any] | None,
        records: t.Sequence[t.Mapping[str, t.Any]],
        views: t.Mapping[str, t.Mapping[str, t.Any] | None],
        dead: t.Mapping[str, str],
        idle_mib: int,
        tentative: bool,
        leaving: t.Sequence[t.Any],
    ) -> None:
        self.name = name
        self.wishes = wishes
        self.gpu = gpu or {}
        self.recorded = {str(r.get("name")): list(r.get("gpus") or []) for r in records}
        self.devices = []
        for device in self.gpu.get("devices") or []:
            others = {
                host: other
                for host, view in views.items()
                for other in (view or {}).get("devices") or []
                if device.get("uuid") and other.get("uuid") == device.get("uuid")
            }
            self.devices.append(merge_views(device, others) if others else dict(device))
        own = _own(wishes, records, self.gpu, leaving)
        # Under a broken driver neither memory nor processes can be read, and sometimes not even the UUIDs.
        self.tentative = tentative and _state(self.gpu) != "healthy"
        self.verdicts = {str(d.get("uuid")): assess(d, own, idle_mib, dead, self.tentative) for d in self.devices}
        #: UUID to the names of what was planned on it.
        self.taken: dict[str, list[str]] = {}

    def free(self) -> list[dict[str, t.Any]]:
        return [
            device
            for device in self.devices
            if device.get("uuid") and self.verdicts[device["uuid"]]["free"] and device["uuid"] not in self.taken
        ]

    def take(self, name: str, group: t.Sequence[t.Mapping[str, t.Any]]) -> None:
        for device in group:
            self.taken.setdefault(device["uuid"], []).append(name)

    def set_aside(self) -> list[str]:
        return [
            f"{describe_gpu(device)} {'; '.join(self.verdicts[str(device.get('uuid'))]['reasons'])}"
            for device in self.devices
            if self.verdicts[str(device.get("uuid"))]["dead"]
        ]

    def explicit(self, wish: t.Mapping[str, t.Any]) -> list[dict[str, t.Any]]:
        """The GPUs that a wish names, or a refusal that names what is wrong with one of them."""
        by_uuid = {device.get("uuid"): device for device in self.devices}
        group = []
        for uuid in wish["gpus"]:
            what = f"instance {wish['name']} on {self.name}: gpus {uuid}"
            if uuid not in by_uuid:
                there = ", ".join(describe_gpu(device) for device in self.devices) or "none"
                raise PlanError(what, f"this host has no such GPU; it has {there}", "Name one of these, or gpus: auto")
            if not self.verdicts[uuid]["free"]:
                raise PlanError(
                    what,
                    f"it is not free: {_not_free([by_uuid[uuid]], self.verdicts)}",
                    "Name a free GPU, use gpus: auto, or end the holder yourself (a listed one through stop_first)",
                )
            if uuid in self.taken:
                self._check_sharing(what, uuid, wish)
            group.append(by_uuid[uuid])
        return group

    def _check_sharing(self, what: str, uuid: str, wish: t.Mapping[str, t.Any]) -> None:
        names = [*self.taken[uuid], wish["name"]]
        shares = [w["mem_fraction"] for w in self.wishes if w["name"] in names]
        if len(shares) < len(names):
            raise PlanError(what, f"{', '.join(self.taken[uuid])} is planned on it", "Choose another GPU")
        if any(share is None for share in shares) or sum(shares) > MOST_SHARED:
            raise PlanError(
                what,
                f"{', '.join(names)} would share it with mem_fraction {', '.join(str(s) for s in shares)}",
                f"Give each of them a mem_fraction, together at most {MOST_SHARED}, or another GPU",
            )

    def automatic(self, wish: t.Mapping[str, t.Any]) -> list[t.Mapping[str, t.Any]]:
        """The GPUs it has by record where they still are free, so that a second run changes nothing; else the best."""
        free = self.free()
        size = wish["tp_size"]
        before = self.recorded.get(wish["name"], [])
        kept = [device for uuid in before for device in free if device["uuid"] == uuid]
        if before and len(kept) == len(before) == size:
            return kept
        nameless = sum(1 for device in self.devices if not device.get("uuid"))
        if self.tentative and len(free) < size <= len(free) + nameless:
            return []
        if len(free) < size:
            planned = [f"{uuid} is planned for {', '.join(names)}" for uuid, names in self.taken.items()]
            held = " | ".join(part for part in (_not_free(self.devices, self.verdicts), *planned) if part)
            raise PlanError(
                f"instance {wish['name']} on {self.name}: tp_size {size} needs {size} free GPU{'s' * (size > 1)}",
                f"{len(free)} of {len(self.devices)} is free. Holders: {held or 'none, the host has too few GPUs'}",
                "Lower tp_size, end a holder yourself, or list it in dflash_stop_first; nothing was touched",
            )
        return topology.choose_group(free, size, self.gpu.get("p2p"))


def _needs_gpu(host: _Host, wish: t.Mapping[str, t.Any], tentative: bool) -> tuple[str, bool, list[str]]:
    """The backend, whether GPUs are to be chosen, and warnings; a refusal where the host cannot serve the wish."""
    what = f"instance {wish['name']} on {host.name}"
    state = _state(host.gpu)
    backend = wish["engine_backend"]
    if backend == "auto":
        backend = "sglang" if host.devices else "transformers"
    on_cpu = wish["gpus"] == [] or (not host.devices and backend == "transformers")
    if on_cpu:
        if backend == "sglang":
            raise PlanError(
                f"{what}: gpus []", "the sglang backend needs an NVIDIA GPU", "Set engine_backend: transformers"
            )
        if wish["gpus"] not in ([], "auto"):
            host.explicit(wish)
        if wish["tp_size"] > 1:
            raise PlanError(
                f"{what}: tp_size {wish['tp_size']}", "on the CPU there is nothing to divide", "Set tp_size: 1"
            )
        odd = state not in ("no_gpu", "healthy") and wish["gpus"] != []
        return backend, False, [f"driver state is {state} and no GPU is visible: planned on the CPU"] if odd else []
    if not host.devices:
        if state == "no_gpu":
            way_out = "Deploy to a GPU host, or set engine_backend: transformers"
            raise PlanError(f"{what}: engine_backend {backend}", "this host has no NVIDIA GPU", way_out)
        raise PlanError(
            f"{what}: engine_backend {backend}",
            f"no GPU is visible, the driver's state is {state}",
            "Repair the driver first: ansible-playbook inferlab.dflash.reconcile_driver",
        )
    if backend == "transformers" and wish["tp_size"] > 1:
        raise PlanError(f"{what}: tp_size {wish['tp_size']}", "the transformers backend uses one GPU", "Set tp_size: 1")
    if state != "healthy":
        if not tentative:
            raise PlanError(
                what,
                f"the driver's state is {state}, so no CUDA context can be opened",
                "Repair the driver first: ansible-playbook inferlab.dflash.reconcile_driver",
            )
        return backend, True, [f"driver state is {state}: this plan holds once the driver is repaired"]
    return backend, True, []


def _environment(
    wish: t.Mapping[str, t.Any], group: t.Sequence[t.Mapping[str, t.Any]], p2p: t.Any
) -> tuple[dict, list]:
    env: dict[str, str] = {}
    warnings: list[str] = []
    if group:
        env["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
        env["CUDA_VISIBLE_DEVICES"] = ",".join(device["uuid"] for device in group)
    advice = topology.p2p_advice(group, p2p)
    if advice and topology.P2P_VARIABLE in wish["env"]:
        warnings.append(
            f"{topology.P2P_VARIABLE}={wish['env'][topology.P2P_VARIABLE]} is kept as given, although {advice}"
        )
    elif advice:
        env[topology.P2P_VARIABLE] = "1"
        warnings.append(f"{topology.P2P_VARIABLE}=1 is set: {advice}")
    return {**env, **wish["env"]}, warnings


def _plan_host(host: _Host, tentative: bool) -> list[dict[str, t.Any]]:
    """GPUs for all wishes of a host: named ones first, so that ``auto`` never takes what another instance names."""
    groups: dict[str, tuple[str, t.Sequence[t.Mapping[str, t.Any]], list[str]]] = {}
    keeps = {name for name, gpus in host.recorded.items() if gpus}
    order = sorted(host.wishes, key=lambda w: 0 if isinstance(w["gpus"], list) else 1 if w["name"] in keeps else 2)
    for wish in order:
        backend, gpu_wanted, warnings = _needs_gpu(host, wish, tentative)
        group: t.Sequence[t.Mapping[str, t.Any]] = []
        if gpu_wanted:
            group = host.explicit(wish) if isinstance(wish["gpus"], list) else host.automatic(wish)
            host.take(wish["name"], group)
        groups[wish["name"]] = (backend, group, warnings)
    aside = host.set_aside()
    several_nodes = len({device.get("numa_node") for device in host.devices} - {None, -1}) > 1
    container = (host.gpu.get("identity") or {}).get("container")
    result = []
    for wish in host.wishes:
        backend, group, warnings = groups[wish["name"]]
        env, notes = _environment(wish, group, host.gpu.get("p2p"))
        node = topology.numa_node(group) if several_nodes and container in (None, "none", "") else None
        result.append(
            {
                **wish,
                "engine_backend": backend,
                "gpus": [device["uuid"] for device in group],
                "devices": [{key: device.get(key) for key in ("index", "uuid", "name")} for device in group],
                "env": env,
                "numa": None if node is None else {"node": node},
                "warnings": warnings + notes + (aside if group else []),
            }
        )
    return result


def plan(
    wishes: t.Sequence[t.Mapping[str, t.Any]],
    gpu: t.Mapping[str, t.Any] | None,
    host: str = "this host",
    own: t.Sequence[t.Mapping[str, t.Any]] = (),
    peers: t.Mapping[str, t.Mapping[str, t.Any]] | None = None,
    listening: t.Sequence[t.Mapping[str, t.Any]] = (),
    dead: t.Mapping[str, str] | None = None,
    idle_mib: int = IDLE_MIB,
    first_port: int = ports.FIRST_PORT,
    tentative: bool = False,
    leaving: t.Sequence[t.Any] = (),
) -> list[dict[str, t.Any]]:
    """Plan the instances of one host.

    :arg wishes: complete instances, as ``wishes.normalise`` returns them.
    :arg gpu: ``ansible_facts.gpu`` of the host.
    :arg own: records of instances on the host: ``name``, ``gpus``, ``port``, ``active``.
    :arg peers: other hosts of the play: ``gpu``, ``wishes``, ``own``. Those that share GPUs with this host (host and
        guest)
        are planned jointly, in the order of their names, so that every host computes the same division.
    :arg dead: UUID to reason of GPUs that failed to open a CUDA context, on any of these hosts.
    :arg tentative: plan although the driver is not healthy yet (check mode before a repair); said in the warnings.
    :arg leaving: what is stopped before anything is started (entries of module stop_first); it holds nothing in this plan.
    :raises PlanError: naming the holders.
    """
    peers = dict(peers or {})
    peers.pop(host, None)
    facts = {name: peer.get("gpu") for name, peer in peers.items()}
    joint = identity.sharing(host, {**facts, host: gpu})
    views = {**{name: facts[name] for name in joint}, host: gpu}
    taken: dict[str, list[str]] = {}
    for name in sorted([*joint, host]):
        mine = name == host
        records = own if mine else peers[name].get("own") or []
        its_wishes = wishes if mine else peers[name].get("wishes") or []
        others = {other: view for other, view in views.items() if other != name}
        state = _Host(
            name, its_wishes, views[name], records, others, dead or {}, idle_mib, tentative, leaving if mine else ()
        )
        state.taken = {uuid: list(names) for uuid, names in taken.items()}
        if mine:
            result = _plan_host(state, tentative)
            break
        try:
            _plan_host(state, tentative)
        except PlanError:
            # The other host says so itself, and takes nothing.
            continue
        taken = {uuid: [n if " of " in n else f"{n} of {name}" for n in names] for uuid, names in state.taken.items()}
    recorded = {str(record.get("name")): int(record["port"]) for record in own if record.get("port")}
    units = {unit_name(wish["name"]) for wish in wishes}
    assigned = ports.assign(wishes, listening, units, recorded, first_port)
    return [{**instance, "port": assigned[instance["name"]]} for instance in result]
