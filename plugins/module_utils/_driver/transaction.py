# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which package goes to which version: pure functions. Private to this collection.

The set that moves together is given by ownership and by the shared driver version (see _gpu.packages), never by names. What a
package manager can supply comes in as offers: {name, architecture, version, driver_version, source, path}, where source is
repository, archive (its cache) or directory, and path the file of the latter two.
"""

from __future__ import annotations

import typing as t

from ansible_collections.inferlab.dflash.plugins.module_utils._gpu import parse

_SOURCES = ("repository", "archive", "directory")

Package = dict[str, t.Any]
Offer = dict[str, t.Any]


def identity(package: t.Mapping[str, t.Any]) -> str:
    return f"{package['name']}:{package['architecture']}"


def _suffix(version: str) -> str:
    """The distribution's part of a version: -0ubuntu0.24.04.1."""
    upstream = parse.upstream_version(version) or ""
    return version.split(":", 1)[-1][len(upstream) :]


def _best(offers: t.Sequence[Offer], installed_version: str) -> Offer:
    """The offer that looks most like the installed package (same distribution revision), from the best source."""
    like = [offer for offer in offers if _suffix(offer["version"]) == _suffix(installed_version)]
    return min(like or offers, key=lambda offer: (_SOURCES.index(offer["source"]), offer["version"]))


def renamed(name: str, driver_version: str | None, target: str) -> str:
    """The name that a package has at the target version: some carry the version in it (nvidia-firmware-580-580.126.09)."""
    return name.replace(driver_version, target) if driver_version else name


def _change(package: Package, name: str, to: str, offer: Offer | None) -> dict[str, t.Any]:
    return {
        "name": name,
        "architecture": package["architecture"],
        "from": package["version"] if name == package["name"] else None,
        "to": to,
        "source": offer["source"] if offer else "repository",
        "path": offer["path"] if offer else None,
        "held": package["held"],
        "replaces": None if name == package["name"] else package["name"],
    }


def choose(members: t.Sequence[Package], target: str, offers: t.Sequence[Offer]) -> dict[str, t.Any]:
    """Move every member to the driver version `target`: {changes, kept, missing}.

    changes: [{name, architecture, from, to, source, path, held, replaces}]; kept: members that are there already; missing:
    [{name, can_be_had: [versions]}] for members that no offer takes there.
    """
    changes: dict[str, dict[str, t.Any]] = {}
    kept: list[Package] = []
    missing: list[dict[str, t.Any]] = []
    present = {identity(package) for package in members if package["driver_version"] == target}
    for package in members:
        if package["driver_version"] == target:
            kept.append(package)
            continue
        name = renamed(package["name"], package["driver_version"], target)
        wanted = f"{name}:{package['architecture']}"
        if wanted in present and name != package["name"]:
            continue  # the package that is named for the target version is there already
        usable = [offer for offer in offers if identity(offer) == wanted]
        fitting = [offer for offer in usable if offer["driver_version"] == target]
        if fitting:
            offer = _best(fitting, package["version"])
            changes[wanted] = _change(package, name, offer["version"], offer)
        elif name == package["name"]:
            can_be_had = sorted({offer["version"] for offer in usable})
            missing.append({"name": name, "architecture": package["architecture"], "can_be_had": can_be_had})
        # A package that has the version in its name and is not offered at the target is left to the dependencies.
    return {"changes": [changes[key] for key in sorted(changes)], "kept": kept, "missing": missing}


def restore(
    recorded: t.Sequence[t.Mapping[str, t.Any]], installed: t.Sequence[Package], offers: t.Sequence[Offer]
) -> dict[str, t.Any]:
    """Take packages back to exactly the recorded versions: the same answer as choose()."""
    present = {identity(package): package for package in installed}
    changes: list[dict[str, t.Any]] = []
    kept: list[Package] = []
    missing: list[dict[str, t.Any]] = []
    for entry in recorded:
        now = present.get(identity(entry))
        if now and now["version"] == entry["version"] and now["state"] == "installed":
            kept.append(now)
            continue
        usable = [offer for offer in offers if identity(offer) == identity(entry)]
        fitting = [offer for offer in usable if offer["version"] == entry["version"]]
        if not fitting:
            can_be_had = sorted({offer["version"] for offer in usable})
            missing.append({"name": entry["name"], "architecture": entry["architecture"], "can_be_had": can_be_had})
            continue
        offer = min(fitting, key=lambda candidate: _SOURCES.index(candidate["source"]))
        changes.append(
            {
                "name": entry["name"],
                "architecture": entry["architecture"],
                "from": now["version"] if now else None,
                "to": entry["version"],
                "source": offer["source"],
                "path": offer["path"],
                "held": bool(now and now["held"]),
                "replaces": None,
            }
        )
    return {"changes": changes, "kept": kept, "missing": missing}


