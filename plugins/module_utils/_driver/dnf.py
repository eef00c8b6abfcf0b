# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""dnf and rpm: the only file that runs them. The same interface as apt.Apt. Private to this collection."""

from __future__ import annotations

import glob
import os
import re
import shutil
import typing as t

from ansible_collections.inferlab.dflash.plugins.module_utils._driver import shell
from ansible_collections.inferlab.dflash.plugins.module_utils._driver.quiet import Quiet
from ansible_collections.inferlab.dflash.plugins.module_utils._driver.shell import Failed
from ansible_collections.inferlab.dflash.plugins.module_utils._gpu import parse
from ansible_collections.inferlab.dflash.plugins.module_utils._gpu.host import Host, Result, Running

CACHE = "/var/cache/dnf"
_QUERY = "%{name}\\t%{epoch}:%{version}-%{release}\\t%{arch}\\n"
_FILE = "%{NAME}\\t%{EPOCHNUM}:%{VERSION}-%{RELEASE}\\t%{ARCH}\\n"
_MOVES = ("Installing", "Upgrading", "Downgrading", "Reinstalling")


def parse_simulation(text: str) -> dict[str, t.Any]:
    """`dnf --assumeno`: {removed: [name:arch], installed: [{name, architecture, from, to}]}.

    The table does not tell the installed version; `from` is filled in by the caller.
    """
    installed, removed, section = [], [], ""
    for line in text.splitlines():
        heading = re.match(r"^(\w[\w ]*):$", line)
        if heading:
            section = heading.group(1)
        elif line.startswith("Transaction Summary"):
            break
        else:
            row = re.match(r"^ (\S+)\s+(\S+)\s+(\S+)\s+\S+\s+\S+", line)
            if row and section.startswith(_MOVES):
                step = {"name": row.group(1), "architecture": row.group(2), "to": row.group(3)}
                installed.append({**step, "from": None})
            elif row and section.startswith("Removing"):
                removed.append(f"{row.group(1)}:{row.group(2)}")
    return {"installed": installed, "removed": removed}


class Dnf:
    """Offers, simulation and execution of package transactions on a system with dnf.

    `arguments` are further options of dnf, such as those of another root; then its own rpm data base is read as well.
    """

    name = "dnf"
    policy: str | None = None
    exclusion_path = "dnf versionlock"

    def __init__(
        self,
        host: Host,
        rpm_dirs: t.Sequence[str],
        log: str,
        lock_timeout: float,
        arguments: t.Sequence[str] = (),
    ) -> None:
        self.host = host
        self.rpm_dirs = list(rpm_dirs)
        self.log = log
        self.lock_timeout = lock_timeout
        self.arguments = list(arguments)

    def _dnf(self, *words: str) -> list[str]:
        return ["dnf", "--assumeyes", "--setopt=install_weak_deps=False", *self.arguments, *words]

    def _read(self, argv: t.Sequence[str], timeout: float = 300) -> Result:
        return Running(argv).finish(timeout)

    @staticmethod
    def _offer(line: str, source: str, path: str | None) -> dict[str, t.Any] | None:
        parts = line.split("\t")
        if len(parts) != 3:
            return None
        name, version, architecture = parts
        plain = version[2:] if version.startswith("0:") else version
        return {
            "name": name,
            "architecture": architecture,
            "version": plain,
            "driver_version": parse.package_driver_version(plain),
            "source": source,
            "path": path,
        }

    def offers(self, names: t.Iterable[str]) -> list[dict[str, t.Any]]:
        wanted = sorted(set(names))
        if not wanted:
            return []
        argv = self._dnf("--quiet", "repoquery", "--showduplicates", "--queryformat", _QUERY, *wanted)
        found = [self._offer(line, "repository", None) for line in self._read(argv).out.splitlines()]
        places = [("archive", f"{CACHE}/*/packages"), *[("directory", place) for place in self.rpm_dirs]]
        for source, place in places:
            for path in sorted(glob.glob(f"{place}/*.rpm")):
                line = self._read(["rpm", "--query", "--package", "--queryformat", _FILE, path], 30).out.strip()
                offer = self._offer(line, source, path)
                if offer and offer["name"] in wanted:
                    found.append(offer)
        return [offer for offer in found if offer]

    @staticmethod
    def _specifications(choice: t.Mapping[str, t.Any]) -> list[str]:
        return [
            change["path"] or f"{change['name']}-{_with_epoch(change['to'])}.{change['architecture']}"
            for change in choice["changes"]
        ]

    def command(self, choice: t.Mapping[str, t.Any]) -> list[str]:
        # `install` with the full name of a package moves it up or down, all of them in one transaction.
        return self._dnf("install", *self._specifications(choice))

    def simulate(self, choice: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        told = self._read(self._dnf("--assumeno", "install", *self._specifications(choice)))
        if "Transaction Summary" not in told.out:
            words = [line for line in (told.out + told.err).splitlines() if line.strip()]
            raise Failed(told.reason or "dnf finds no solution: " + " / ".join(words[-12:]))
        simulated = parse_simulation(told.out)
        known = {(change["name"], change["architecture"]): change["from"] for change in choice["changes"]}
        for step in simulated["installed"]:
            step["from"] = known.get((step["name"], step["architecture"]))
        return simulated

    def refresh(self) -> None:
        shell.act(self._dnf("makecache", "--refresh"), self.log)

    def finish_interrupted(self, quiet: Quiet) -> None:
        """rpm has no half-configured state; a transaction that was cut off is repeated by the one that follows."""

    def apply(self, choice: t.Mapping[str, t.Any], quiet: Quiet) -> None:
        names = [change["name"] for change in choice["changes"] if change["held"]]
        if names:
            self.set_holds([], names)
        shell.act(self.command(choice), self.log, quiet)

    def keep_copies(self, choice: t.Mapping[str, t.Any], directory: str) -> list[str]:
        """As apt.Apt.keep_copies: the package files of the versions that are about to be replaced."""
        os.makedirs(directory, mode=0o755, exist_ok=True)
        lost = []
        for change in choice["changes"]:
            if not change["from"]:
                continue
            specification = f"{change['name']}-{_with_epoch(change['from'])}.{change['architecture']}"
            told = self._read(self._dnf("--quiet", "download", f"--destdir={directory}", specification), 600)
            plain = change["from"].split(":", 1)[-1]
            name = f"{change['name']}-{plain}.{change['architecture']}.rpm"
            cached = glob.glob(f"{CACHE}/*/packages/{name}")
            if told.rc != 0 and cached:
                shutil.copyfile(cached[0], f"{directory}/{name}")
            if not os.path.exists(f"{directory}/{name}"):
                lost.append(change["name"])
        return sorted(lost)

    def set_holds(self, hold: t.Iterable[str], release: t.Iterable[str]) -> None:
        """Through dnf's versionlock plugin, where it is installed; Failed says so where it is not."""
        for word, names in (("delete", sorted(set(release))), ("add", sorted(set(hold)))):
            if names:
                told = self._read(self._dnf("--quiet", "versionlock", word, *names))
                if told.rc != 0 and word == "add":
                    raise Failed(f"dnf versionlock: {told.reason or (told.out + told.err).strip()}")

    # dnf's own updates honour versionlock: there is no second file to write, as for unattended-upgrades.
    def exclusion(self, names: t.Iterable[str]) -> str | None:
        return None

    def read_exclusion(self) -> str | None:
        return None

    def write_exclusion(self, text: str | None) -> None:
        return None


def _with_epoch(version: str) -> str:
    return version if ":" in version else f"0:{version}"
