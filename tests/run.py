# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the project's checks and end in one line of counts.

usage: tests/run.py STEP [STEP ...] [--beside STEP[,STEP]] ... [--scenario NAME[,NAME]]
Steps: lint, sanity, unit, package, awx, molecule, long. A linter or a Molecule scenario counts as one test; pytest reports its own
numbers through JUnit files. A Python interpreter that is not there counts as one skipped test, by name. Steps named with
--beside run at the same time in a thread of their own; the first of these then takes Molecule scenarios off the main one's
hands, a further one fills the time in which those wait. What they print follows at the end. Exit status 1 when anything
failed, or when nothing ran.
"""

from __future__ import annotations

import argparse
import collections
import os
import re
import shutil
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
# ansible-test refuses a linked collection, and Molecule must not test an installed copy: both run in this copy of the tree.
COPY = ROOT / ".build" / "ansible_collections" / "inferlab" / "dflash"
# ansible-test runs in these as they are, without --venv: they have what the tests need, which it would install once more.
PYTHONS = {"3.11": ".venv", "3.12": ".venv-py312", "3.13": ".venv-py313"}
# Of sanity, what `make test` runs of it. What pylint finds depends hardly on the interpreter: it reads everything once, in the older
# core's version. 3.13 has the core of 3.12, whose other tests do not depend on the interpreter. Step `long` runs all of it on both.
SANITY = {"3.11": [], "3.12": ["--skip-test", "pylint"], "3.13": ["--test", "compile", "--test", "import"]}
SCENARIOS = ROOT / "extensions" / "molecule"
# Begun first, so that none of them is alone at the end; the other scenarios take half as long and less.
LONGEST = ["deploy", "story", "driver"]
# Where this thread prints; nothing is set where that is standard output.
PRINTS = threading.local()


def say(text: str) -> None:
    print(text, file=getattr(PRINTS, "log", sys.stdout), flush=True)


def call(argv: list, **options) -> subprocess.CompletedProcess:
    """subprocess.run whose output goes where this thread prints."""
    if log := getattr(PRINTS, "log", None):
        options = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log, **options}
    return subprocess.run(argv, check=False, **options)


@dataclass
class Totals:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    failures: list[str] = field(default_factory=list)

    def add(self, other: Totals) -> None:
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.failures += other.failures

    def record(self, name: str, ok: bool, seconds: float) -> None:
        self.passed += ok
        self.failed += not ok
        if not ok:
            self.failures.append(name)
        say(f"{'ok' if ok else 'FAILED'}: {name} ({seconds:.0f} s)")

    def skip(self, name: str) -> None:
        self.skipped += 1
        say(f"skipped: {name}")

    def junit(self, name: str, report: Path, status: int, seconds: float) -> None:
        """Add the counts of a JUnit file; a run that failed without one counts as one failure."""
        tests = failures = skipped = 0
        for file in sorted(report.glob("*.xml")) if report.is_dir() else [report] if report.exists() else []:
            for suite in ElementTree.parse(file).getroot().iter("testsuite"):
                tests += int(suite.get("tests", 0))
                failures += int(suite.get("failures", 0)) + int(suite.get("errors", 0))
                skipped += int(suite.get("skipped", 0))
                for case in suite.iter("testcase"):
                    if case.find("skipped") is not None:
                        message = case.find("skipped").get("message")
                        say(f"  skipped: {case.get('classname')}::{case.get('name')}: {message}")
        if status != 0 and failures == 0:
            failures += 1
            tests += 1
        if failures or tests == 0:
            self.failures.append(name)
        self.passed += tests - failures - skipped
        self.failed += failures + (tests == 0)
        self.skipped += skipped
        say(f"{'FAILED' if failures or not tests else 'ok'}: {name}: {tests} tests ({seconds:.0f} s)")


def run(argv: list[str], cwd: Path = ROOT, env: dict[str, str] | None = None) -> tuple[int, float]:
    say(f"\n==> {' '.join(argv)}")
    begin = time.monotonic()
    status = call(argv, cwd=cwd, env={**os.environ, **(env or {})}).returncode
    return status, time.monotonic() - begin


def known_files() -> list[str]:
    """What git tracks or would track here."""
    output = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout.decode()
    return [
        name for name in output.split("\0") if name and not name.startswith(".collections/") and (ROOT / name).exists()
    ]


def refresh_copy() -> None:
    """Make COPY equal to the tree, without touching files that did not change (ansible-test caches by time)."""
    wanted = set(known_files())
    for file in list(COPY.rglob("*")) if COPY.exists() else []:
        relative = file.relative_to(COPY)
        kept = relative.parts[0] == ".git" or relative.parts[:2] == ("tests", "output")
        if not kept and (file.is_file() or file.is_symlink()) and str(relative) not in wanted:
            file.unlink()
    for name in sorted(wanted):
        source, target = ROOT / name, COPY / name
        if (
            target.exists()
            and target.stat().st_mtime_ns == source.stat().st_mtime_ns
            and target.stat().st_size == source.stat().st_size
        ):
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target, follow_symlinks=False)
    if not (COPY / ".git").exists():
        subprocess.run(["git", "init", "--quiet", str(COPY)], check=True)
    subprocess.run(["git", "-C", str(COPY), "add", "--all"], check=True, capture_output=True)


def stage_get_pip() -> None:
    """Give ansible-test its pip bootstrap from ensurepip, so that it needs no download outside the package index."""
    cache = Path.home() / ".ansible" / "test" / "cache"
    cache.mkdir(parents=True, exist_ok=True)
    for name in ("get_pip_24_2.py", "get_pip_25_2.py"):
        if not (cache / name).exists():
            shutil.copy(ROOT / "tests" / "get_pip.py", cache / name)


def pythons(totals: Totals, step: str) -> list[tuple[str, Path]]:
    """(version, environment) of each supported interpreter that is here; the others are counted as skipped."""
    found = []
    for version, name in PYTHONS.items():
        if version != "3.11":
            if (
                subprocess.run([ROOT / "tools/find_python.sh", version], capture_output=True, check=False).returncode
                != 0
            ):
                totals.skip(f"{step} on Python {version}: no working interpreter found")
                continue
            if call([ROOT / "tools/setup.sh", "core221", version]).returncode != 0:
                totals.record(f"{step}: environment for Python {version}", False, 0)
                continue
        found.append((version, ROOT / name))
    return found


def lint(totals: Totals, _options: argparse.Namespace) -> None:
    tools = ROOT / ".venv" / "bin"
    env = {"ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".build"), "PATH": f"{tools}:{os.environ['PATH']}"}
    for name, argv, cwd in (
        ("ruff check", ["ruff", "check", "."], ROOT),
        ("ruff format", ["ruff", "format", "--check", "."], ROOT),
        ("yamllint", ["yamllint", "--strict", "."], ROOT),
        ("ansible-lint", ["ansible-lint", "--strict"], COPY),
        ("antsibull-docs", ["antsibull-docs", "lint-collection-docs", ".", "--plugin-docs", "--skip-rstcheck"], COPY),
        ("antsibull-changelog", ["antsibull-changelog", "lint"], COPY),
        ("README tables", ["python", "tools/readme_tables.py", "--check"], ROOT),
    ):
        status, seconds = run([str(tools / argv[0]), *argv[1:]], cwd, env)
        totals.record(name, status == 0, seconds)


def sanity(totals: Totals, _options: argparse.Namespace) -> None:
    stage_get_pip()
    for version, environment in pythons(totals, "ansible-test sanity"):
        sanity_on(totals, version, environment, SANITY[version])


def sanity_on(totals: Totals, version: str, environment: Path, choice: list[str]) -> None:
    argv = [str(environment / "bin" / "ansible-test"), "sanity", "--python", version, "--color", "no", *choice]
    status, seconds = run(argv, COPY, {"PATH": f"{environment}/bin:{os.environ['PATH']}"})
    totals.record(" ".join([f"ansible-test sanity on Python {version}", *choice]), status == 0, seconds)


def unit(totals: Totals, options: argparse.Namespace) -> None:
    report = COPY / "tests" / "output" / "junit"
    # Each worker imports and collects everything anew, which pays where there are cores for them.
    workers = ["--num-workers", "1"] if options.beside else []
    for version, environment in pythons(totals, "ansible-test units"):
        shutil.rmtree(report, ignore_errors=True)
        argv = [str(environment / "bin" / "ansible-test"), "units", "--python", version, "--color", "no", *workers]
        status, seconds = run(argv, COPY, {"PATH": f"{environment}/bin:{os.environ['PATH']}"})
        totals.junit(f"ansible-test units on Python {version}", report, status, seconds)


def package(totals: Totals, _options: argparse.Namespace) -> None:
    if call([ROOT / "tools/setup.sh", "torch"]).returncode != 0:
        totals.record("ddtree package: environment", False, 0)
        return
    report = ROOT / ".build" / "package.xml"
    report.parent.mkdir(exist_ok=True)
    report.unlink(missing_ok=True)
    argv = [
        str(ROOT / ".venv-torch/bin/python"),
        "-m",
        "pytest",
        "tests",
        f"--junitxml={report}",
        "-q",
        "--durations=5",
    ]
    source = ROOT / "roles/engine/files/ddtree"
    status, seconds = run(argv, source, {"PYTHONPATH": str(source / "src"), "PYTHONDONTWRITEBYTECODE": "1"})
    totals.junit("ddtree package", report, status, seconds)


def awx(totals: Totals, _options: argparse.Namespace) -> None:
    status, seconds = run([str(ROOT / ".venv/bin/python"), str(ROOT / "tests/awx/check.py")])
    totals.record("AWX definitions", status == 0, seconds)


def scenario_names(kind: str) -> list[str]:
    """Scenarios of one kind: those whose name ends in _full are long, `default` only makes hosts."""
    names = sorted(path.parent.name for path in SCENARIOS.glob("*/molecule.yml") if path.parent.name != "default")
    names.sort(key=lambda name: LONGEST.index(name) if name in LONGEST else len(LONGEST))
    return [name for name in names if name.endswith("_full") == (kind == "long")]


def molecule_scenario(totals: Totals, name: str, more: dict[str, str] | None = None) -> None:
    """Make the scenario's hosts, run its sequence, remove the hosts; the exit code decides. `more` is environment for its tests."""
    tools = ROOT / ".venv" / "bin"
    # One key for all scenarios, beside their state, which each run removes.
    key = ROOT / ".build" / "molecule" / "id_ed25519"
    key.parent.mkdir(parents=True, exist_ok=True)
    # One for each scenario, since two may run at the same time. What an interrupted run left there says "created" and
    # "prepared" of hosts that are gone.
    state = ROOT / ".build" / "molecule" / name
    shutil.rmtree(state, ignore_errors=True)
    env = {
        "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".build"),
        "PATH": f"{tools}:{os.environ['PATH']}",
        "CONTAINERS_CONF": str(ROOT / "tests/images/containers.conf"),
        "MOLECULE_EPHEMERAL_DIRECTORY": str(state),
        "MOLECULE_GROUPS": f"molecule_{name}",
        "MOLECULE_KEY": str(key),
        "PY_COLORS": "0",
        **(more or {}),
    }
    begin = time.monotonic()

    def step(*words: str) -> bool:
        return run([str(tools / words[0]), *words[1:]], COPY, env)[0] == 0

    def hosts(playbook: str) -> bool:
        # As `molecule {create,destroy} -s default` does, without its own start of some seconds.
        path = COPY / "extensions" / "molecule"
        return step("ansible-playbook", "-i", str(path / "inventory.yml"), str(path / "default" / f"{playbook}.yml"))

    ok = hosts("create") and step("molecule", "test", "-s", name, "--destroy=never")
    hosts("destroy")
    shutil.rmtree(state, ignore_errors=True)
    totals.record(" ".join(["molecule", name, *(more or {})]), ok, time.monotonic() - begin)


