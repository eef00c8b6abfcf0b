# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Collect what a host can say about a unit. Reads only; every question is bounded in time and bytes."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterable
from typing import Any

from .service_facts import parse_properties

# (argv, timeout in seconds, limit in bytes) -> (rc or None when it could not run or timed out, stdout, stderr)
Runner = Callable[[list, float, int], "tuple[int | None, str, str]"]

UNIT_PROPERTIES = (
    "Id,LoadState,LoadError,ActiveState,SubState,Result,ExecMainCode,ExecMainStatus,ExecMainPID,MainPID,NRestarts,"
    "InvocationID,Type,Restart,RestartUSec,User,Group,WorkingDirectory,RootDirectory,FragmentPath,DropInPaths,ExecStart,"
    "Environment,EnvironmentFiles,NeedDaemonReload,TimeoutStartUSec,WatchdogUSec,StartLimitBurst,StartLimitIntervalUSec,"
    "LimitMEMLOCK,LimitMEMLOCKSoft,LimitNOFILE,LimitNOFILESoft,LimitAS,LimitNPROC,MemoryMax,MemoryHigh,MemoryCurrent,"
    "OOMPolicy,ControlGroup,SuccessExitStatus,StatusText,ActiveEnterTimestampMonotonic,InactiveEnterTimestampMonotonic"
)
_JOURNAL_LIMIT = 8 << 20
_COMPILERS = re.compile(r"^(?:nvcc|cicc|ptxas|fatbinary|ninja|cc1plus|cc1|ld|lld|triton|cudafe\+\+)$")


def run(argv: list, timeout: float = 10.0, limit: int = _JOURNAL_LIMIT) -> tuple[int | None, str, str]:
    """Run I(argv) in the C locale; output beyond I(limit) bytes loses its head, where the oldest lines are."""
    env = {**os.environ, "LC_ALL": "C", "LANG": "C", "SYSTEMD_COLORS": "0", "SYSTEMD_PAGER": "", "PAGER": "cat"}
    try:
        # run_command has no time limit, and evidence comes from hosts where commands hang.
        done = subprocess.run(  # pylint: disable=ansible-bad-function
            argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout, env=env, check=False
        )
    except subprocess.TimeoutExpired:
        return None, "", f"{argv[0]}: no answer within {timeout:g} s"
    except OSError as exc:
        return None, "", f"{argv[0]}: {exc.strerror}"
    return (
        done.returncode,
        done.stdout[-limit:].decode("utf-8", "replace"),
        done.stderr[-limit:].decode("utf-8", "replace"),
    )


