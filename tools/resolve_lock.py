# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Resolve the requirements of one engine lock, once, and write them down with hashes.

A lock is resolved by a maintainer and committed; a deployment only ever installs what a lock names. pip does the
resolution (``--dry-run --report``) for another Python and platform than the one that runs this script; with
``fast-deps`` it reads the metadata of a wheel by range requests, so a lock of several gigabytes costs some megabytes.

    tools/resolve_lock.py --name transformers-cp311 --python 3.11 --also-index torch
    tools/resolve_lock.py --name sglang-0.5.17-cu130-cp312 --input sglang-0.5.17-cu130.in --python 3.12 --cuda 13.0

A package that has no wheel for a Python, and that the engine can do without, is left out by name:

    tools/resolve_lock.py --name sglang-0.5.17-cu130-cp313 --python 3.13 --cuda 13.0 --without outlines-core==0.1.26

Input: ``roles/engine/files/locks/<input>.in``, ordinary requirement lines. Output: ``<name>.txt`` beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

LOCKS = Path(__file__).resolve().parent.parent / "roles" / "engine" / "files" / "locks"
HEADER = """\
# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Written by tools/resolve_lock.py from {source}; do not edit, resolve again.
# lock: name={name} backend={backend} python={python} machine={machine} glibc={glibc} cuda={cuda}
"""


def platform_tags(machine: str, glibc: str) -> list[str]:
    """Wheel platform tags a host with this glibc can install; pip does not widen an explicit --platform itself."""
    minor = int(glibc.split(".")[1])
    tags = [f"manylinux_2_{n}_{machine}" for n in range(minor, 4, -1)]
    return [*tags, f"manylinux2014_{machine}", f"manylinux2010_{machine}", f"manylinux1_{machine}", f"linux_{machine}"]


def pip_report(
    requirements: list[str], options: argparse.Namespace, *, index_only: bool = False
) -> list[dict[str, Any]]:
    """The ``install`` list of pip's report for these requirement arguments; raises CalledProcessError on conflict."""
    compact = options.python.replace(".", "")
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.json"
        command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet"]
        command += ["--use-feature=fast-deps", "--only-binary=:all:", "--report", str(report), "--target", scratch]
        command += ["--python-version", options.python, "--implementation", "cp"]
        command += ["--abi", f"cp{compact}", "--abi", "abi3", "--abi", "none"]
        for tag in platform_tags(options.machine, options.glibc):
            command += ["--platform", tag]
        for absent in options.without:
            command += ["--find-links", str(stand_in(Path(scratch), absent))]
        environment = dict(os.environ)
        if index_only:
            # What the plain index has, without the find-links and extra indexes of this machine's pip settings.
            environment = {k: v for k, v in environment.items() if k not in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL")}
            environment["PIP_CONFIG_FILE"] = os.devnull
            command.append("--no-deps")
        subprocess.run([*command, *requirements], check=True, env=environment)
        items = json.loads(report.read_text(encoding="utf-8"))["install"]
    left_out = {requirement.split("==")[0] for requirement in options.without}
    return [item for item in items if pin(item)[0] not in left_out]


def stand_in(directory: Path, requirement: str) -> Path:
    """An empty wheel that satisfies pip's resolution for ``name==version``; never installed, since it is left out."""
    name, version = requirement.replace("-", "_").split("==")
    path = directory / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return path


def pin(item: dict[str, Any]) -> tuple[str, str, str, str]:
    """(normalised name, public version, full version, sha256) of one report item."""
    meta = item["metadata"]
    name = re.sub(r"[-_.]+", "-", meta["name"]).lower()
    digest = item["download_info"]["archive_info"]["hashes"]["sha256"]
    return name, meta["version"].split("+")[0], meta["version"], digest


def render(options: argparse.Namespace, items: list[dict[str, Any]], extra: list[dict[str, Any]]) -> str:
    """The lock's text: sorted pins, one hash per build; where there are two, a comment tells which hash is which."""
    builds: dict[str, list[tuple[str, str]]] = {}
    versions: dict[str, str] = {}
    for name, public, full, digest in map(pin, [*items, *extra]):
        if versions.setdefault(name, public) != public:
            raise SystemExit(f"{name}: {versions[name]} and {public} cannot share a lock")
        if digest not in [d for dummy, d in builds.setdefault(name, [])]:
            builds[name].append((full, digest))
    lines = []
    for name in sorted(builds):
        if len(builds[name]) > 1:
            lines += [f"# {name} {full}: {digest}" for full, digest in builds[name]]
        lines.append(
            " \\\n".join([f"{name}=={versions[name]}", *(f"    --hash=sha256:{d}" for dummy, d in builds[name])])
        )
    header = HEADER.format(
        source=options.input,
        name=options.name,
        backend=options.name.split("-")[0],
        python=options.python,
        machine=options.machine,
        glibc=options.glibc,
        cuda=options.cuda,
    )
    header += "".join(f"# left out, no wheel for this Python: {requirement}\n" for requirement in options.without)
    return header + "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--name", required=True, help="name of the lock, <backend>-[<release>-cu<NNN>-]cp<NN>")
    parser.add_argument("--input", help="requirements file beside the locks (default: NAME without -cpNN, plus .in)")
    parser.add_argument("--python", required=True, help="Python of the hosts, as 3.11")
    parser.add_argument("--machine", default="x86_64")
    parser.add_argument("--glibc", default="2.34", help="oldest glibc of the hosts (default: 2.34)")
    parser.add_argument("--cuda", default="none", help="CUDA of the wheels, as 13.0")
    parser.add_argument(
        "--also-index", action="append", default=[], metavar="PACKAGE", help="add the hash of the index's own build too"
    )
    parser.add_argument(
        "--without", action="append", default=[], metavar="PACKAGE==VERSION", help="leave this out of the lock"
    )
    options = parser.parse_args()
    options.input = options.input or re.sub(r"-cp\d+$", "", options.name) + ".in"

    items = pip_report(["-r", str(LOCKS / options.input)], options)
    versions = {name: public for name, public, dummy, dummy in map(pin, items)}
    extra = [i for p in options.also_index for i in pip_report([f"{p}=={versions[p]}"], options, index_only=True)]
    target = LOCKS / f"{options.name}.txt"
    target.write_text(render(options, items, extra), encoding="utf-8")
    print(f"{target}: {len(versions)} packages")


if __name__ == "__main__":
    main()