def molecule(options: argparse.Namespace) -> list[str]:
    """The scenarios that step molecule runs."""
    known = scenario_names("short") + scenario_names("long")
    # Step `long` runs deploy with all that it has.
    names = [name for name in scenario_names("short") if name != "deploy" or "long" not in options.steps]
    names = options.scenario.split(",") if options.scenario else names
    for name in names:
        if name not in known:
            sys.exit(f"tests/run.py: there is no Molecule scenario {name!r}; there are: {', '.join(known)}")
    return names


def long(totals: Totals, _options: argparse.Namespace) -> None:
    for name in scenario_names("long"):
        molecule_scenario(totals, name)
    molecule_scenario(totals, "deploy", {"LAB_LONG": "1"})
    tests = COPY / "tests/unit/plugins/module_utils/_diagnosis"
    env = {"DIAGNOSIS_EVERY_CASE": "1", "PYTHONPATH": str(ROOT / ".build")}
    argv = [str(ROOT / ".venv/bin/python"), "-m", "pytest", "-q", str(tests / "test_properties.py")]
    status, seconds = run(argv, COPY, env)
    totals.record("properties of diagnosis, every case under every change", status == 0, seconds)
    for version, environment in pythons(totals, "ansible-test sanity"):
        if version == "3.12":
            sanity_on(totals, version, environment, ["--test", "pylint"])
        elif version == "3.13":
            sanity_on(totals, version, environment, [])
    subprocess.run([ROOT / "tools/setup.sh", "release"], check=True)  # ansible-builder
    for script in sorted((ROOT / "tests" / "long").glob("*.sh")):
        status, seconds = run(["bash", str(script)])
        totals.record(script.name, status == 0, seconds)


