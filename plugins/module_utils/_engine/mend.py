# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A drifted release made whole from its own good files and from the wheels, without an installation.

The result is made beside the drifted release and takes its place like any other. It is used only when it equals the manifest to the
file; what cannot be had this way (scripts and records that pip writes, byte code) needs the whole installation.
"""

from __future__ import annotations

import hashlib
import os
import re
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.inferlab.dflash.plugins.module_utils._engine import manifest, patching

_IN_SITE = re.compile(r"^venv/lib/python3\.\d+/site-packages/(.+)$")


def mend(
    path: Path,
    partial: Path,
    files: Mapping[str, str],
    drift: Iterable[Mapping[str, str]],
    wheels: Iterable[Path],
    patches: Iterable[Mapping[str, Any]],
) -> bool:
    """Make in ``partial`` (an empty directory) what the manifest entries ``files`` of the release at ``path`` say.

    Files without ``drift`` are linked, the others come from the release itself where only the mode changed, else from a member of
    one of the ``wheels``, patched where a patch is for it. False when a file cannot be had, or the result differs from ``files``.
    """
    lost = {entry["path"] for entry in drift if files.get(entry["path"], "").startswith("f ")}
    contents = _contents(path, {name: files[name].split(" ")[2] for name in lost}, wheels, list(patches))
    if len(contents) != len(lost):
        return False
    linked = []
    # A directory stands before what is in it: its path is the shorter one.
    for name in sorted(files):
        kind, _space, rest = files[name].partition(" ")
        target = partial / name
        if kind == "d":
            target.mkdir()
            target.chmod(int(rest, 8))
        elif kind == "l":
            target.symlink_to(rest)
        elif kind != "f":
            return False
        elif name in contents:
            target.write_bytes(contents[name])
            target.chmod(int(rest.split(" ")[0], 8))
        else:
            os.link(path / name, target)
            linked.append(name)
    stamps = manifest.stamps(partial)
    return manifest.collect(partial, files, {name: stamps[name] for name in linked}) == dict(files)


def _contents(
    path: Path, lost: Mapping[str, str], wheels: Iterable[Path], patches: list[Mapping[str, Any]]
) -> dict[str, bytes]:
    """Contents with the wanted sha256 for as many of the ``lost`` files as can be had."""
    contents = {}
    for name, wanted in lost.items():
        try:
            content = (path / name).read_bytes()
        except OSError:
            continue
        if hashlib.sha256(content).hexdigest() == wanted:
            contents[name] = content
    in_site = {match.group(1): name for name in lost if name not in contents and (match := _IN_SITE.match(name))}
    for wheel in wheels if in_site else ():
        with zipfile.ZipFile(wheel) as archive:
            for member in archive.namelist():
                # Members below NAME.data/purelib and platlib are installed as if they stood at the top.
                installed = re.sub(r"^[^/]+\.data/(?:purelib|platlib)/", "", member)
                name = in_site.get(installed)
                if name is not None and name not in contents:
                    content = archive.read(member)
                    for patch in patches:
                        if patch["file"] == installed:
                            content = patching.apply(content, patch)
                    if hashlib.sha256(content).hexdigest() == lost[name]:
                        contents[name] = content
    return contents
