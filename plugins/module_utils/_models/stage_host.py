# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The host's side of staging: compare, receive a file, publish. Private to this collection."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import typing as t

from . import manifest, safetensors, staging

PARTIAL = ".partial"
RETIRED = ".retired"


def _free(folder: str) -> int:
    """Free bytes of the file system that ``folder`` is or will be on."""
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    return shutil.disk_usage(folder).free


def _seen(folder: str) -> dict[str, tuple[int, int]]:
    result = {}
    for path in manifest.model_files(folder):
        status = os.stat(os.path.join(folder, path))
        result[path] = (status.st_size, status.st_mtime_ns)
    return result


def digest(wanted: t.Mapping[str, t.Any]) -> str:
    """SHA-256 over paths and contents of a manifest; times do not count."""
    text = json.dumps(sorted((entry["path"], entry["sha256"]) for entry in wanted["files"]))
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def differing(folder: str, wanted: t.Mapping[str, t.Any], verify: str) -> list[str]:
    """Files of ``folder`` that are not as ``wanted``; all of them when the folder is not there."""
    if not os.path.isdir(folder):
        return sorted(entry["path"] for entry in wanted["files"])
    if verify == "full":
        return staging.differences(wanted, manifest.describe(folder))
    kept = manifest.read(folder)
    changed = set(staging.drifted(kept, _seen(folder)))
    return sorted(changed | set(staging.differences(wanted, kept or {"files": []})))


def check_weights(folder: str) -> None:
    """Every safetensors file of ``folder`` is whole.

    :raises safetensors.SafetensorsError: naming the file.
    """
    for path in manifest.model_files(folder):
        if path.endswith(".safetensors"):
            safetensors.read_header(os.path.join(folder, path))


def inspect(source: str) -> dict[str, t.Any]:
    """A directory used in place: it must be a model with whole weight files."""
    if not os.path.isdir(source):
        raise staging.StagingError(
            f"model directory {source} is not on this host; stage it from control:, host: or hub:, or correct the path"
        )
    listed: dict[str, t.Any] = {
        "files": [{"path": path, "sha256": str(size_time)} for path, size_time in _seen(source).items()]
    }
    staging.check_source(listed, source)
    check_weights(source)
    files = [entry["path"] for entry in listed["files"]]
    return {"changed": False, "path": source, "staged": source, "files": files, "digest": digest(listed)}


def _paths(params: t.Mapping[str, t.Any]) -> tuple[str, str]:
    staged = os.path.join(params["directory"], params["name"])
    return staged, os.path.join(params["mirror"], params["name"]) if params["mirror"] else staged


def _brought(staged: str, wanted: t.Mapping[str, t.Any], differ: t.Sequence[str]) -> dict[str, str]:
    """Path to SHA-256 of what need not travel: files of a killed run, and unchanged files of the present copy."""
    have: dict[str, str] = {}
    for entry in wanted["files"]:
        partial = os.path.join(staged + PARTIAL, entry["path"])
        if os.path.isfile(partial) and os.path.getsize(partial) == entry["size"]:
            have[entry["path"]] = manifest.sha256(partial)
        elif entry["path"] not in differ:
            have[entry["path"]] = entry["sha256"]
    return have


def compare(params: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """What has to be sent and mirrored; refuses when it does not fit. Writes nothing."""
    wanted = t.cast("dict[str, t.Any]", params["manifest"])
    staged, mirror = _paths(params)
    differ = differing(staged, wanted, params["verify"])
    send = staging.to_send(wanted, _brought(staged, wanted, differ)) if differ else []
    if differ:
        staging.check_space(sum(entry["size"] for entry in send), _free(params["directory"]), params["directory"])
    mirrored = mirror == staged or not differing(mirror, wanted, "quick")
    if not mirrored:
        staging.check_space(sum(entry["size"] for entry in wanted["files"]), _free(params["mirror"]), params["mirror"])
    listing = "".join(f"{path}\n" for path in differ)
    return {
        "changed": bool(differ) or not mirrored,
        "path": mirror,
        "staged": staged,
        "files": differ,
        "send": send,
        "digest": digest(wanted),
        "diff": {"before": "", "after": listing, "before_header": staged, "after_header": staged},
    }


def receive(params: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Take one file that arrived in a temporary place, after its SHA-256 was seen to be right."""
    entry = t.cast("dict[str, t.Any]", params["file"])
    staged, mirror = _paths(params)
    target = os.path.join(staged + PARTIAL, entry["path"])
    actual = manifest.sha256(entry["temporary"])
    if actual != entry["sha256"]:
        os.unlink(entry["temporary"])
        raise staging.StagingError(
            f"{entry['path']} arrived damaged: SHA-256 {actual}, expected {entry['sha256']}; the staged model was not touched. Run again."
        )
    os.makedirs(os.path.dirname(target), mode=0o755, exist_ok=True)
    shutil.move(entry["temporary"], target)
    os.chmod(target, 0o644)
    return {"changed": True, "path": mirror, "staged": staged, "files": [entry["path"]], "digest": ""}


def _link_or_copy(source: str, target: str) -> None:
    os.makedirs(os.path.dirname(target), mode=0o755, exist_ok=True)
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP):
            raise
        shutil.copy2(source, target)


def _switch(partial: str, final: str) -> None:
    """Put the finished directory in place; what was there is removed afterwards."""
    retired = final + RETIRED
    shutil.rmtree(retired, ignore_errors=True)
    if os.path.lexists(final):
        os.rename(final, retired)
    os.rename(partial, final)
    shutil.rmtree(retired, ignore_errors=True)


def _write_manifest(folder: str, wanted: t.Mapping[str, t.Any]) -> None:
    hashes = {entry["path"]: entry["sha256"] for entry in wanted["files"]}
    files = [
        {"path": path, "size": size, "mtime_ns": mtime_ns, "sha256": hashes[path]}
        for path, (size, mtime_ns) in _seen(folder).items()
    ]
    with open(os.path.join(folder, manifest.NAME), "w", encoding="utf-8") as stream:
        json.dump({"files": files}, stream, indent=1, sort_keys=True)
        stream.flush()
        os.fsync(stream.fileno())


def publish(params: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Complete the partial directory from the present copy, check it whole, rename it into place, mirror it."""
    wanted = t.cast("dict[str, t.Any]", params["manifest"])
    staged, mirror = _paths(params)
    differ = differing(staged, wanted, params["verify"])
    if differ:
        partial = staged + PARTIAL
        for entry in wanted["files"]:
            target = os.path.join(partial, entry["path"])
            if not os.path.isfile(target):
                _link_or_copy(os.path.join(staged, entry["path"]), target)
        for path in set(manifest.model_files(partial)) - {entry["path"] for entry in wanted["files"]}:
            os.unlink(os.path.join(partial, path))
        wrong = staging.differences(wanted, manifest.describe(partial))
        if wrong:
            raise staging.StagingError(
                f"{partial} is not as its source: {', '.join(wrong)}; remove that directory and run again"
            )
        check_weights(partial)
        _write_manifest(partial, wanted)
        os.chmod(partial, 0o755)
        _switch(partial, staged)
    if mirror != staged and differing(mirror, wanted, "quick"):
        partial = mirror + PARTIAL
        shutil.rmtree(partial, ignore_errors=True)
        shutil.copytree(staged, partial)
        _write_manifest(partial, wanted)
        _switch(partial, mirror)
    return {"changed": True, "path": mirror, "staged": staged, "files": differ, "digest": digest(wanted)}
