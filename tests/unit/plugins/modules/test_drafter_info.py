# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""drafter_info, run as Ansible runs it, on directories on disk."""

from __future__ import annotations

import io
import json

import pytest
from ansible.module_utils import basic
from ansible_collections.inferlab.dflash.plugins.modules import drafter_info
from ansible_collections.inferlab.dflash.tests.unit.plugins.module_utils._models import model_dirs as dirs


def run(monkeypatch, capsys, **params):
    # The two spellings of passing arguments: up to core 2.19 by _ANSIBLE_ARGS alone, later with a profile.
    payload = json.dumps({"ANSIBLE_MODULE_ARGS": params}).encode()
    monkeypatch.setattr(basic, "_ANSIBLE_ARGS", payload)
    monkeypatch.setattr(basic, "_ANSIBLE_PROFILE", "legacy", raising=False)
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    with pytest.raises(SystemExit) as end:
        drafter_info.main()
    return end.value.code, json.loads(capsys.readouterr().out)


@pytest.fixture()
def models(tmp_path):
    dirs.directory(tmp_path / "srv/target", dirs.TARGET, dirs.TARGET_TENSORS, dirs.tokenizer())
    dirs.directory(tmp_path / "srv/drafter", dirs.DRAFTER, dirs.draft_tensors())
    return tmp_path


def test_a_pair_under_a_root(models, monkeypatch, capsys):
    rc, said = run(monkeypatch, capsys, target="/srv/target", drafter="/srv/drafter", root=str(models))
    assert (rc, said["ok"], said["changed"], said["findings"]) == (0, True, False, [])
    assert said["summary"] == "Qwen3ForCausalLM, 6 layers of 8, with a drafter of 2 layers, block 8"
    assert said["drafter"]["taps"] == [1, 3, 6]
    assert said["target"]["weights"]["whole"] is True


def test_a_target_alone(models, monkeypatch, capsys):
    _rc, said = run(monkeypatch, capsys, target=str(models / "srv/target"))
    assert (said["ok"], said["drafter"]) == (True, None)


def test_no_pair_is_a_result_and_not_a_failure(models, monkeypatch, capsys):
    rc, said = run(monkeypatch, capsys, target=str(models / "srv/drafter"), drafter=str(models / "srv/drafter"))
    assert (rc, said["ok"]) == (0, False)
    assert "trained for a target of 6 layers, this one has 2" in said["summary"]
    assert "more)" in said["summary"]


def test_weights_are_optional_where_dummy_ones_are_used(models, monkeypatch, capsys):
    for name in ("target", "drafter"):
        (models / "srv" / name / "model.safetensors").unlink()
    arguments = {"target": str(models / "srv/target"), "drafter": str(models / "srv/drafter")}
    assert run(monkeypatch, capsys, **arguments)[1]["ok"] is False
    assert run(monkeypatch, capsys, require_weights=False, **arguments)[1]["ok"] is True
