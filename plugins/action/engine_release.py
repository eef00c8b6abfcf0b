# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The control node's side of engine_release: names the release, provides the wheels, sends what the host lacks."""

from __future__ import annotations

import os
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.inferlab.dflash.plugins.module_utils._engine import identity, lock
from ansible_collections.inferlab.dflash.plugins.module_utils._engine.errors import EngineError
from ansible_collections.inferlab.dflash.plugins.modules.engine_release import arguments
from ansible_collections.inferlab.dflash.plugins.plugin_utils._engine import patch_files, source_wheel, wheelhouse

MODULE = "inferlab.dflash.engine_release"
# Wheels travel in tar files of at most this size (or of one larger wheel), which bounds the room they take on the way.
BATCH_BYTES = 512 << 20


class ActionModule(ActionBase):
    """Runs the module's phases: plan, then (outside check mode, if there is anything to do) take and build."""

    TRANSFERS_FILES = True
    _requires_connection = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        _result, options = self.validate_argument_spec(
            argument_spec=arguments(), required_if=[("source", "directory", ["wheelhouse"])]
        )
        try:
            locked = lock.parse(self._read(options["lock"]))
            plugin = source_wheel.make(Path(options["plugin"]))
            patches = patch_files.load(options["patches"], {pin.name: pin.version for pin in locked.pins})
            request = {
                "id": identity.release_id(locked.name, locked.text, plugin.sha256, patches),
                "lock_text": locked.text,
                "plugin": {"name": plugin.name, "version": plugin.version, "sha256": plugin.sha256},
                "patches": patches,
            }
            plan = self._phase("plan", request, task_vars)
            if plan.get("failed") or not plan["changed"] or self._task.check_mode:
                return {**result, **plan}
            if plan["state_before"] != "complete":
                sent = self._send(plan["missing"], locked, plugin, options, request, task_vars)
                if sent.get("failed"):
                    return {**result, **sent}
                self._say(f"installing {len(locked.pins)} packages into {plan['path']}")
            built = self._phase("build", request, task_vars)
            return {**result, **built, **({} if built.get("failed") else {"missing": plan["missing"]})}
        except EngineError as error:
            return {**result, "failed": True, "msg": str(error), "code": error.code}

    def _read(self, path: str) -> str:
        try:
            return Path(path).read_text(encoding="utf-8")
        except OSError as error:
            raise EngineError(f"the lock {path} cannot be read on the control node: {error.strerror}") from error

    def _phase(
        self, phase: str, request: dict[str, Any], task_vars: dict[str, Any] | None, **more: str
    ) -> dict[str, Any]:
        module_args = {**self._task.args, "_request": {**request, "phase": phase, **more}}
        return self._execute_module(module_name=MODULE, module_args=module_args, task_vars=task_vars)

    def _send(
        self,
        missing: list[str],
        locked: lock.Lock,
        plugin: source_wheel.Wheel,
        options: dict[str, Any],
        request: dict[str, Any],
        task_vars: dict[str, Any] | None,
    ) -> dict[str, Any]:
        """Send the plugin's wheel and, if the control node has to provide them, the others; stops at a refused file."""
        reply: dict[str, Any] = {}
        with tempfile.TemporaryDirectory(prefix="dflash-engine-") as scratch:
            paths: list[Path] = []
            if options["source"] == "controller":
                cache = Path(os.path.expanduser(options["wheel_cache"]))
                provided = wheelhouse.provide(locked, missing, cache, options["find_links"], self._say)
                paths = sorted(provided.values(), key=lambda path: path.stat().st_size)
            if plugin.name in missing:
                own = Path(scratch) / plugin.filename
                own.write_bytes(plugin.content)
                paths.insert(0, own)
            for batch in _batches(paths):
                size = sum(path.stat().st_size for path in batch)
                self._say(f"sending {len(batch)} wheels ({size / 1e6:.0f} MB), the largest is {batch[-1].name}")
                archive = Path(scratch) / "wheels.tar"
                with tarfile.open(archive, "w") as bundle:
                    for path in batch:
                        bundle.add(path, arcname=path.name)
                if not self._connection._shell.tmpdir:
                    self._make_tmp_path()
                remote = self._connection._shell.join_path(self._connection._shell.tmpdir, archive.name)
                self._transfer_file(str(archive), remote)
                self._fixup_perms2((self._connection._shell.tmpdir, remote))
                reply = self._phase("take", request, task_vars, archive=remote)
                if reply.get("failed"):
                    break
        return reply

    def _say(self, message: str) -> None:
        host = self._task.delegate_to or self._play_context.remote_addr
        Display().display(f"  [{host}] {message}")


def _batches(paths: list[Path]) -> Iterator[list[Path]]:
    batch: list[Path] = []
    size = 0
    for path in paths:
        length = path.stat().st_size
        if batch and size + length > BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(path)
        size += length
    if batch:
        yield batch
