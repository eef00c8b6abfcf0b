# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The addresses of running instances, as a router on one of the hosts reaches them. Pure."""

from __future__ import annotations

import typing as t


def addresses(hosts: t.Mapping[str, t.Mapping[str, t.Any]], here: str, model: str = "") -> list[str]:
    """``http://HOST:PORT`` of every running instance, hosts and instances in the order of their names.

    :arg hosts: host name to ``address`` and ``instances`` (of module dflash_instance_info).
    :arg here: the router's own host, whose instances are reached by the loopback address.
    :arg model: only instances that serve under this name; empty for all.
    :raises ValueError: when the instances serve under different names, which one router cannot tell apart.
    """
    result: list[str] = []
    served: dict[str, str] = {}
    for host in sorted(hosts):
        for instance in sorted(hosts[host].get("instances") or [], key=lambda entry: str(entry["name"])):
            record = instance.get("record") or {}
            name = str(record.get("served_model_name") or instance["name"])
            if record.get("role") == "router" or not instance.get("active") or not instance.get("port"):
                continue
            if model and name != model:
                continue
            address = "127.0.0.1" if host == here else str(hosts[host].get("address") or host)
            address = f"[{address}]" if ":" in address else address
            result.append(f"http://{address}:{instance['port']}")
            served.setdefault(name, f"{instance['name']} on {host}")
    if len(served) > 1:
        shown = ", ".join(f"{where} serves {name}" for name, where in sorted(served.items()))
        raise ValueError(f"one router serves one model: {shown}. Give them one served_model_name, or name the model")
    return result
