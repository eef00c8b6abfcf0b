# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Control node's side of inferlab.dflash.model_stage: read the source, send what the host lacks, show progress."""

from __future__ import annotations

import hashlib
import json
import os
import typing as t

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.inferlab.dflash.plugins.module_utils._models import manifest, stage_host, staging
from ansible_collections.inferlab.dflash.plugins.module_utils._models.safetensors import SafetensorsError

display = Display()
# As in the module's documentation.
DIRECTORY = "/var/lib/dflash/models"


def cached_manifest(source: str) -> dict[str, t.Any]:
    """Manifest of a directory on the control node; files that did not change since the last run are not read again."""
    cache = os.path.join(
        os.path.expanduser(os.environ.get("XDG_CACHE_HOME") or "~/.cache"), "inferlab-dflash", "manifests"
    )
    file = os.path.join(cache, hashlib.sha256(os.path.realpath(source).encode("utf-8")).hexdigest()[:24] + ".json")
    try:
        with open(file, encoding="utf-8") as stream:
            known = json.load(stream)
    except (OSError, ValueError):
        known = None
    described = manifest.describe(source, known)
    if described != known:
        os.makedirs(cache, exist_ok=True)
        temporary = f"{file}.{os.getpid()}"
        with open(temporary, "w", encoding="utf-8") as stream:
            json.dump(described, stream)
        os.replace(temporary, file)
    return described


class ActionModule(ActionBase):
    """Runs the module once to compare, once per file that has to travel, and once to publish."""

    TRANSFERS_FILES = True
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        result = super().run(tmp, task_vars)
        del tmp
        arguments = dict(self._task.args)
        for private in ("phase", "manifest", "file"):
            if private in arguments:
                raise AnsibleActionFail(f"model_stage: option {private} is not for playbooks")
        if arguments.get("remote") in (True, "true", "yes", "True", 1):
            result.update(self._module(arguments, task_vars))
            return result
        source = arguments.get("source")
        if self._task.check_mode and arguments.get("pending") and not os.path.isdir(str(source)):
            path = os.path.join(arguments.get("mirror") or arguments.get("directory") or DIRECTORY, arguments["name"])
            result.update(changed=True, path=path, staged=path, files=[], digest="")
            return result
        if not isinstance(source, str) or not os.path.isdir(source):
            raise AnsibleActionFail(f"model_stage: {source!r} is not a directory on the control node")
        try:
            wanted = cached_manifest(source)
            staging.check_source(wanted, source)
            stage_host.check_weights(source)
        except (staging.StagingError, SafetensorsError) as error:
            raise AnsibleActionFail(str(error)) from error
        compared = self._module({**arguments, "manifest": wanted}, task_vars)
        send = compared.pop("send", [])
        result.update(compared)
        if compared.get("failed") or not compared.get("changed") or self._task.check_mode:
            return result
        try:
            for number, entry in enumerate(send, 1):
                size = entry["size"] / 2**20
                display.display(
                    f"  {arguments['name']}: sending {entry['path']} ({size:.1f} MiB, {number} of {len(send)})"
                )
                received = self._send(arguments, source, entry, task_vars)
                if received.get("failed"):
                    result.update(received)
                    return result
            published = self._module({**arguments, "manifest": wanted, "phase": "publish"}, task_vars)
            result.update({key: value for key, value in published.items() if key != "diff"})
        finally:
            self._remove_tmp_path(self._connection._shell.tmpdir)
        return result

    def _module(self, arguments: dict[str, t.Any], task_vars: dict[str, t.Any] | None) -> dict[str, t.Any]:
        return self._execute_module("inferlab.dflash.model_stage", module_args=arguments, task_vars=task_vars)

    def _send(
        self, arguments: dict[str, t.Any], source: str, entry: dict[str, t.Any], task_vars: dict[str, t.Any] | None
    ) -> dict[str, t.Any]:
        if not self._connection._shell.tmpdir:
            self._make_tmp_path()
        temporary = self._connection._shell.join_path(self._connection._shell.tmpdir, "part")
        self._transfer_file(os.path.join(source, entry["path"]), temporary)
        self._fixup_perms2((self._connection._shell.tmpdir, temporary))
        file = {"path": entry["path"], "sha256": entry["sha256"], "temporary": temporary}
        return self._module({**arguments, "phase": "receive", "file": file}, task_vars)
