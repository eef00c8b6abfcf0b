# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""The shipped patches to SGLang: complete entries, one file each, and (with SGLang here) the file they are for."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
from pathlib import Path

import pytest

PATCHES = Path(__file__).resolve().parents[3] / "patches"
LISTED = json.loads((PATCHES / "patches.json").read_text())["patches"]


@pytest.mark.parametrize("patch", LISTED, ids=lambda p: p["name"])
def test_entry_is_complete_and_touches_its_file_only(patch: dict) -> None:
    diff = (PATCHES / patch["diff"]).read_text()
    headers = [line.split()[1] for line in diff.splitlines() if line.startswith(("--- ", "+++ "))]
    assert headers == [f"a/{patch['file']}", f"b/{patch['file']}"]
    assert all(len(patch[key]) == 64 and set(patch[key]) <= set("0123456789abcdef") for key in ("before", "after"))
    assert patch["before"] != patch["after"]
    assert patch["versions"]
    assert patch["why"].endswith(".")


def test_no_diff_is_left_out_of_the_list() -> None:
    shipped = {str(p.relative_to(PATCHES)) for p in PATCHES.rglob("*.patch")}
    assert shipped == {patch["diff"] for patch in LISTED}


@pytest.mark.parametrize("patch", LISTED, ids=lambda p: p["name"])
def test_hash_is_that_of_the_installed_file(patch: dict) -> None:
    try:
        installed = importlib.metadata.version(patch["package"])
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"{patch['package']} is not installed")
    if installed not in patch["versions"]:
        pytest.skip(f"{patch['package']} {installed} is not one of {patch['versions']}")
    path = importlib.metadata.distribution(patch["package"]).locate_file(patch["file"])
    assert hashlib.sha256(Path(path).read_bytes()).hexdigest() in (patch["before"], patch["after"])
