# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""apt and dpkg: the only file that runs them. Private to this collection."""

from __future__ import annotations

import contextlib
import glob
import os
import re
import shutil
import time
import typing as t
import urllib.parse

from ansible_collections.inferlab.dflash.plugins.module_utils._driver import locks, shell
from ansible_collections.inferlab.dflash.plugins.module_utils._driver.quiet import POLICY, Quiet
from ansible_collections.inferlab.dflash.plugins.module_utils._driver.record import write_file
from ansible_collections.inferlab.dflash.plugins.module_utils._driver.shell import Failed
from ansible_collections.inferlab.dflash.plugins.module_utils._gpu import parse
from ansible_collections.inferlab.dflash.plugins.module_utils._gpu.host import Host

ARCHIVES = "/var/cache/apt/archives"
EXCLUSION = "/etc/apt/apt.conf.d/52dflash-driver"

_ATTEMPTS = 3
_INSTALL = (
    "apt-get",
    "--assume-yes",
    "--quiet",
    "--no-install-recommends",
    "--allow-downgrades",
    "--allow-change-held-packages",
    "--option=Dpkg::Options::=--force-confdef",
    "--option=Dpkg::Options::=--force-confold",
    "--option=APT::Get::AutomaticRemove=false",
    "--option=Dpkg::Use-Pty=0",
)


def parse_simulation(text: str) -> dict[str, t.Any]:
    """`apt-get --simulate`: {removed: [name:arch], installed: [{name, architecture, from, to}]}."""
    installed, removed = [], []
    for line in text.splitlines():
        step = re.match(r"^Inst (\S+?)(?::\w+)?(?: \[([^\]]+)\])? \((\S+) .*?\[(\w+)\]\)", line)
        if step:
            installed.append(
                {"name": step.group(1), "architecture": step.group(4), "from": step.group(2), "to": step.group(3)}
            )
        gone = re.match(r"^(?:Remv|Purg) (\S+)", line)
        if gone:
            removed.append(gone.group(1))
    return {"installed": installed, "removed": removed}


def offer_driver_version(version: str, depends: str | None) -> str | None:
    """The driver version that an offered package carries: its own, or the one that a package of prebuilt modules depends on.

    Packages of prebuilt modules are versioned by their kernel and name the driver in a dependency, such as
    "nvidia-kernel-common-580 (>= 580.126.09)".
    """
    own = parse.package_driver_version(version)
    if own:
        return own
    for named in re.findall(r"\((?:=|>=|<=) ([^)]+)\)", depends or ""):
        found = parse.package_driver_version(named)
        if found:
            return found
    return None


def _stanzas(text: str) -> t.Iterator[dict[str, str]]:
    for stanza in re.split(r"\n\n+", text):
        fields = dict(re.findall(r"^(Package|Version|Architecture|Filename|Depends): (.*)$", stanza, re.MULTILINE))
        if "Package" in fields and "Version" in fields:
            yield fields


