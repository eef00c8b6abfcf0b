# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The phases of module engine_release on a host: plan (only looks), take (wheels come in), build (acts on the plan)."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any

from ansible_collections.inferlab.dflash.plugins.module_utils._engine import build, host, retention, usage, wheels
from ansible_collections.inferlab.dflash.plugins.module_utils._engine.build import Spec
from ansible_collections.inferlab.dflash.plugins.module_utils._engine.errors import EngineError

DRIFT_SHOWN = 50


def run(
    spec: Spec, request: dict[str, Any], wheel_dir: Path, instances: Path, keep: int, verify: str = "full"
) -> dict[str, Any]:
    """Do the phase that the control node asks for; returns the module's result."""
    # A release is read by the instances' user, whatever the umask of whoever deploys.
    os.umask(0o022)
    if request["phase"] == "take":
        taken = wheels.take_in(Path(request["archive"]), wheel_dir, spec.digests)
        return {"changed": bool(taken), "taken": taken}
    reason, code = host.unfit(spec.lock.meta, host.python(spec.python), host.glibc(), host.machine())
    if reason:
        raise EngineError(reason, code)
    if request["phase"] == "plan":
        return plan(spec, instances, keep, verify)
    with build.exclusive(spec.releases):
        # Looked at again: another play may have made the release while this one was sending wheels.
        found = build.inspect(spec.path, verify)
        result = _planned(spec, found, instances, keep)
        if found["state"] != "complete":
            recorded, drift = found["manifest"], found["drift"]
            if not (build.remove_added(spec.path, recorded, drift) or build.mend_drifted(spec, recorded, drift)):
                build.build(spec)
        remove(spec.releases, result["removed"], wheel_dir)
    return result


def remove(releases: Path, identifiers: list[str], wheel_dir: Path) -> None:
    """Remove releases, and the wheels in ``wheel_dir`` that only they were made from."""
    unused = {digest for identifier in identifiers for digest in _locked(releases / identifier)}
    for identifier in identifiers:
        shutil.rmtree(releases / identifier)
    unused -= {digest for entry in build.finished(releases) for digest in _locked(releases / entry["id"])}
    for digest, path in wheels.by_hash([wheel_dir]).items() if unused else ():
        if digest in unused:
            path.unlink()


def _locked(path: Path) -> set[str]:
    try:
        text = (path / "requirements.txt").read_text(encoding="utf-8")
    except OSError:
        return set()
    return set(re.findall(r"--hash=sha256:([0-9a-f]{64})", text))


def plan(spec: Spec, instances: Path, keep: int, verify: str = "full") -> dict[str, Any]:
    """What is there and what a run changes; nothing is written."""
    return _planned(spec, build.inspect(spec.path, verify), instances, keep)


def _planned(spec: Spec, found: dict[str, Any], instances: Path, keep: int) -> dict[str, Any]:
    removed = outdated(spec, instances, keep)
    complete = found["state"] == "complete"
    shown = found["drift"][:DRIFT_SHOWN]
    present = {} if complete else wheels.by_hash(spec.wheels)
    return {
        "changed": not complete or bool(removed),
        "id": spec.id,
        "path": str(spec.path),
        "state_before": found["state"],
        "drift": shown,
        "removed": removed,
        "missing": [] if complete else wheels.missing(spec.wanted, present),
        "diff": {
            "before": _describe(spec.id, found["state"], found["drift"], removed),
            "after": _describe(spec.id, "complete", [], []),
        },
    }


def outdated(spec: Spec, instances: Path, keep: int) -> list[str]:
    """Releases that a run removes: not among the newest ``keep`` (the wanted one is newest), needed by nobody."""
    known = [entry for entry in build.finished(spec.releases) if entry["id"] != spec.id]
    newest = max((entry["created"] for entry in known), default=0) + 1
    candidates = [*known, {"id": spec.id, "created": newest}]
    removable = retention.removable(candidates, usage.links(instances, spec.releases), keep)
    in_use = usage.running(spec.releases, removable)
    return [identifier for identifier in removable if identifier not in in_use and identifier != spec.id]


def _describe(identifier: str, state: str, drift: list[dict[str, str]], removed: list[str]) -> str:
    lines = [f"{identifier}: {state}"]
    lines += [f"  {entry['problem']}: {entry['path']}" for entry in drift[:DRIFT_SHOWN]]
    if len(drift) > DRIFT_SHOWN:
        lines.append(f"  and {len(drift) - DRIFT_SHOWN} more")
    return "\n".join([*lines, *(f"{name}: present" for name in removed)]) + "\n"
