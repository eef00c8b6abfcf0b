# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure the survey at scale on the control node at hand. Run by hand; it takes minutes and wants a quiet machine.

usage: tests/scale/survey_scale.py [--containers 50] [--aliases 1,10,50,200] [--forks 25] [--plot docs/img/survey-scale.svg] [--json FILE]

Starts that many real systemd containers (tests/images must have been built), surveys them over OpenSSH, and reports wall time, peak
memory of all Ansible processes, and CPU time spent in each container. Then it surveys the control node under 1, 10, 50 and 200 names
over the local connection. With --json, results of earlier runs are kept and added to, so that the work can be split (--containers 0,
--aliases ""). Containers of this script are named survey-scale-N and are removed at the end. Each systemd holds some inotify
instances; where the kernel's limit (128 a user by default) is too low for all, it is raised meanwhile, which needs root.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HOST_SH = ROOT / "tests" / "images" / "host.sh"
ENV = {**os.environ, "CONTAINERS_CONF": str(ROOT / "tests/images/containers.conf")}
SSH = (
    "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR "
    "-o ProxyCommand='podman exec -i %h /usr/sbin/sshd -i'"
)


def tree_memory(pid: int) -> int:
    """Return the proportional memory in KiB of a process and all below it: pages that forks share count once."""
    total, queue = 0, [pid]
    while queue:
        current = queue.pop()
        try:
            queue += [int(word) for word in Path(f"/proc/{current}/task/{current}/children").read_text().split()]
            rollup = Path(f"/proc/{current}/smaps_rollup").read_text()
        except OSError:
            continue
        match = re.search(r"^Pss:\s+(\d+)", rollup, re.MULTILINE)
        total += int(match.group(1)) if match else 0
    return total


