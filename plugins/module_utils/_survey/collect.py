# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Collect everything about a host in one go. A part that fails becomes a warning and never hides the others."""

from __future__ import annotations

import os
import typing as t

from . import artefacts, guests, processes, services, software, system, trees
from .commands import PATTERNS, compile_patterns
from .source import Source

SCHEMA = 1


class Options:
    """What to look for, and how far."""

    def __init__(
        self,
        patterns: t.Mapping[str, t.Sequence[str]] | None = None,
        paths: t.Sequence[str] = trees.PATHS,
        depth: int = 4,
        entries: int = 30000,
        control_time: float | None = None,
        import_test: bool = False,
    ) -> None:
        self.patterns = PATTERNS if patterns is None else patterns
        self.paths = paths
        self.depth = depth
        self.entries = entries
        self.control_time = control_time
        self.import_test = import_test


def collect(source: Source, options: Options | None = None) -> dict[str, t.Any]:
    """Return what the host has; parts that could not be read are empty or None and named in `warnings`.

    Raises:
        ValueError: a pattern is no regular expression.
    """
    options = options or Options()
    compiled = compile_patterns(options.patterns)

    def part(name: str, empty: t.Any, function: t.Callable[..., t.Any], *arguments: t.Any) -> t.Any:
        try:
            return function(source, *arguments)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError) as exc:
            # One odd file on a half-broken host must not cost the rest of the survey.
            source.warn(name, f"{type(exc).__name__}: {exc}")
            return empty

    running = part("processes", [], processes.collect_processes, compiled, os.getpid())
    units, timers = part("services", ([], set()), services.collect_services, compiled, running)
    upgrades = part("upgrades", {}, system.collect_upgrades)
    if upgrades and timers:
        upgrades["timers"] = sorted(timers)
    found = part("trees", trees.Found(), trees.walk, options.paths, options.depth, options.entries)
    # A release is reached through a link: it is one environment, under its real path.
    used = {
        source.inner(os.path.realpath(source.path(process["environment"])))
        for process in running
        if process["environment"] and not process["guest"]
    }
    environments = [
        part(f"environments.{path}", None, software.describe_environment, path)
        for path in sorted(used.union(found.environments))
    ]
    environments = [environment for environment in environments if environment]
    if options.import_test:
        for environment in environments:
            environment["imports"] = part("imports", {}, software.import_test, environment)
    checkouts = [part(f"checkouts.{path}", None, software.describe_checkout, path) for path in found.checkouts]
    return {
        "schema": SCHEMA,
        "host": part("host", {}, system.collect_host),
        "time": part("time", {}, system.collect_time, options.control_time),
        "memory": part("memory", {}, system.collect_memory),
        "limits": part("limits", {}, system.collect_limits),
        "disks": part("disks", [], system.collect_disks),
        "shared_memory_files": part("shared_memory_files", [], processes.shared_memory),
        "services": units,
        "processes": running,
        "ports": part("ports", [], processes.collect_ports, running),
        "environments": environments,
        "checkouts": [checkout for checkout in checkouts if checkout],
        "models": part("models", [], artefacts.describe_models, found.models),
        "cuda_toolkits": part("cuda_toolkits", [], system.collect_toolkits),
        "guests": part("guests", [], guests.collect_guests),
        "reboot": part("reboot", {}, system.collect_reboot),
        "upgrades": upgrades,
        "warnings": source.warnings,
    }
