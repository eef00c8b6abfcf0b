# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""engine_info, run as Ansible runs it, on a tree that stands in for a host."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from ansible.module_utils import basic
from ansible_collections.inferlab.dflash.plugins.module_utils._engine import manifest
from ansible_collections.inferlab.dflash.plugins.modules import engine_info, engine_release

IDS = ["transformers-tiny-00000000000a", "sglang-tiny-00000000000b"]


def run(module, monkeypatch, capsys, **params):
    payload = json.dumps({"ANSIBLE_MODULE_ARGS": params}).encode()
    monkeypatch.setattr(basic, "_ANSIBLE_ARGS", payload)
    monkeypatch.setattr(basic, "_ANSIBLE_PROFILE", "legacy", raising=False)
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    with pytest.raises(SystemExit) as end:
        module.main()
    return end.value.code, json.loads(capsys.readouterr().out)


def write(path: Path, text: str = "x") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def root(tmp_path):
    releases = tmp_path / "opt/dflash/releases"
    for age, identifier in enumerate(IDS):
        write(releases / identifier / "venv/a.py")
        recorded = {
            "created": 9 - age,
            "backend": identifier.split("-")[0],
            "lock": "tiny",
            "packages": {"a": "1"},
            "patches": [],
        }
        files = manifest.collect(releases / identifier)
        write(releases / identifier / manifest.NAME, json.dumps({**recorded, "files": files}))
    (releases / f"{IDS[0]}.partial").mkdir()
    chat = tmp_path / "var/lib/dflash/instances/chat"
    chat.mkdir(parents=True)
    (chat / "release").symlink_to(f"/opt/dflash/releases/{IDS[1]}")
    write(chat / "record.json", json.dumps({"previous": f"/opt/dflash/releases/{IDS[0]}"}))
    return tmp_path


def test_releases_are_verified_oldest_first(root, monkeypatch, capsys):
    write(root / "opt/dflash/releases" / IDS[0] / "venv/__pycache__/a.cpython-311.pyc")
    rc, said = run(engine_info, monkeypatch, capsys, root=str(root))
    assert (rc, said["changed"]) == (0, False)
    assert [(r["id"], r["state"], r["instances"]) for r in said["releases"]] == [
        (IDS[1], "complete", ["chat"]),
        (IDS[0], "drifted", ["chat"]),
    ]
    assert said["releases"][1]["drift"] == [
        {"path": "venv/__pycache__", "problem": "added"},
        {"path": "venv/__pycache__/a.cpython-311.pyc", "problem": "bytecode"},
    ]
    assert said["releases"][0]["path"] == f"/opt/dflash/releases/{IDS[1]}"
    assert said["releases"][0]["packages"] == {"a": "1"}


def test_one_release_unverified(root, monkeypatch, capsys):
    (root / "opt/dflash/releases" / IDS[0] / "venv/a.py").write_text("edited")
    _rc, said = run(engine_info, monkeypatch, capsys, root=str(root), id=IDS[0], verify="none")
    assert [(r["id"], r["state"]) for r in said["releases"]] == [(IDS[0], "unverified")]


@pytest.mark.parametrize("content", [None, "half", "[]"])
def test_a_release_without_a_readable_manifest(root, monkeypatch, capsys, content):
    path = root / "opt/dflash/releases" / IDS[0] / manifest.NAME
    path.unlink() if content is None else path.write_text(content)
    _rc, said = run(engine_info, monkeypatch, capsys, root=str(root), id=IDS[0])
    assert [r["state"] for r in said["releases"]] == ["incomplete"]


def test_a_blank_host(tmp_path, monkeypatch, capsys):
    rc, said = run(engine_info, monkeypatch, capsys, root=str(tmp_path), python="no-such-python", search=["/opt"])
    assert (rc, said["releases"], said["foreign"], said["host"]["python"]["found"]) == (0, [], [], False)


def test_foreign_engines_are_found_and_own_ones_are_not(root, monkeypatch, capsys):
    for venv in ("opt/venvs/sg", f"opt/dflash/releases/{IDS[1]}/venv"):
        write(root / venv / "pyvenv.cfg")
        info = root / venv / "lib/python3.12/site-packages/sglang-0.5.9.dist-info/METADATA"
        write(info, "Metadata-Version: 2.1\nName: sglang\nVersion: 0.5.9\n")
    write(root / "opt/venvs/other/pyvenv.cfg")
    write(root / "opt/src/sglang/python/sglang/launch_server.py")
    write(root / "opt/src/sglang/python/sglang/version.py", '__version__ = "0.5.11"\n')
    write(root / "opt/a/b/c/d/e/pyvenv.cfg")
    before = sorted(root.rglob("*"))
    _rc, said = run(engine_info, monkeypatch, capsys, root=str(root), search=["/opt", "/nowhere"])
    assert said["foreign"] == [
        {"path": "/opt/src/sglang", "kind": "checkout", "version": "0.5.11", "python": None},
        {"path": "/opt/venvs/sg", "kind": "venv", "version": "0.5.9", "python": "3.12"},
    ]
    assert sorted(root.rglob("*")) == before


def test_wheels_are_listed_with_hashes(root, monkeypatch, capsys):
    write(root / "w/b.whl")
    write(root / "w/a.txt")
    _rc, said = run(engine_info, monkeypatch, capsys, root=str(root), wheels="/w")
    assert said["wheels"] == [{"name": "b.whl", "sha256": manifest.sha256(root / "w/b.whl")}]


def test_engine_release_refuses_to_run_without_its_action_plugin(monkeypatch, capsys):
    rc, said = run(engine_release, monkeypatch, capsys, lock="/l", plugin="/p")
    assert rc == 1 and "action plugin" in said["msg"]
