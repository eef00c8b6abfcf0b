# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The seam to the machine: files below a root, and programs with a time limit. Private to this collection."""

from __future__ import annotations

import glob as _glob
import os
import subprocess
import typing as t

_SYSTEM = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def search_path() -> str:
    """The system's folders first (a module's PATH often lacks sbin), then the caller's, then WSL's place for nvidia-smi."""
    return f"{_SYSTEM}:{os.environ.get('PATH', '')}:/usr/lib/wsl/lib"


class Result:
    """What a program gave. rc is None when it could not be started or did not end in time; reason says which."""

    def __init__(self, rc: int | None, out: str, err: str, reason: str | None = None) -> None:
        self.rc = rc
        self.out = out
        self.err = err
        self.reason = reason


class Running:
    """A started program. Several can run side by side; finish() waits for one."""

    def __init__(self, argv: t.Sequence[str], env: t.Mapping[str, str] | None = None) -> None:
        self.argv = list(argv)
        self.failure: str | None = None
        self.process: subprocess.Popen[bytes] | None = None
        environment = {**os.environ, "LC_ALL": "C", "PATH": search_path(), **(env or {})}
        try:
            # run_command has no time limit and cannot run several side by side.
            self.process = subprocess.Popen(  # pylint: disable=ansible-bad-function
                self.argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            self.failure = f"{self.argv[0]}: {error.strerror}"

    def finish(self, timeout: float | None = None) -> Result:
        if self.process is None:
            return Result(None, "", "", self.failure)
        try:
            out, err = self.process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            # A tool that hangs inside the driver cannot always be killed; it is left behind rather than waited for.
            self.process.kill()
            return Result(None, "", "", f"{self.argv[0]}: no answer within {timeout:g} s")
        return Result(self.process.returncode, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))


class Host:
    """A machine as seen below `root`. With a root other than / (a fixture, a staged tree) none of its programs is run."""

    def __init__(self, root: str = "/", timeout: float = 20.0) -> None:
        self.root = os.path.normpath(root)
        self.timeout = timeout

    @property
    def live(self) -> bool:
        return self.root == "/"

    def path(self, path: str) -> str:
        return path if self.live else self.root + path

    def read(self, path: str) -> str | None:
        """The file's text, or None when it is not there or cannot be read."""
        try:
            with open(self.path(path), "rb") as file:
                return file.read().decode("utf-8", "replace")
        except OSError:
            return None

    def exists(self, path: str) -> bool:
        return os.path.exists(self.path(self.realpath(path)))

    def times(self, path: str) -> tuple[float, float] | None:
        """When the file was written and when it was put there (seconds since the epoch), None when it is not there."""
        try:
            known = os.stat(self.path(self.realpath(path)))
        except OSError:
            return None
        return known.st_mtime, known.st_ctime

    def listdir(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(self.path(self.realpath(path))))
        except OSError:
            return []

    def glob(self, pattern: str) -> list[str]:
        found = sorted(_glob.glob(self.path(pattern)))
        return found if self.live else [path[len(self.root) :] for path in found]

    def realpath(self, path: str) -> str:
        """The path without symbolic links; absolute links stay inside the root. A missing part stays as it is."""
        pending = [part for part in path.split("/") if part]
        done: list[str] = []
        followed = 0
        while pending:
            part = pending.pop(0)
            if part == "..":
                if done:
                    done.pop()
                continue
            if part == ".":
                continue
            candidate = "/" + "/".join([*done, part])
            try:
                target = os.readlink(self.path(candidate))
            except OSError:
                done.append(part)
                continue
            followed += 1
            if followed > 40:
                return path  # a loop of links: the kernel says so too
            if target.startswith("/"):
                done = []
            pending = [step for step in target.split("/") if step] + pending
        return "/" + "/".join(done)

    def has_program(self, name: str) -> bool:
        """Whether a program of this name could be started; without asking, each try costs a process."""
        return self.live and any(os.access(f"{folder}/{name}", os.X_OK) for folder in search_path().split(":"))

    def start(self, argv: t.Sequence[str], env: t.Mapping[str, str] | None = None) -> Running | None:
        """Start a program of this machine; None below a foreign root."""
        return Running(argv, env) if self.live else None

    def run(self, argv: t.Sequence[str], timeout: float | None = None) -> Result:
        running = self.start(argv)
        if running is None:
            return Result(None, "", "", f"root is {self.root}: programs are not run")
        return running.finish(timeout or self.timeout)

    def inspect(self, argv: t.Sequence[str], path: str) -> Result:
        """Run a reader of the control system on a file of the tree (modinfo FILE): nothing of the tree is executed."""
        return Running([*argv, self.path(path)]).finish(self.timeout)
