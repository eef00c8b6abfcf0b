# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Manifest comparison, retention, fitness of a host, patches: the pure parts."""

from __future__ import annotations

import hashlib

import pytest
from ansible_collections.inferlab.dflash.plugins.module_utils._engine import host, manifest, patching, retention, wheels
from ansible_collections.inferlab.dflash.plugins.module_utils._engine.errors import EngineError

RECORDED = {
    "a.py": "f 0644 aa",
    "b.py": "f 0644 bb",
    "c.pyc": "f 0644 cc",
    "d": "d 0755",
    "l": "l a.py",
    "m": "f 0755 mm",
}


@pytest.mark.parametrize(
    ("change", "drift"),
    [
        ({}, []),
        ({"a.py": "f 0644 xx"}, [("a.py", "changed")]),
        ({"a.py": None}, [("a.py", "missing")]),
        ({"c.pyc": None}, [("c.pyc", "missing")]),
        ({"c.pyc": "f 0644 xx"}, [("c.pyc", "bytecode")]),
        ({"__pycache__/n.pyc": "f 0644 xx"}, [("__pycache__/n.pyc", "bytecode")]),
        ({"n.py": "f 0644 xx"}, [("n.py", "added")]),
        ({"m": "f 0644 mm"}, [("m", "mode")]),
        ({"d": "d 0777"}, [("d", "mode")]),
        ({"l": "l b.py"}, [("l", "changed")]),
        ({"a.py": "l b.py"}, [("a.py", "changed")]),
        ({"b.py": "f 0600 xx", "a.py": None}, [("a.py", "missing"), ("b.py", "changed")]),
    ],
)
def test_drift(change: dict[str, str | None], drift: list[tuple[str, str]]) -> None:
    found = {path: entry for path, entry in {**RECORDED, **change}.items() if entry is not None}
    assert [(entry["path"], entry["problem"]) for entry in manifest.compare(RECORDED, found)] == drift


@pytest.mark.parametrize(
    ("needed", "keep", "gone"),
    [
        ([], 3, ["r1", "r2"]),
        (["r1"], 3, ["r2"]),
        (["r1", "r2"], 3, []),
        ([], 9, []),
        (["r3"], 1, ["r1", "r2", "r4"]),
        ([], 0, ["r1", "r2", "r3", "r4", "r5"]),
        ([], -1, ["r1", "r2", "r3", "r4", "r5"]),
    ],
)
def test_retention(needed: list[str], keep: int, gone: list[str]) -> None:
    releases = [{"id": f"r{number}", "created": number} for number in (3, 1, 5, 2, 4)]
    assert retention.removable(releases, needed, keep) == gone


LOCK = {"name": "sglang-cp312", "python": "3.12", "machine": "x86_64", "glibc": "2.34"}
PYTHON = {"name": "python3.12", "found": True, "path": "/usr/bin/python3.12", "version": "3.12.1", "venv": True}


@pytest.mark.parametrize(
    ("interpreter", "libc", "machine", "said"),
    [
        ({}, "2.36", "x86_64", ""),
        ({}, "2.34", "x86_64", ""),
        ({"found": False}, "2.36", "x86_64", "install the package python3.12"),
        ({"version": "3.11.2"}, "2.36", "x86_64", "is Python 3.11.2, lock sglang-cp312 needs 3.12"),
        ({"venv": False}, "2.36", "x86_64", "install the package python3.12-venv"),
        ({}, "2.36", "aarch64", "the host is aarch64"),
        ({}, "2.31", "x86_64", "glibc 2.31"),
        ({}, "2.4", "x86_64", "glibc 2.4"),
        ({}, None, "x86_64", "no known version"),
    ],
)
def test_fitness(interpreter: dict[str, object], libc: str | None, machine: str, said: str) -> None:
    reason, code = host.unfit(LOCK, {**PYTHON, **interpreter}, libc, machine)
    assert said in reason if said else reason == ""
    assert code == ("venv_unavailable" if "venv" in interpreter else "")


def test_python_that_is_not_there() -> None:
    assert host.python("no-such-python")["found"] is False


def test_missing_wheels() -> None:
    assert wheels.missing([("a", ("1", "2")), ("b", ("3",)), ("c", ("4", "5"))], ["2", "5", "9"]) == ["b"]


BEFORE = "one\ntwo\nthree\nfour\nfive\n"
AFTER = "one\n2\nthree\nfour\nfive\nsix\n"
DIFF = """\
--- a/x.py
+++ b/x.py
@@ -1,3 +1,3 @@
 one
-two
+2
 three
@@ -5 +5,2 @@
 five
+six
"""


def test_diff_applies() -> None:
    assert patching.apply_diff(BEFORE, DIFF, "x") == AFTER


def test_diff_inserts_and_ends_without_newline() -> None:
    diff = "@@ -0,0 +1 @@\n+zero\n@@ -2 +3 @@\n-b\n\\ No newline at end of file\n+c\n\\ No newline at end of file\n"
    assert patching.apply_diff("a\nb", diff, "x") == "zero\na\nc"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("zero\n" + BEFORE, "hunk 1 does not match line 1"),
        (BEFORE.replace("five", "5"), "hunk 2 does not match line 5"),
    ],
)
def test_diff_knows_no_fuzz(text: str, said: str) -> None:
    with pytest.raises(EngineError, match=said):
        patching.apply_diff(text, DIFF, "x")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _patch(**changes: str) -> dict[str, object]:
    hashes = {"before": _digest(BEFORE), "after": _digest(AFTER)}
    return {"name": "p", "package": "sglang", "versions": ["1"], "file": "x.py", **hashes, "diff": DIFF, **changes}


def test_patch_is_recorded(tmp_path) -> None:
    (tmp_path / "x.py").write_text(BEFORE)
    assert patching.apply_all(tmp_path, [_patch()]) == [
        {"name": "p", "file": "x.py", "before": _digest(BEFORE), "after": _digest(AFTER)}
    ]
    assert (tmp_path / "x.py").read_text() == AFTER


@pytest.mark.parametrize(
    ("content", "change", "said"),
    [
        (BEFORE + "\n", {}, "unknown hash"),
        (AFTER, {}, "unknown hash"),
        (BEFORE, {"file": "y.py"}, "y.py is not in the release"),
        (BEFORE, {"after": "0" * 64}, "expected 0000"),
    ],
)
def test_patch_refused_and_file_untouched(tmp_path, content: str, change: dict[str, str], said: str) -> None:
    (tmp_path / "x.py").write_text(content)
    with pytest.raises(EngineError, match=said):
        patching.apply_all(tmp_path, [_patch(**change)])
    assert (tmp_path / "x.py").read_text() == content


def test_patches_are_chosen_by_version() -> None:
    assert patching.select([_patch()], {"sglang": "1"}) == [_patch()]
    assert patching.select([_patch()], {"sglang": "2"}) == []
    assert patching.select([_patch()], {"torch": "1"}) == []
