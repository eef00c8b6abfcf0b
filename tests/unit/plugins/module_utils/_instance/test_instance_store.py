# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os

from ansible_collections.inferlab.dflash.plugins.module_utils._instance import act, store


def test_ports_without_visible_holder_belong_to_the_running_instance_that_recorded_them():
    instances = [
        {"unit": "dflash-main.service", "active": True, "port": 8000},
        {"unit": "dflash-dead.service", "active": False, "port": 9000},
    ]
    listening = [
        {"port": 8000, "pid": None, "unit": None},
        {"port": 9000, "pid": None, "unit": None},
        {"port": 8000, "pid": 42, "unit": "other.service"},
    ]
    assert [entry["unit"] for entry in store.attribute_ports(listening, instances)] == [
        "dflash-main.service",
        None,
        "other.service",
    ]


def test_history_passes_over_a_line_cut_by_a_crash(tmp_path):
    path = str(tmp_path / "var" / "history.jsonl")
    act.append_history(path, {"instance": "main", "event": "ready"})
    with open(path, "a", encoding="utf-8") as stream:
        stream.write('{"instance": "ma')
    assert [entry["event"] for entry in store.read_history(path)] == ["ready"]


def test_a_generation_without_its_record_is_none(tmp_path):
    paths = store.Paths("main", str(tmp_path))
    wanted = {"unit": "[Unit]\n", "environment": 'A="1"\n', "release": "/opt/r", "record": {"profile": "x"}}
    act.write_generation(paths, "g1", wanted)
    assert store.complete_generations(paths) == ["g1"]
    assert store.read_generation(paths, "g1") == wanted
    os.unlink(os.path.join(paths.generation("g1"), "record.json"))
    assert store.complete_generations(paths) == []
    assert store.read_generation(paths, "g1") is None


def test_the_key_is_kept_once_and_only_its_digest_elsewhere(tmp_path):
    paths = store.Paths("main", str(tmp_path))
    act.install_api_key(paths, "secret-key")
    act.record_active(paths, "g1", "secret-key")
    assert store.mode_of(paths.api_key) == 0o600
    assert "secret-key" not in (store.read_text(paths.active) or "")
    show = {"ActiveState": "active", "UnitFileState": "enabled", "NeedDaemonReload": "no"}
    assert store.read_current(paths, "g1", "secret-key", show)["api_key_in_use"] is True
    changed = store.read_current(paths, "g1", "another", show)
    assert (changed["api_key_matches"], changed["api_key_in_use"]) == (False, False)
    act.install_api_key(paths, None)
    assert store.read_text(paths.api_key) is None


def test_link_moves_in_one_rename(tmp_path):
    paths = store.Paths("main", str(tmp_path))
    act.move_link(paths, "/opt/a")
    act.move_link(paths, "/opt/b")
    assert os.readlink(paths.link) == "/opt/b"
    assert sorted(os.listdir(paths.state)) == ["release"]


def test_directories_that_are_missing_or_closed_are_made_right_whatever_the_umask(tmp_path):
    paths = store.Paths("main", str(tmp_path))
    (tmp_path / "etc/dflash").mkdir(parents=True, mode=0o755)
    (tmp_path / "etc/dflash").chmod(0o700)
    assert store.wrong_directories(paths) == paths.directories
    before = os.umask(0o077)
    try:
        act.make_directories(paths)
    finally:
        os.umask(before)
    assert store.wrong_directories(paths) == []
    assert [store.mode_of(path) for path in paths.directories] == [0o755] * 5