STEPS = {
    "lint": lint,
    "sanity": sanity,
    "unit": unit,
    "package": package,
    "awx": awx,
    "long": long,
}


class Lane:
    """Steps one after the other, and then whatever scenarios nobody has taken yet."""

    def __init__(self, steps: list[str], options: argparse.Namespace, scenarios: collections.deque[str]) -> None:
        self.steps, self.options, self.scenarios = steps, options, scenarios
        self.totals = Totals()

    def run(self) -> None:
        for step in self.steps:
            self._timed(step, lambda step=step: STEPS[step](self.totals, self.options))
        while True:
            try:
                name = self.scenarios.popleft()
            except IndexError:
                return
            self._timed(f"molecule {name}", lambda name=name: molecule_scenario(self.totals, name))

    def _timed(self, name: str, work: Callable[[], object]) -> None:
        begin = time.monotonic()
        try:
            work()
        except Exception:  # one step must not take the others with it
            say(traceback.format_exc())
            self.totals.record(f"{name}: ended early", False, time.monotonic() - begin)
        say(f"-- {name}: {time.monotonic() - begin:.0f} s")


class Beside(Lane):
    """A lane in a thread of its own, which prints into a file."""

    def begin(self) -> None:
        self.log = ROOT / ".build" / f"beside-{self.steps[0]}.log"
        self.log.parent.mkdir(exist_ok=True)
        say(f"beside: {', '.join(self.steps)}; what they print goes to {self.log} and follows at the end")
        self.thread = threading.Thread(target=self._logged, daemon=True)
        self.thread.start()

    def _logged(self) -> None:
        with open(self.log, "w", encoding="utf-8") as PRINTS.log:
            self.run()

    def finish(self) -> None:
        self.thread.join()
        say(f"\n==> beside: {', '.join(self.steps)}\n{self.log.read_text(errors='replace')}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("steps", nargs="+", choices=sorted([*STEPS, "molecule"]), metavar="STEP")
    parser.add_argument(
        "--beside",
        action="append",
        default=[],
        help="steps to run at the same time, separated by commas; may be repeated",
    )
    parser.add_argument("--scenario", default="", help="Molecule scenarios, separated by commas")
    options = parser.parse_args()
    beside = [lane.split(",") for lane in options.beside if lane]
    if unknown := sorted({name for lane in beside for name in lane} - set(STEPS)):
        parser.error(f"--beside: there is no step {unknown[0]!r}; there are: {', '.join(sorted(STEPS))}")
    scenarios = collections.deque(molecule(options)) if "molecule" in options.steps else collections.deque()
    refresh_copy()
    lanes = [Lane([step for step in options.steps if step != "molecule"], options, scenarios)]
    # Scenarios in two lanes at most: some wait for what a host does, and a third on two cores could make that late.
    lanes += [Beside(steps, options, collections.deque() if i else scenarios) for i, steps in enumerate(beside)]
    for lane in lanes[1:]:
        lane.begin()
    lanes[0].run()
    totals = Totals()
    for lane in lanes:
        if isinstance(lane, Beside):
            lane.finish()
        totals.add(lane.totals)
    for name in totals.failures:
        print(f"failed: {re.sub(chr(10), ' ', name)}")
    print(f"{totals.passed} passed, {totals.failed} failed, {totals.skipped} skipped")
    return 0 if totals.failed == 0 and totals.passed > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
