# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Package work without service restarts: a policy-rc.d for its duration. Private to this collection.

While it is in place, maintainer scripts that ask (invoke-rc.d, deb-systemd-invoke) start and restart nothing. A guardian
process puts the old state back as soon as the caller and the package manager have ended, also when they were killed. Should the
guardian be killed too, the policy-rc.d sees that its owner is gone, puts the old state back at its first call and answers
as the host would have.
"""

from __future__ import annotations

import os
import time
import typing as t

from ansible_collections.inferlab.dflash.plugins.module_utils._driver import locks

POLICY = "/usr/sbin/policy-rc.d"
_MARK = "inferlab.dflash driver"
_SCRIPT = """\
#!/bin/sh
# Placed by {mark} while driver packages change: no service is started, stopped or restarted meanwhile.
# It goes away by itself. owner: {pid} {start}
owner_lives() {{
  stat=$(cat /proc/{pid}/stat 2>/dev/null) || return 1
  # State and start time; a killed process that nobody has waited for yet is no owner.
  set -- ${{stat##*) }}
  [ "$1" != Z ] && [ "${{20}}" = "{start}" ]
}}
if owner_lives; then exit 101; fi
# The owner is gone without tidying up: put the host's own policy back, and answer as it does.
if [ -e "{backup}" ]; then mv -f "{backup}" "{policy}"; exec "{policy}" "$@"; fi
rm -f "{policy}"
exit 0
"""


def _start_time(pid: int) -> str:
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rsplit(")", 1)[1].split()[19]


class Quiet:
    """Context manager. `descriptors` are handed to the package manager (pass_fds), so that its end is waited for as well.

    policy None: this system has no policy-rc.d (rpm), and nothing is placed.
    """

    def __init__(self, policy: str | None = POLICY, package_locks: t.Sequence[str] = locks.LOCKS) -> None:
        self.active = policy is not None
        self.policy = policy or ""
        self.backup = self.policy + ".dflash-saved"
        self.package_locks = package_locks
        self.descriptor = -1
        self.guardian = 0

    @property
    def descriptors(self) -> list[int]:
        return [self.descriptor] if self.active else []

    def _ours(self) -> bool:
        try:
            with open(self.policy, "rb") as file:
                return _MARK.encode() in file.read(400)
        except OSError:
            return False

    def restore(self) -> bool:
        """Put the host's own state back; True when ours was in place. Harmless when called twice."""
        if not self._ours():
            return False
        if os.path.exists(self.backup):
            os.replace(self.backup, self.policy)
        else:
            os.unlink(self.policy)
        return True

    def _place(self, pid: int) -> None:
        # What an owner that was killed left behind goes first: then the file at the path is the host's own, or none.
        self.restore()
        if os.path.lexists(self.policy):
            os.replace(self.policy, self.backup)
        temporary = f"{self.policy}.{pid}"
        text = _SCRIPT.format(mark=_MARK, pid=pid, start=_start_time(pid), backup=self.backup, policy=self.policy)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o755)
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        os.chmod(temporary, 0o755)
        os.replace(temporary, self.policy)

    def _guard(self, reader: int) -> None:
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):
            os.dup2(null, standard)
        while os.read(reader, 1):
            pass
        # The caller and the package manager are gone. A dpkg that outlived them still works: wait for its lock.
        for _attempt in range(3600):
            if not any(locks.holder(path) for path in self.package_locks):
                break
            time.sleep(0.5)
        self.restore()

    def __enter__(self) -> Quiet:
        if not self.active:
            return self
        reader, self.descriptor = os.pipe()
        ready_reader, ready_writer = os.pipe()
        self.guardian = os.fork()
        if self.guardian == 0:
            try:
                os.close(self.descriptor)
                os.close(ready_reader)
                self._place(os.getpid())
                os.write(ready_writer, b"1")
                os.close(ready_writer)
                self._guard(reader)
            finally:
                os._exit(0)
        os.close(reader)
        os.close(ready_writer)
        placed = os.read(ready_reader, 1)
        os.close(ready_reader)
        if not placed:
            os.close(self.descriptor)
            os.waitpid(self.guardian, 0)
            raise OSError(f"{self.policy} cannot be written")
        return self

    def __exit__(self, *_exception: object) -> None:
        if not self.active:
            return
        os.close(self.descriptor)
        os.waitpid(self.guardian, 0)
