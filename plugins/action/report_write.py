# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes a report on the control node; see the module's documentation."""

from __future__ import annotations

import json
import os
import time
import typing as t

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.inferlab.dflash.plugins.plugin_utils._report import store
from ansible_collections.inferlab.dflash.plugins.plugin_utils._report.document import ReportError, build_document, plain
from ansible_collections.inferlab.dflash.plugins.plugin_utils._report.page import render_page

_SPEC = {
    "kind": {"type": "str", "required": True},
    "hosts": {"type": "dict", "required": True},
    "dir": {"type": "path", "required": True},
    "title": {"type": "str", "default": ""},
    "extra": {"type": "dict", "default": {}},
    "volatile": {"type": "list", "elements": "str", "default": []},
    "files": {"type": "dict", "default": {}},
}


class ActionModule(ActionBase):
    """Runs on the control node alone: a report needs no host, so one that is gone can still be reported."""

    TRANSFERS_FILES = False
    _requires_connection = False
    _supports_check_mode = True
    _supports_diff = True

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """Ansible's entry point."""
        result = super().run(tmp, task_vars)
        _validation, given = self.validate_argument_spec(_SPEC)
        try:
            result.update(self._write(given))
        except (ReportError, OSError) as exc:
            raise AnsibleActionFail(f"report_write: {exc}") from exc
        return result

    def _write(self, given: dict[str, t.Any]) -> dict[str, t.Any]:
        folder = os.path.join(given["dir"], given["kind"])
        further = further_files(plain(given["files"]))
        previous = store.read(os.path.join(folder, "latest.json"))
        built = build_document(
            given["hosts"],
            kind=given["kind"],
            now=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            title=given["title"],
            extra=given["extra"],
            previous=previous,
            volatile=given["volatile"],
        )
        data = json.dumps(built["document"], indent=2, ensure_ascii=False) + "\n"
        page = render_page(built["document"])
        files = {"latest.json": data, "latest.html": page, **further}
        if built["changed"]:
            files.update({f"{built['name']}.json": data, f"{built['name']}.html": page})
        differing = store.differences(folder, files)
        changed = built["changed"] or any(
            # New measurements in the report's own files are no change; a missing, edited or further file is.
            before is None or name in further or previous == data
            for name, (before, _after) in differing.items()
        )
        answer: dict[str, t.Any] = {
            "changed": changed,
            "generated": built["document"]["generated"],
            "json": os.path.join(folder, "latest.json"),
            "html": os.path.join(folder, "latest.html"),
        }
        if self._task.diff and changed:
            answer["diff"] = [
                {
                    "before": before or "",
                    "after": after,
                    "before_header": os.path.join(folder, name),
                    "after_header": os.path.join(folder, name),
                }
                for name, (before, after) in differing.items()
                if name == "latest.json" or name in further
            ]
        if not self._task.check_mode:
            store.write(folder, {name: files[name] for name in differing})
        return answer


def further_files(files: dict[str, t.Any]) -> dict[str, str]:
    """Return the further files, checked: plain names beside the report, text as content.

    Raises:
        ReportError: a name that leaves the folder or hides a report, or content that is no text.
    """
    for name, text in files.items():
        if os.path.basename(name) != name or name.startswith((".", "latest.")) or not name:
            raise ReportError(f"files: {name!r} must be a plain file name other than latest.*")
        if not isinstance(text, str):
            raise ReportError(f"files: the content of {name} must be text, got {type(text).__name__}")
    return files
