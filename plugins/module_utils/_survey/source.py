# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one door through which the survey reads a system: below a root, bounded, and never writing."""

from __future__ import annotations

import os
import time
import typing as t

#: File systems on which a plain stat can hang for ever when their server is gone.
REMOTE = frozenset(
    [
        "nfs",
        "nfs4",
        "cifs",
        "smb3",
        "smbfs",
        "ceph",
        "glusterfs",
        "lustre",
        "9p",
        "afs",
        "beegfs",
        "gpfs",
        "autofs",
        "fuse.sshfs",
        "fuse.s3fs",
        "fuse.rclone",
        "fuse.juicefs",
        "fuse.ceph",
        "fuse.glusterfs",
    ]
)


class Source:
    """Reads a system below `root`.

    Args:
        root: directory that stands for /.
        run: runs a command and returns (status, output); None where no command may run, as below another root.
        seconds: time after which `late()` is true and collectors stop early.
    """

    def __init__(
        self, root: str = "/", run: t.Callable[[list[str]], tuple[int, str]] | None = None, seconds: float = 10.0
    ) -> None:
        self.root = os.path.abspath(root)
        self.live = self.root == "/"
        self.warnings: list[dict[str, str]] = []
        self._run = run
        self._end = time.monotonic() + seconds

    def path(self, path: str) -> str:
        """Return where `path` of the surveyed system lies."""
        return path if self.live else os.path.join(self.root, path.lstrip("/"))

    def inner(self, real: str) -> str:
        """Return the path within the surveyed system of a real path below the root."""
        if self.live or not real.startswith(self.root):
            return real
        return "/" + real[len(self.root) :].lstrip("/")

    def late(self) -> bool:
        """Whether the time for this survey is over."""
        return time.monotonic() > self._end

    def warn(self, field: str, reason: str) -> None:
        """Note that `field` is unknown or incomplete, and why."""
        self.warnings.append({"field": field, "reason": reason})

    def read(self, path: str, limit: int = 65536) -> str | None:
        """Return at most `limit` bytes of a file as text, or None when it cannot be read."""
        return read_file(self.path(path), limit)

    def names(self, path: str) -> list[str]:
        """Return the sorted entries of a directory; none when it cannot be read."""
        try:
            return sorted(os.listdir(self.path(path)))
        except OSError:
            return []

    def exists(self, path: str) -> bool:
        """Whether the path exists, symbolic links followed."""
        return os.path.exists(self.path(path))

    def link(self, path: str) -> str | None:
        """Return the target text of a symbolic link, or None."""
        try:
            return os.readlink(self.path(path))
        except OSError:
            return None

    def run(self, *argv: str) -> str | None:
        """Return the output of a command, or None where commands may not run, or it is missing or failed."""
        if self._run is None:
            return None
        status, output = self._run(list(argv))
        return output if status == 0 else None


def read_file(real: str, limit: int = 65536) -> str | None:
    """Return at most `limit` bytes of a real file as text, or None when it cannot be read."""
    try:
        # Without O_NONBLOCK a pipe left in a configuration directory would block for ever.
        handle = os.open(real, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        parts = []
        while limit > 0:
            part = os.read(handle, limit)
            if not part:
                break
            parts.append(part)
            limit -= len(part)
        return b"".join(parts).decode("utf-8", "replace")
    except OSError:
        return None
    finally:
        os.close(handle)


def number(text: t.Any) -> int | None:
    """Return a whole number from text, or None."""
    try:
        return int(str(text).strip())
    except ValueError:
        return None
