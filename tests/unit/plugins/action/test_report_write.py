# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""report_write: what is written, what counts as a change, and that a report is never half there."""

from __future__ import annotations

import json
import os
from types import SimpleNamespace

import pytest
from ansible.errors import AnsibleActionFail
from ansible_collections.inferlab.dflash.plugins.action import report_write
from ansible_collections.inferlab.dflash.plugins.plugin_utils._report import store

HOSTS = {"a": {"state": "serving", "rate": 40}}


@pytest.fixture()
def write(tmp_path, monkeypatch):
    """Write a report; each call is a minute later than the one before."""
    clock = iter(range(0, 3600, 60))

    def call(hosts=None, check_mode=False, diff=False, **more):
        monkeypatch.setattr(report_write.time, "gmtime", lambda: time_of(next(clock)))
        action = report_write.ActionModule.__new__(report_write.ActionModule)
        action._task = SimpleNamespace(check_mode=check_mode, diff=diff)
        given = {"kind": "deploy", "title": "", "extra": {}, "volatile": [], "files": {}}
        return action._write({**given, "hosts": HOSTS if hosts is None else hosts, "dir": str(tmp_path), **more})

    return call


def time_of(seconds):
    import time

    return time.struct_time((2026, 11, 30, 14, seconds // 60, seconds % 60, 0, 334, 0))


def names(tmp_path):
    return sorted(os.listdir(tmp_path / "deploy"))


def test_the_first_report_has_a_dated_copy(write, tmp_path):
    answer = write()
    assert answer["changed"] is True
    assert names(tmp_path) == ["20261130T140000Z.html", "20261130T140000Z.json", "latest.html", "latest.json"]
    assert json.loads((tmp_path / "deploy/latest.json").read_text())["hosts"] == HOSTS
    assert (tmp_path / "deploy/latest.html").stat().st_mode & 0o777 == 0o644
    assert answer["html"] == str(tmp_path / "deploy/latest.html")


def test_the_same_again_touches_nothing(write, tmp_path):
    first = write()
    before = {name: (tmp_path / "deploy" / name).stat().st_mtime_ns for name in names(tmp_path)}
    again = write()
    assert (again["changed"], again["generated"]) == (False, first["generated"])
    assert {name: (tmp_path / "deploy" / name).stat().st_mtime_ns for name in names(tmp_path)} == before


def test_new_measurements_alone_are_written_but_are_no_change(write, tmp_path):
    write(volatile=["rate"])
    again = write({"a": {"state": "serving", "rate": 41}}, volatile=["rate"])
    assert again["changed"] is False
    assert json.loads((tmp_path / "deploy/latest.json").read_text())["hosts"]["a"]["rate"] == 41
    assert len(names(tmp_path)) == 4


def test_a_new_state_is_a_change_with_a_copy_of_its_own(write, tmp_path):
    write()
    assert write({"a": {"state": "failed"}})["changed"] is True
    assert "20261130T140100Z.json" in names(tmp_path)


@pytest.mark.parametrize("spoil", [lambda page: page.unlink(), lambda page: page.write_text("edited")])
def test_a_page_that_was_removed_or_edited_comes_back(write, tmp_path, spoil):
    write()
    page = tmp_path / "deploy/latest.html"
    good = page.read_text()
    spoil(page)
    assert write()["changed"] is True
    assert page.read_text() == good


def test_check_mode_predicts_and_writes_nothing(write, tmp_path):
    assert write(check_mode=True)["changed"] is True
    assert not (tmp_path / "deploy").exists()
    write()
    assert write(check_mode=True)["changed"] is False


def test_the_diff_shows_data_and_further_files_but_no_page(write):
    write(files={"inventory.yml": "a\n"})
    answer = write({"a": {"state": "failed"}}, diff=True, files={"inventory.yml": "b\n"})
    shown = {os.path.basename(part["after_header"]): (part["before"], part["after"]) for part in answer["diff"]}
    assert set(shown) == {"latest.json", "inventory.yml"}
    assert shown["inventory.yml"] == ("a\n", "b\n")
    assert '"failed"' in shown["latest.json"][1]


def test_a_further_file_that_differs_is_a_change(write, tmp_path):
    write(files={"inventory.yml": "a\n"})
    assert write(files={"inventory.yml": "a\n"})["changed"] is False
    assert write(files={"inventory.yml": "b\n"})["changed"] is True
    assert (tmp_path / "deploy/inventory.yml").read_text() == "b\n"


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"../x": "t"}, "'../x' must be a plain file name"),
        ({"latest.json": "t"}, "other than latest"),
        ({".x": "t"}, "plain file name"),
        ({"x": {"a": 1}}, "the content of x must be text, got dict"),
    ],
)
def test_odd_files_are_refused_before_anything_is_written(write, tmp_path, files, words):
    with pytest.raises(report_write.ReportError, match=words):
        write(files=files)
    assert not (tmp_path / "deploy").exists()


def test_an_interrupted_write_leaves_the_old_file_and_no_rest(tmp_path, monkeypatch):
    store.write(str(tmp_path), {"latest.json": "old"})

    def interrupted(_source, _target):
        raise KeyboardInterrupt

    monkeypatch.setattr(store.os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        store.write(str(tmp_path), {"latest.json": "new"})
    assert os.listdir(tmp_path) == ["latest.json"]
    assert (tmp_path / "latest.json").read_text() == "old"


def test_an_unwritable_folder_fails_with_its_path(tmp_path, monkeypatch):
    (tmp_path / "deploy").write_text("a file in the way")
    action = report_write.ActionModule.__new__(report_write.ActionModule)
    action._task = SimpleNamespace(check_mode=False, diff=False)
    monkeypatch.setattr(report_write.ActionBase, "run", lambda *_args: {})
    given = {
        "kind": "deploy",
        "title": "",
        "extra": {},
        "volatile": [],
        "files": {},
        "hosts": HOSTS,
        "dir": str(tmp_path),
    }
    monkeypatch.setattr(action, "validate_argument_spec", lambda _spec: (None, given))
    with pytest.raises(AnsibleActionFail, match="deploy"):
        action.run()