class Host:
    """Asks the running system about one unit."""

    def __init__(self, unit: str, runner: Runner = run, proc: str = "/proc", cgroup: str = "/sys/fs/cgroup") -> None:
        self.unit = unit if re.search(r"\.(service|scope|socket|target|mount|timer)$", unit) else unit + ".service"
        self._run = runner
        self._proc = proc
        self._cgroup = cgroup
        self._cursor: str | None = None

    def show(self) -> dict[str, str] | None:
        """The unit's properties; None when systemd does not answer."""
        rc, out, _err = self._run(
            ["systemctl", "show", "--no-pager", f"--property={UNIT_PROPERTIES}", self.unit], 10.0, 1 << 16
        )
        return parse_properties(out) if rc == 0 else None

    def journal_tail(self, lines: int) -> list[str]:
        """The last I(lines) journal lines of the unit and of what systemd says about it."""
        rc, out, err = self._run(self._journalctl(f"--lines={lines}"), 15.0, _JOURNAL_LIMIT)
        if rc != 0:
            return [f"journal not readable: {err.strip()}"]
        return [line for line in out.splitlines() if not line.startswith("-- cursor:")]

    def new_lines(self, limit: int = 5000) -> list[str]:
        """Journal lines since the last call; the first call starts at the current invocation's first line."""
        where = [f"--after-cursor={self._cursor}"] if self._cursor else self._invocation_filter()
        rc, out, _err = self._run(self._journalctl(f"--lines={limit}", "--show-cursor", *where), 15.0, _JOURNAL_LIMIT)
        if rc != 0:
            return []
        lines = out.splitlines()
        if lines and lines[-1].startswith("-- cursor: "):
            self._cursor = lines.pop()[len("-- cursor: ") :]
        return [line for line in lines if not line.startswith("-- ")]

    def activity(self, unit: dict[str, str] | None) -> dict[str, Any]:
        """Signs of work that leave no log line: bytes read by the unit's processes, and compilers among them."""
        read_bytes = 0
        compilers = []
        for pid in self._pids(unit):
            comm = self._read(f"{pid}/comm").strip()
            found = re.search(r"^rchar: (\d+)", self._read(f"{pid}/io"), re.M)
            read_bytes += int(found.group(1)) if found else 0
            if _COMPILERS.match(comm):
                compilers.append(comm)
        return {"read_bytes": read_bytes, "compilers": sorted(set(compilers))}

    def journal(self, lines: int, restarts: int = 0) -> tuple[str | None, float | None]:
        """The unit's journal and the time (s since the epoch) of its last line.

        After automatic restarts the first failing run is included, however long ago it was: it holds the cause.
        """
        parts = []
        since: list[str] = []
        if restarts > 0:
            first = self._first_restart()
            if first is not None:
                rc, out, _err = self._run(
                    self._journalctl(f"--until=@{first:.6f}", f"--lines={lines // 4}"), 15.0, _JOURNAL_LIMIT
                )
                parts = [out] if rc == 0 else []
                since = [f"--since=@{first:.6f}"] if parts else []
        rc, out, _err = self._run(self._journalctl(f"--lines={lines}", *since), 30.0, _JOURNAL_LIMIT)
        if rc != 0:
            return None, None
        parts.append(out)
        text = "".join(
            line for part in parts for line in part.splitlines(keepends=True) if not line.startswith("-- No entries")
        )
        rc, out, _err = self._run(self._journalctl("--lines=1", output="json"), 15.0, 1 << 20)
        stamp = re.search(r'"__REALTIME_TIMESTAMP"\s*:\s*"(\d+)"', out) if rc == 0 else None
        return text, int(stamp.group(1)) / 1e6 if stamp else None

    def _first_restart(self) -> float | None:
        """When systemd restarted the unit for the first time in the present series."""
        words = "--grep=Scheduled restart job, restart counter is at 1\\.$"
        rc, out, _err = self._run(self._journalctl(words, "--lines=1", output="json"), 20.0, 1 << 20)
        found = re.search(r'"__REALTIME_TIMESTAMP"\s*:\s*"(\d+)"', out) if rc == 0 else None
        return int(found.group(1)) / 1e6 if found else None

    def arguments(self, unit: dict[str, str] | None) -> str:
        """The command line of the running main process, else that of ExecStart."""
        pid = (unit or {}).get("MainPID", "0")
        if pid not in ("", "0"):
            words = [word for word in self._read(f"{pid}/cmdline").split("\0") if word]
            if words:
                return " ".join(words) + "\n"
        found = re.search(r"argv\[\]=(.*?) ; ignore_errors", (unit or {}).get("ExecStart", ""))
        return f"{found.group(1)}\n" if found else ""

    def virtualization(self) -> str:
        """systemd-detect-virt's word; "none" on bare metal."""
        _rc, out, _err = self._run(["systemd-detect-virt"], 5.0, 4096)
        return out

    def kernel_log(self) -> dict[str, str]:
        """This boot's kernel log. An empty one inside a container was not collected: it belongs to the host."""
        rc, out, _err = self._run(
            ["journalctl", "--no-pager", "--quiet", "--dmesg", "--output=short-iso", "--lines=20000"],
            20.0,
            _JOURNAL_LIMIT,
        )
        if rc != 0 or not out.strip():
            rc, out, _err = self._run(["dmesg"], 10.0, _JOURNAL_LIMIT)
        if rc != 0 or not out.strip():
            return {}
        return {"kernel_log": out}

    def nvidia_smi(self) -> dict[str, object]:
        """nvidia-smi's own view, with a limit: it hangs on some broken GPUs."""
        rc, out, err = self._run(["nvidia-smi"], 20.0, 1 << 16)
        if rc is None and not err.endswith(" s"):
            return {"nvidia_smi": None}
        result: dict[str, object] = {"nvidia_smi": out + err, "nvidia_smi_rc": -1 if rc is None else rc}
        if rc == 0:
            fields = "index,name,driver_version,compute_cap,memory.total,memory.used"
            rc, out, _err = self._run(["nvidia-smi", f"--query-gpu={fields}", "--format=csv"], 20.0, 1 << 16)
            if rc == 0:
                result["nvidia_smi_query_csv"] = out
        return result

    def coredumps(self) -> str:
        """The last core dumps that systemd-coredump kept for the unit."""
        rc, out, _err = self._run(
            ["coredumpctl", "--no-pager", "--no-legend", "-n5", "list", f"COREDUMP_UNIT={self.unit}"], 10.0, 1 << 16
        )
        return out if rc == 0 else ""

    def _invocation_filter(self) -> list[str]:
        invocation = (self.show() or {}).get("InvocationID")
        return [f"_SYSTEMD_INVOCATION_ID={invocation}", "+", f"INVOCATION_ID={invocation}"] if invocation else []

    def _journalctl(self, *options: str, output: str = "short-iso") -> list[str]:
        # Matching an invocation is in itself a filter on the unit; --unit beside it would be joined by "or".
        selects_invocation = any(option.startswith("_SYSTEMD_INVOCATION_ID=") for option in options)
        unit = [] if selects_invocation else [f"--unit={self.unit}"]
        return ["journalctl", "--no-pager", "--quiet", "--all", f"--output={output}", *unit, *options]

    def _pids(self, unit: dict[str, str] | None) -> Iterable[int]:
        group = (unit or {}).get("ControlGroup") or ""
        if not group:
            return ()
        pids: set[int] = set()
        # cgroup v2, the hybrid layout's systemd hierarchy, and cgroup v1.
        for base in (self._cgroup, f"{self._cgroup}/unified", f"{self._cgroup}/systemd"):
            for directory, _subdirs, files in os.walk(base + group):
                if "cgroup.procs" in files:
                    pids.update(int(word) for word in self._read(f"{directory}/cgroup.procs").split() if word.isdigit())
            if pids:
                break
        return sorted(pids)[:512]

    def _read(self, path: str, limit: int = 1 << 16) -> str:
        try:
            with open(os.path.join(self._proc, path), "rb") as stream:
                return stream.read(limit).decode("utf-8", "replace")
        except OSError:
            return ""