class Apt:
    """Offers, simulation and execution of package transactions on a Debian or Ubuntu system."""

    name = "apt"
    policy: str | None = POLICY
    exclusion_path = EXCLUSION

    def __init__(self, host: Host, deb_dirs: t.Sequence[str], log: str, lock_timeout: float) -> None:
        self.host = host
        self.deb_dirs = list(deb_dirs)
        self.log = log
        self.lock_timeout = lock_timeout

    def offers(self, names: t.Iterable[str]) -> list[dict[str, t.Any]]:
        """What can be had of these packages: from the repositories' lists, apt's cache and the directories of .debs."""
        wanted = sorted(set(names))
        found = []
        for fields in _stanzas(self.host.run(["apt-cache", "show", *wanted], timeout=120).out) if wanted else ():
            # Without a file name it is only the installed version, which no repository has any more.
            if "Filename" in fields:
                found.append(self._offer(fields, "repository", None))
        for source, places in (("archive", [ARCHIVES]), ("directory", self.deb_dirs)):
            for place in places:
                for path in sorted(glob.glob(f"{place}/*.deb")):
                    fields = self._file_fields(path, source)
                    if fields and fields["Package"] in wanted:
                        found.append(self._offer(fields, source, path))
        return found

    def _file_fields(self, path: str, source: str) -> dict[str, str] | None:
        parts = urllib.parse.unquote(os.path.basename(path))[: -len(".deb")].split("_")
        if source == "archive" and len(parts) == 3 and parse.package_driver_version(parts[1]):
            # apt names the files of its cache by package, version and architecture.
            return {"Package": parts[0], "Version": parts[1], "Architecture": parts[2]}
        told = self.host.run(["dpkg-deb", "--field", path, "Package", "Version", "Architecture", "Depends"])
        return next(_stanzas(told.out), None)

    @staticmethod
    def _offer(fields: t.Mapping[str, str], source: str, path: str | None) -> dict[str, t.Any]:
        return {
            "name": fields["Package"],
            "architecture": fields.get("Architecture", ""),
            "version": fields["Version"],
            "driver_version": offer_driver_version(fields["Version"], fields.get("Depends")),
            "source": source,
            "path": path,
        }

    @staticmethod
    def _arguments(choice: t.Mapping[str, t.Any]) -> list[str]:
        arguments = []
        for change in choice["changes"]:
            if change["path"]:
                arguments.append(change["path"])
            else:
                architecture = "" if change["architecture"] == "all" else f":{change['architecture']}"
                arguments.append(f"{change['name']}{architecture}={change['to']}")
        return arguments

    def command(self, choice: t.Mapping[str, t.Any]) -> list[str]:
        return [*_INSTALL, "install", *self._arguments(choice)]

    def simulate(self, choice: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        """What apt would do. Raises Failed with apt's words when it finds no solution."""
        argv = [*_INSTALL, "--simulate", "--option=Debug::NoLocking=1", "install", *self._arguments(choice)]
        told = self.host.run(argv, timeout=300)
        if told.rc != 0:
            words = [line for line in (told.out + told.err).splitlines() if line.strip()]
            raise Failed(told.reason or "apt finds no solution: " + " / ".join(words[-12:]))
        return parse_simulation(told.out)

    def _act(self, argv: t.Sequence[str], quiet: Quiet | None) -> None:
        shell.act(argv, self.log, quiet)

    def refresh(self) -> None:
        self._act(["apt-get", "--quiet", f"--option=DPkg::Lock::Timeout={int(self.lock_timeout)}", "update"], None)

    def finish_interrupted(self, quiet: Quiet) -> None:
        """Finish what an interrupted dpkg left. What it cannot configure yet is left to the transaction that follows."""
        with contextlib.suppress(Failed):
            self._act(["dpkg", "--force-confdef", "--force-confold", "--configure", "--pending"], quiet)

    def apply(self, choice: t.Mapping[str, t.Any], quiet: Quiet) -> None:
        """The transaction, in one go. Packages that were installed as dependencies stay marked as such."""
        automatic = set(self.host.run(["apt-mark", "showauto"], timeout=120).out.split())
        marks = [change["name"] for change in choice["changes"] if (change["replaces"] or change["name"]) in automatic]
        timeout = f"--option=DPkg::Lock::Timeout={int(self.lock_timeout)}"
        self._act([*_INSTALL, timeout, "install", *self._arguments(choice)], quiet)
        if marks:
            self._mark("auto", marks)

    def keep_copies(self, choice: t.Mapping[str, t.Any], directory: str) -> list[str]:
        """Save the .debs of the versions that are about to be replaced, for a way back without a network.

        Returns the packages whose file is not to be had any more.
        """
        os.makedirs(directory, mode=0o755, exist_ok=True)
        wanted = {}
        for change in choice["changes"]:
            if change["from"]:
                name = f"{change['name']}_{change['from'].replace(':', '%3a')}_{change['architecture']}.deb"
                wanted[name] = change
        for name, change in wanted.items():
            target = f"{directory}/{name}"
            if os.path.exists(target):
                continue
            if os.path.exists(f"{ARCHIVES}/{name}"):
                shutil.copyfile(f"{ARCHIVES}/{name}", target + ".partial")
                os.replace(target + ".partial", target)
                continue
            architecture = "" if change["architecture"] == "all" else f":{change['architecture']}"
            # Into a name of its own first: an interrupted download must not pass for a copy.
            script = 'cd "$1" && rm -rf .partial && mkdir .partial && cd .partial && apt-get --quiet download "$2"'
            argv = ["sh", "-c", script, "keep", directory, f"{change['name']}{architecture}={change['from']}"]
            if self.host.run(argv, timeout=600).rc == 0:
                for path in glob.glob(f"{directory}/.partial/*.deb"):
                    os.replace(path, target)
        return sorted(change["name"] for name, change in wanted.items() if not os.path.exists(f"{directory}/{name}"))

    def set_holds(self, hold: t.Iterable[str], release: t.Iterable[str]) -> None:
        for word, names in (("hold", sorted(set(hold))), ("unhold", sorted(set(release)))):
            if names:
                self._mark(word, names)

    def _mark(self, word: str, names: t.Sequence[str]) -> None:
        """apt-mark, which does not wait for dpkg's lock by itself."""
        for attempt in range(_ATTEMPTS):
            locks.wait(self.lock_timeout)
            try:
                self._act(["apt-mark", word, *names], None)
                return
            except Failed:
                if attempt + 1 == _ATTEMPTS:
                    raise
                time.sleep(1)

    @staticmethod
    def exclusion(names: t.Iterable[str]) -> str:
        """The text of the file that keeps unattended-upgrades away from these packages. It names each; no pattern."""
        patterns = [re.sub(r"([.+])", r"\\\1", name) for name in sorted(set(names))]
        lines = "".join(f'  "^{pattern}$";\n' for pattern in patterns)
        return (
            "// Written by inferlab.dflash: the driver's packages stay at the version of the loaded kernel module.\n"
            f"Unattended-Upgrade::Package-Blacklist {{\n{lines}}};\n"
        )

    def read_exclusion(self) -> str | None:
        return self.host.read(self.exclusion_path)

    def write_exclusion(self, text: str | None) -> None:
        if text is None:
            if os.path.exists(self.exclusion_path):
                os.unlink(self.exclusion_path)
        else:
            write_file(self.exclusion_path, text)