def survey(inventory: Path, reports: Path, forks: int) -> dict[str, float]:
    """Run the playbook and return wall seconds, control-node CPU seconds and peak memory in MiB."""
    argv = [
        str(ROOT / ".venv/bin/ansible-playbook"),
        "-i",
        str(inventory),
        "--forks",
        str(forks),
        "playbooks/survey.yml",
    ]
    argv += ["--extra-vars", json.dumps({"survey_report_dir": str(reports)})]
    begin, before = time.monotonic(), os.times()
    process = subprocess.Popen(
        argv,
        cwd=ROOT,
        env=own_connections(inventory, "survey"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    peak = 0
    done = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.5):
            peak = max(peak, tree_memory(process.pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    output = process.communicate()[0]
    done.set()
    watcher.join()
    if process.returncode != 0:
        sys.exit(f"the survey failed:\n{output[-3000:]}")
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return {"wall_s": time.monotonic() - begin, "control_cpu_s": cpu, "peak_mib": peak / 1024}


def container_cpu(name: str) -> float:
    """Return the CPU seconds of a container so far, in either version of cgroups."""
    argv = ["podman", "inspect", "--format", "{{ .State.CgroupPath }}", name]
    path = subprocess.run(argv, env=ENV, capture_output=True, text=True, check=True).stdout.strip()
    for base in ("/sys/fs/cgroup/cpuacct", "/sys/fs/cgroup/cpu,cpuacct"):
        file = Path(f"{base}{path}/cpuacct.usage")
        if file.exists():
            return int(file.read_text()) / 1e9
    usage = Path(f"/sys/fs/cgroup{path}/cpu.stat").read_text()
    return int(re.search(r"usage_usec (\d+)", usage).group(1)) / 1e6


def cpu_spent(names: list[str], action: Callable[[], None]) -> list[float]:
    """Return the CPU seconds that an action cost each container, ascending."""
    before = {name: container_cpu(name) for name in names}
    action()
    return sorted(container_cpu(name) - before[name] for name in names)


def own_connections(inventory: Path, purpose: str) -> dict[str, str]:
    """Return an environment in which Ansible opens connections of its own: a first call to a host includes SSH's handshake."""
    return {**ENV, "ANSIBLE_SSH_CONTROL_PATH_DIR": str(inventory.parent / purpose)}


def ping(inventory: Path, forks: int) -> None:
    argv = [
        str(ROOT / ".venv/bin/ansible"),
        "all",
        "-i",
        str(inventory),
        "--forks",
        str(forks),
        # Two busy cores take longer than usual for the handshake.
        "--timeout",
        "60",
        "-m",
        "ansible.builtin.ping",
    ]
    subprocess.run(argv, cwd=ROOT, env=own_connections(inventory, "ping"), check=True, capture_output=True)


def inventory_of(hosts: dict[str, dict[str, str]], file: Path) -> Path:
    file.write_text(json.dumps({"dflash": {"hosts": hosts}}), encoding="utf-8")
    return file


@contextlib.contextmanager
def inotify_instances(wanted: int) -> Iterator[None]:
    """Let one user have that many inotify instances meanwhile; without them the 22nd systemd or so does not come up."""
    limit = Path("/proc/sys/fs/inotify/max_user_instances")
    before = int(limit.read_text())
    if before < wanted:
        limit.write_text(f"{wanted}\n")
    try:
        yield
    finally:
        if before < wanted:
            limit.write_text(f"{before}\n")


def start(names: list[str], key: Path) -> None:
    """Start the containers, four at a time; after an interruption or a failure none is begun any more."""

    def up(name: str) -> None:
        argv = [str(HOST_SH), "up", name, "bookworm", f"{key}.pub", "--network=none"]
        done = subprocess.run(argv, env=ENV, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{name} was not started:\n{done.stdout}")

    pool = ThreadPoolExecutor(4)
    try:
        for _started in pool.map(up, names):
            pass
    finally:
        pool.shutdown(cancel_futures=True)


def measure_containers(count: int, forks: int, work: Path) -> dict[str, float]:
    """Start containers, survey them, remove them."""
    key = work / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    names = [f"survey-scale-{number}" for number in range(1, count + 1)]
    variables = {
        "ansible_user": "root",
        "ansible_python_interpreter": "/usr/bin/python3",
        "ansible_ssh_private_key_file": str(key),
        "ansible_ssh_common_args": SSH,
    }
    try:
        start(names, key)
        inventory = inventory_of(dict.fromkeys(names, variables), work / "containers.json")
        result: dict[str, float] = {}
        spent = cpu_spent(names, lambda: result.update(survey(inventory, work / "reports", forks)))
        states = json.loads((work / "reports/survey/latest.json").read_text())["hosts"]
        result["answered"] = sum(host["survey"] is not None for host in states.values())
        result["host_cpu_median_s"], result["host_cpu_max_s"] = spent[len(spent) // 2], spent[-1]
        print("survey: " + told(result), flush=True)
        # What a module that does nothing costs: SSH, Python and Ansible's own code.
        idle = cpu_spent(names, lambda: ping(inventory, forks))
        result["host_cpu_of_a_ping_s"] = idle[len(idle) // 2]
        return result
    finally:
        subprocess.run([str(HOST_SH), "down", *names], env=ENV, check=False)


def measure_aliases(count: int, forks: int, work: Path) -> dict[str, float]:
    hosts = {
        f"name{number}": {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        for number in range(count)
    }
    return survey(inventory_of(hosts, work / f"aliases{count}.json"), work / f"reports{count}", forks)


def round_step(most: float) -> int:
    """Return a round distance of marks, so that there are at most five up to `most`."""
    return next(step * 10**power for power in range(6) for step in (1, 2, 5) if most < 5 * step * 10**power)


def plot(points: dict[int, float], containers: tuple[float, float]) -> str:
    """Draw wall time against the number of hosts; colours suit light and dark."""
    width, height, left, bottom, top = 560, 300, 56, 44, 20
    most_x = max([*points, containers[0]])
    most_y = max([*points.values(), containers[1]]) * 1.1

    def at(hosts: float, seconds: float) -> tuple[float, float]:
        return left + (width - left - 20) * hosts / most_x, height - bottom - (height - bottom - top) * seconds / most_y

    marks = [at(*point) for point in sorted(points.items())]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in marks)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12" fill="#6b7280">',
        # REUSE-IgnoreStart
        "<!-- SPDX-FileCopyrightText: 2026 inferlab.dflash contributors -->",
        "<!-- SPDX-License-Identifier: GPL-3.0-or-later -->",
        # REUSE-IgnoreEnd
    ]
    for seconds in range(0, int(most_y) + 1, round_step(most_y)):
        y = at(0, seconds)[1]
        parts.append(
            f'<line x1="{left}" x2="{width - 20}" y1="{y:.1f}" y2="{y:.1f}" stroke="#9ca3af" stroke-opacity="0.35"/>'
        )
        parts.append(f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{seconds} s</text>')
    for hosts in range(0, int(most_x) + 1, round_step(most_x)):
        x = at(hosts, 0)[0]
        parts.append(f'<text x="{x:.1f}" y="{height - bottom + 18}" text-anchor="middle">{hosts}</text>')
    parts.append(f'<text x="{(left + width) / 2}" y="{height - 6}" text-anchor="middle">hosts</text>')
    parts.append(f'<polyline points="{line}" fill="none" stroke="#3b82d6" stroke-width="2"/>')
    parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="#3b82d6"/>' for x, y in marks]
    x, y = at(*containers)
    parts.append(f'<rect x="{x - 5:.1f}" y="{y - 5:.1f}" width="10" height="10" fill="#d97706"/>')
    parts.append(f'<text x="{left + 14}" y="{top + 4}" fill="#3b82d6">names of one machine, local connection</text>')
    parts.append(f'<text x="{left + 14}" y="{top + 22}" fill="#d97706">systemd containers over OpenSSH</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def told(result: dict[str, float]) -> str:
    return ", ".join(f"{key} {value:.2f}" for key, value in result.items())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--containers", type=int, default=50)
    parser.add_argument("--aliases", default="1,10,50,200")
    parser.add_argument("--forks", type=int, default=25)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    known = options.json and options.json.exists()
    results = json.loads(options.json.read_text()) if known else {"containers": {}, "aliases": {}}

    def keep() -> None:
        if options.json:
            options.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")

    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        if options.containers:
            with inotify_instances(16 * options.containers):
                measured = measure_containers(options.containers, options.forks, work)
            results["containers"] = {"count": options.containers, **measured}
            print("containers: " + told(results["containers"]), flush=True)
            keep()
        for count in [int(word) for word in options.aliases.split(",") if word]:
            results["aliases"][str(count)] = measure_aliases(count, options.forks, work)
            print(f"{count} aliases: " + told(results["aliases"][str(count)]), flush=True)
            keep()
    if options.plot:
        options.plot.parent.mkdir(parents=True, exist_ok=True)
        walls = {int(count): result["wall_s"] for count, result in results["aliases"].items()}
        point = (results["containers"]["count"], results["containers"]["wall_s"])
        options.plot.write_text(plot(walls, point), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
