# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of what was done to the driver: /var/lib/dflash/driver.json. Private to this collection.

Written before anything is changed, so that a run that is killed leaves the way back behind.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
import typing as t

SCHEMA = 1
IN_PROGRESS = "in_progress"
DONE = "done"
ROLLED_BACK = "rolled_back"
_KEPT = 20

Entry = dict[str, t.Any]


class Damaged(Exception):
    """The record exists and cannot be read as one."""


def write_file(path: str, text: str, mode: int = 0o644) -> None:
    """Replace a file in one step and make sure that it is on the disk."""
    directory = os.path.dirname(path)
    os.makedirs(directory, mode=0o755, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(prefix=f".{os.path.basename(path)}.", dir=directory)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


class Record:
    """The entries, oldest first. Nothing is written until save()."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.entries: list[Entry] = []
        try:
            with open(path) as file:
                self.entries = json.load(file)["entries"]
        except FileNotFoundError:
            pass
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise Damaged(f"{path} cannot be read: {error}. Move it away to start a new record.") from error

    def save(self) -> None:
        document = {"schema": SCHEMA, "entries": self.entries[-_KEPT:]}
        write_file(self.path, json.dumps(document, indent=2, sort_keys=True) + "\n")

    def begin(self, **entry: t.Any) -> Entry:
        started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self.entries.append({"state": IN_PROGRESS, "started": started, "finished": None, **entry})
        self.save()
        return self.entries[-1]

    def finish(self, entry: Entry, state: str, **more: t.Any) -> None:
        entry.update(state=state, finished=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), **more)
        self.save()

    def unfinished(self) -> Entry | None:
        """The entry of a run that did not end, if the last one is that."""
        return self.entries[-1] if self.entries and self.entries[-1]["state"] == IN_PROGRESS else None

    def in_force(self, action: str) -> Entry | None:
        """The last entry of this action that stands: done or cut off, and not rolled back since."""
        standing = (entry for entry in reversed(self.entries) if entry["state"] in (DONE, IN_PROGRESS))
        return next((entry for entry in standing if entry["action"] == action), None)
