# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Locks and release ids: what is accepted, what is refused by name, and what changes an id."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.inferlab.dflash.plugins.module_utils._engine import identity, lock
from ansible_collections.inferlab.dflash.plugins.module_utils._engine.errors import EngineError
from ansible_collections.inferlab.dflash.tests.unit.plugins.module_utils._engine.engine_tiny import lock_text

A, B = "a" * 64, "b" * 64
LOCKS = Path(__file__).parents[5] / "roles" / "engine" / "files" / "locks"


def test_pins_hashes_and_builds() -> None:
    text = lock_text([("some.Pkg", "1.0", A)]) + f"# torch 2.0+cpu: {B}\n# torch 2.0: {A}\n"
    text += f"torch==2.0 \\\n    --hash=sha256:{B} \\\n    --hash=sha256:{A}\n"
    parsed = lock.parse(text)
    assert [pin.name for pin in parsed.pins] == ["some-pkg", "torch"]
    assert parsed.pins[1].hashes == (B, A)
    assert parsed.pins[1].builds == ("2.0+cpu", "2.0")
    assert parsed.hashes == {A, B}
    assert parsed.meta["name"] == "transformers-tiny"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("torch==2.0\n", "no '# lock:"),
        ("# lock: name=x backend=y\nt==1 --hash=sha256:" + A, "lacks python, machine"),
        (lock_text([]), "no package"),
        (lock_text([]) + "torch==2.0\n", "torch==2.0"),
        (lock_text([]) + f"torch>=2.0 --hash=sha256:{A}\n", "torch>=2.0"),
        (lock_text([]) + "torch==2.0 --hash=md5:abc\n", "md5"),
        (lock_text([]) + "--index-url x\n", "--index-url"),
        (lock_text([("t-x", "1", A), ("t_x", "1", A)]), "t-x is pinned twice"),
    ],
)
def test_refused(text: str, said: str) -> None:
    with pytest.raises(EngineError, match=said):
        lock.parse(text)


@pytest.mark.parametrize("path", sorted(LOCKS.glob("*.txt")), ids=lambda path: path.stem)
def test_locks_that_ship(path: Path) -> None:
    parsed = lock.parse(path.read_text(encoding="utf-8"))
    assert parsed.name == path.stem
    assert parsed.name.endswith("cp" + parsed.python.replace(".", ""))
    assert "pip" in {pin.name for pin in parsed.pins}


def test_id_names_every_input() -> None:
    patch = {"name": "p", "before": A, "after": B}
    ids = [
        identity.release_id("x", "lock", A, []),
        identity.release_id("x", "lock ", A, []),
        identity.release_id("x", "lock", B, []),
        identity.release_id("x", "lock", A, [patch]),
        identity.release_id("y", "lock", A, []),
    ]
    assert len(set(ids)) == len(ids)
    assert ids[0] == identity.release_id("x", "lock", A, [])
    assert all(map(identity.is_release_id, ids))


@pytest.mark.parametrize(
    "name", ["x-0123456789ab.partial", "x-0123456789ab.replaced", ".lock", "0123456789ab", "x-0123"]
)
def test_not_an_id(name: str) -> None:
    assert not identity.is_release_id(name)
