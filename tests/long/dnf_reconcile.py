# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reconcile and roll back with a real dnf below an install root. Started by dnf.sh; prints what it does, exit status 1 on a failure."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

from ansible_collections.inferlab.dflash.plugins.module_utils._driver import dnf, plan, reconcile
from ansible_collections.inferlab.dflash.plugins.module_utils._gpu.host import Host

OLD, NEW = "580.126.09", "580.159.03"
SPEC = """\
Name: {name}
Epoch: 3
Version: {version}
Release: 1.el9
Summary: stub of an NVIDIA driver package
License: none
BuildArch: noarch
{requires}
%description
stub
%install
mkdir -p %{{buildroot}}/usr/lib64
echo stub > %{{buildroot}}/usr/lib64/{library}.so.{version}
{link}
%files
/usr/lib64/*
"""


def run(*argv: str) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(argv)}: {done.stdout[-1500:]}{done.stderr[-1500:]}")
    return done.stdout


def build(folder: str) -> str:
    """Two packages at two versions; one depends on the other at exactly its version. Returns the repository."""
    repository = os.path.join(folder, "repository")
    for version in (OLD, NEW):
        for name, library in (
            ("nvidia-driver-cuda-libs", "libnvidia-ml"),
            ("nvidia-driver-cuda", "libnvidia-ptxjitcompiler"),
        ):
            libs = name.endswith("libs")
            text = SPEC.format(
                name=name,
                version=version,
                library=library,
                requires="" if libs else f"Requires: nvidia-driver-cuda-libs = 3:{version}",
                link=f"ln -s libnvidia-ml.so.{version} %{{buildroot}}/usr/lib64/libnvidia-ml.so.1" if libs else "",
            )
            path = os.path.join(folder, f"{name}.spec")
            with open(path, "w") as file:
                file.write(text)
            defines = ("--define", f"_topdir {folder}/build", "--define", f"_rpmdir {repository}")
            run("rpmbuild", "--quiet", "-bb", *defines, path)
    run("createrepo_c", "--quiet", repository)
    return repository


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        repository, root = build(folder), os.path.join(folder, "root")
        arguments = [
            f"--installroot={root}",
            "--setopt=reposdir=/dev/null",
            f"--repofrompath=stub,file://{repository}",
            "--setopt=stub.gpgcheck=0",
            "--releasever=9",
            f"--setopt=cachedir={folder}/cache",
            "--setopt=plugins=False",
        ]
        run("dnf", "--assumeyes", "--quiet", *arguments, "install", "nvidia-driver-cuda")
        os.makedirs(os.path.join(root, "proc/driver/nvidia"))
        # Debian's rpm keeps its data base elsewhere; by this folder a system is known to be one of rpm.
        os.makedirs(os.path.join(root, "var/lib/rpm"), exist_ok=True)
        with open(os.path.join(root, "proc/driver/nvidia/version"), "w") as file:
            file.write(f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {OLD}  Wed Jan  7 22:33:56 UTC 2026\n")

        state = os.path.join(folder, "state")
        # A guest: the module belongs to its host, so that the packages below this root are all there is to move.
        options = reconcile.Options(container="lxc", state_dir=state)

        class Run(reconcile.Reconciler):
            def _backend(self) -> dnf.Dnf:
                return dnf.Dnf(self.host, [self.copies], f"{state}/log", 10, arguments)

        failures = 0

        def expect(what: str, value: object, wanted: object) -> None:
            nonlocal failures
            failures += value != wanted
            print(f"{'ok' if value == wanted else 'FAILED'}: {what}: {value}")

        def installed() -> list[str]:
            return sorted(run("rpm", "--root", root, "-qa", "--qf", "%{NAME} %{VERSION}\n").split("\n")[:-1])

        def fresh(check_mode: bool = False) -> Run:
            return Run(Host(root), plan.Wishes(), options, check_mode)

        both_new = [f"nvidia-driver-cuda {NEW}", f"nvidia-driver-cuda-libs {NEW}"]
        both_old = [f"nvidia-driver-cuda {OLD}", f"nvidia-driver-cuda-libs {OLD}"]
        shown = fresh(check_mode=True).reconcile()
        expect("check mode would change", shown["changed"], True)
        line = f"nvidia-driver-cuda:noarch 3:{OLD}-1.el9 (hold)"
        expect("check mode shows", line in shown["diff"][0]["after"].splitlines(), True)
        expect("check mode changed nothing", installed(), both_new)
        done = fresh().reconcile()
        expect("plan", done["plan"]["action"], plan.ALIGN)
        expect("packages after it", installed(), both_old)
        expect("proof", done["proof"]["proved"], True)
        expect("second run", fresh().reconcile()["changed"], False)
        expect("roll-back", fresh().roll_back()["changed"], True)
        expect("packages after it", installed(), both_new)
        expect("nothing more to roll back", fresh().roll_back()["changed"], False)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