def objections(
    choice: t.Mapping[str, t.Any], simulated: t.Mapping[str, t.Any], target: str | None, new_allowed: bool
) -> list[str]:
    """What speaks against a transaction as the package manager would carry it out. Nothing is removed and nothing outside the
    driver is moved, whatever the package manager proposes.

    simulated: {removed: [name:arch], installed: [{name, architecture, from, to}]}.
    """
    planned = {identity(change): change["to"] for change in choice["changes"]}
    found = [f"it would remove {name}" for name in simulated["removed"]]
    for step in simulated["installed"]:
        key = identity(step)
        if key in planned:
            if step["to"] != planned[key]:
                found.append(f"it would bring {key} to {step['to']}, not to {planned[key]}")
            continue
        of_driver = target is not None and parse.package_driver_version(step["to"]) == target
        if step["from"] is not None and not of_driver:
            found.append(f"it would also change {key} from {step['from']} to {step['to']}")
        elif step["from"] is None and not (new_allowed and of_driver):
            found.append(f"it would also install {key} {step['to']}")
    done = {identity(step) for step in simulated["installed"]}
    found += [f"it would not touch {key}" for key in planned if key not in done]
    return found


def diff(choice: t.Mapping[str, t.Any], simulated: t.Mapping[str, t.Any], hold: bool) -> dict[str, str]:
    """The transaction as an Ansible diff: a line a package, before and after, with its hold."""
    held = {identity(change): change["held"] for change in choice["changes"]}
    before, after = [], []
    for step in sorted(simulated["installed"], key=identity):
        key = identity(step)
        if step["from"]:
            before.append(f"{key} {step['from']}{' (hold)' if held.get(key) else ''}")
        after.append(f"{key} {step['to']}{' (hold)' if hold or held.get(key) else ''}")
    for package in sorted(choice["kept"], key=identity):
        line = f"{identity(package)} {package['version']}"
        if hold and not package["held"]:
            before.append(line)
            after.append(f"{line} (hold)")
    return {
        "before_header": "driver packages",
        "after_header": "driver packages",
        "before": "".join(f"{line}\n" for line in before),
        "after": "".join(f"{line}\n" for line in after),
    }


def diff_back(
    recorded: t.Sequence[t.Mapping[str, t.Any]], installed: t.Sequence[Package], pinned: t.Collection[str]
) -> dict[str, str]:
    """The way back as an Ansible diff: the packages whose version or hold differs from the record."""

    def line(key: str, version: str, held: bool) -> str:
        return f"{key} {version}{' (hold)' if held else ''}\n"

    now = {identity(package): package for package in installed}
    before, after = [], []
    for entry in sorted(recorded, key=identity):
        key = identity(entry)
        old = line(key, now[key]["version"], now[key]["held"]) if key in now else ""
        new = line(key, entry["version"], entry["held"])
        if old != new:
            before.append(old)
            after.append(new)
    known = {entry["name"] for entry in recorded}
    for key, package in sorted(now.items()):
        # Added beside by the change: it stays, and its hold goes.
        if package["name"] in pinned and package["name"] not in known and package["held"]:
            before.append(line(key, package["version"], True))
            after.append(line(key, package["version"], False))
    header = "driver packages"
    return {"before_header": header, "after_header": header, "before": "".join(before), "after": "".join(after)}


def describe_missing(missing: t.Sequence[t.Mapping[str, t.Any]]) -> str:
    """Which packages cannot be had at the version, and which versions can."""
    parts = []
    for entry in missing:
        versions = ", ".join(entry["can_be_had"]) or "none"
        parts.append(f"{entry['name']}:{entry['architecture']} (can be had: {versions})")
    return "; ".join(parts)
