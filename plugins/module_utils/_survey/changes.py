# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What differs between two surveys, as short facts that a person would have written down."""

from __future__ import annotations

import typing as t

Facets = dict[str, str]


def facets(host: t.Mapping[str, t.Any]) -> Facets:
    """Return a host as {what: how it is}. Only what is stable by nature: no loads, no process ids, no free space."""
    said: Facets = {"verdict": str(host.get("state"))}

    def say(what: str, value: t.Any) -> None:
        if value not in (None, "", [], {}):
            said[what] = str(value)

    driver = host.get("driver") or {}
    for key, label in (
        ("state", "driver"),
        ("kernel_module_version", "kernel module"),
        ("user_space_version", "driver user space"),
        ("on_disk_module_version", "module on disk"),
    ):
        say(label, driver.get(key))
    for gpu in host.get("gpus") or []:
        say(
            f"GPU {gpu['index']} {gpu['name']} {gpu['uuid']}",
            "free" if gpu["free"] else "own" if gpu["own"] else "held",
        )
    for item in host.get("findings") or []:
        say(f"finding {item['code']}", item["severity"])
    survey = host.get("survey")
    if survey:
        say("kernel", survey["host"].get("kernel"))
        say("system", (survey["host"].get("os") or {}).get("name"))
        say("boot", survey["host"].get("boot_id"))
        for unit in survey["services"]:
            say(f"service {unit['unit']}", f"{unit['active']} ({unit['sub']})" if unit["active"] else "known")
        running: dict[str, int] = {}
        for process in survey["processes"]:
            running[f"{process['kind']} {process['command']}"] = (
                running.get(f"{process['kind']} {process['command']}", 0) + 1
            )
        for what, count in running.items():
            say(f"process {what}", f"{count} running")
        for port in survey["ports"]:
            say(f"port {port['port']} on {port['address']}", port["command"] or "held")
        for environment in survey["environments"]:
            say(f"environment {environment['path']}", f"Python {environment['python']}")
            for package, version in environment["packages"].items():
                say(f"{package} in {environment['path']}", version)
        for checkout in survey["checkouts"]:
            say(f"checkout {checkout['path']}", f"{checkout['branch'] or 'detached'} {checkout['commit']}")
        for model in survey["models"]:
            say(f"model {model['path']}", f"{model['role']}, {model['size_mib']} MiB")
        for toolkit in survey["cuda_toolkits"]:
            say(f"CUDA toolkit {toolkit['path']}", toolkit["version"] or "version unknown")
    return said


def between(
    before: t.Mapping[str, t.Mapping[str, t.Any]], after: t.Mapping[str, t.Mapping[str, t.Any]]
) -> list[dict[str, t.Any]]:
    """Return the differences as {host, what, before, after}, hosts of the later survey first.

    A host that the later survey was not asked about is no difference: surveys are often limited to a part of the fleet.
    A host that answers only now, or no longer, is told as that alone, not fact by fact.
    """
    found = []
    for name, host in after.items():
        if name not in before:
            found.append(
                {"host": name, "what": "host", "before": None, "after": f"surveyed for the first time, {host['state']}"}
            )
            continue
        old, new = facets(before[name]), facets(host)
        if "unreachable" in (old["verdict"], new["verdict"]):
            old, new = {"verdict": old["verdict"]}, {"verdict": new["verdict"]}
        for what in [*new, *(what for what in old if what not in new)]:
            if old.get(what) != new.get(what):
                found.append({"host": name, "what": what, "before": old.get(what), "after": new.get(what)})
    return found


def in_words(change: t.Mapping[str, t.Any]) -> str:
    """Return a change as one line."""
    before, after = change["before"], change["after"]
    if before is None:
        return f"{change['host']}: {change['what']}: new, {after}"
    if after is None:
        return f"{change['host']}: {change['what']}: gone, was {before}"
    return f"{change['host']}: {change['what']}: {before} -> {after}"
