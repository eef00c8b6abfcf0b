# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Installed packages: by dpkg's own files (which also works below a root), or by rpm. Private to this collection.

Driver packages are found by the files that they own and by the driver version that they share, never by a pattern of names:
names lost their branch at 590, and -server, transitional and vendor packages all follow other rules.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.inferlab.dflash.plugins.module_utils._gpu import parse
from ansible_collections.inferlab.dflash.plugins.module_utils._gpu.host import Host, Running

# dpkg states in which the package works; the rest, except not-installed and config-files, are half done.
_WORKING = ("installed", "triggers-pending", "triggers-awaited")
_GONE = ("not-installed", "config-files")

#: name, architecture, version, driver_version, state, held.
Package = dict


def manager(host: Host) -> str | None:
    """dpkg, rpm or None: which data base of packages this system has."""
    if host.exists("/var/lib/dpkg/status"):
        return "dpkg"
    if any(host.exists(path) for path in ("/var/lib/rpm", "/usr/lib/sysimage/rpm")):
        return "rpm"
    return None


def _package(name: str, architecture: str, version: str, state: str, held: bool) -> Package:
    return {
        "name": name,
        "architecture": architecture,
        "version": version,
        "driver_version": parse.package_driver_version(version),
        "state": "installed" if state in _WORKING else state,
        "held": held,
    }


def _field(stanza: str, name: str) -> str:
    """A field of one line, empty where there is none. No regular expression: a server has two megabytes of stanzas."""
    mark = f"\n{name}: "
    start = stanza.find(mark) + len(mark)
    return stanza[start : stanza.find("\n", start)] if start >= len(mark) else ""


class Dpkg:
    """The data base of dpkg, read from /var/lib/dpkg without running dpkg."""

    name = "dpkg"

    def __init__(self, host: Host) -> None:
        self.host = host
        self.by_id: dict[str, Package] = {}
        for text in (host.read("/var/lib/dpkg/status") or "").split("\n\n"):
            stanza = f"\n{text}\n"
            words = _field(stanza, "Status").split()
            name, version = _field(stanza, "Package"), _field(stanza, "Version")
            if len(words) != 3 or words[2] in _GONE or not name or not version:
                continue
            package = _package(name, _field(stanza, "Architecture"), version, words[2], words[0] == "hold")
            self.by_id[f"{package['name']}:{package['architecture']}"] = package

    def packages(self) -> list[Package]:
        return list(self.by_id.values())

    def _files(self, package: Package) -> str:
        info = "/var/lib/dpkg/info"
        listed = self.host.read(f"{info}/{package['name']}:{package['architecture']}.list")
        return "\n" + (listed or self.host.read(f"{info}/{package['name']}.list") or "")

    def owners(self, paths: t.Iterable[str]) -> dict[str, list[Package]]:
        """The packages that own each path (given without symbolic links); both spellings of a merged /usr are tried.

        Two owners of one file are two packages of which one is half installed.
        """
        spelt: dict[str, str] = {}
        for path in paths:
            spelt[path] = path
            spelt[path[4:] if path.startswith("/usr/") else "/usr" + path] = path
        found: dict[str, list[Package]] = {path: [] for path in spelt.values()}
        # A driver's files belong to packages with a driver's version, nearly always. Only what is left over by them is
        # looked for in all the others.
        for driver in (True, False):
            wanted = {spelling: path for spelling, path in spelt.items() if driver or not found[path]}
            for package in self.by_id.values():
                if wanted and (package["driver_version"] is not None) == driver:
                    files = self._files(package)
                    for spelling, path in wanted.items():
                        if f"\n{spelling}\n" in files:
                            found[path].append(package)
        return found

    def owner(self, path: str) -> Package | None:
        """The package that owns a path, the installed one first where there are two."""
        found = self.owners([path])[path]
        return min(found, key=lambda package: package["state"] != "installed", default=None)


class Rpm:
    """The data base of rpm, through the rpm program."""

    name = "rpm"
    _FORMAT = "%{NAME}\t%{ARCH}\t%{EPOCHNUM}:%{VERSION}-%{RELEASE}\n"

    def __init__(self, host: Host) -> None:
        self.host = host
        self._all: list[Package] | None = None
        self._rpm = ["rpm"] if host.live else ["rpm", "--root", host.root]
        self._locked = set(re.findall(r"^\s*([^#!\s]\S*)", host.read("/etc/dnf/plugins/versionlock.list") or "", re.M))

    def _ask(self, *arguments: str) -> str:
        """rpm of this system, on the data base below the root."""
        return Running([*self._rpm, *arguments]).finish(self.host.timeout).out

    def _parse(self, text: str) -> list[Package]:
        found = []
        for line in text.splitlines():
            parts = line.split("\t")
            if len(parts) == 3:
                name, architecture, version = parts
                plain = version[2:] if version.startswith("0:") else version
                held = any(lock.startswith((f"{name}-0:{plain}", f"{name}-{plain}")) for lock in self._locked)
                found.append(_package(name, architecture, plain, "installed", held))
        return found

    def packages(self) -> list[Package]:
        if self._all is None:
            self._all = self._parse(self._ask("-qa", "--qf", self._FORMAT))
        return self._all

    def owners(self, paths: t.Iterable[str]) -> dict[str, list[Package]]:
        """The packages that own each path. rpm answers one line a path, in their order."""
        asked = list(paths)
        if not asked:
            return {}
        lines = self._ask("-qf", "--qf", self._FORMAT, *asked).splitlines()
        return {path: self._parse(line) for path, line in zip(asked, lines)} if len(lines) == len(asked) else {}

    def owner(self, path: str) -> Package | None:
        return next(iter(self.owners([path]).get(path, [])), None)


def database(host: Host) -> Dpkg | Rpm | None:
    """The reader for this system's packages, None when it has none that we know."""
    kind = manager(host)
    if kind == "dpkg":
        return Dpkg(host)
    return Rpm(host) if kind == "rpm" else None


def driver_packages(packages: t.Iterable[Package], versions: t.Collection[str]) -> list[Package]:
    """The packages that carry one of these driver versions, sorted by name."""
    wanted = set(versions)
    return sorted(
        (entry for entry in packages if entry["driver_version"] in wanted),
        key=lambda entry: (entry["name"], entry["architecture"]),
    )
