# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest
from ansible_collections.inferlab.dflash.plugins.module_utils._driver import record


def test_an_entry_is_on_disk_before_anything_is_done(tmp_path):
    path = tmp_path / "state" / "driver.json"
    first = record.Record(str(path))
    assert first.unfinished() is None and first.in_force("align_userspace") is None
    entry = first.begin(action="align_userspace", target_version="580.126.09", before={})
    again = record.Record(str(path))
    assert again.unfinished()["target_version"] == "580.126.09"
    first.finish(entry, record.DONE, after={})
    done = record.Record(str(path))
    assert done.unfinished() is None
    assert done.in_force("align_userspace")["state"] == "done"
    assert done.in_force("reload_module") is None


def test_a_change_that_was_rolled_back_uncovers_the_one_before(tmp_path):
    history = record.Record(str(tmp_path / "driver.json"))
    for version in ("1", "2"):
        history.finish(history.begin(action="align_userspace", target_version=version), record.DONE)
    history.finish(history.in_force("align_userspace"), record.ROLLED_BACK)
    assert history.in_force("align_userspace")["target_version"] == "1"


def test_only_the_last_entries_are_kept(tmp_path):
    path = tmp_path / "driver.json"
    history = record.Record(str(path))
    for number in range(25):
        history.finish(history.begin(action="align_userspace", target_version=str(number)), record.DONE)
    kept = json.loads(path.read_text())["entries"]
    assert [entry["target_version"] for entry in kept] == [str(number) for number in range(5, 25)]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": 1}'])
def test_a_damaged_record_is_said_to_be_damaged(tmp_path, text):
    path = tmp_path / "driver.json"
    path.write_text(text)
    with pytest.raises(record.Damaged, match="Move it away"):
        record.Record(str(path))


def test_a_file_is_replaced_whole_with_its_mode(tmp_path):
    path = tmp_path / "folder" / "file"
    record.write_file(str(path), "one")
    record.write_file(str(path), "two", 0o600)
    assert path.read_text() == "two" and path.stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == ["file"]
