# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.inferlab.dflash.plugins.modules import service_diagnosis


class FakeHost:
    def __init__(self, unit):
        self.unit = f"{unit}.service"

    def show(self):
        return {"ActiveState": "failed"}


COLLECTED = {
    "unit_journal": "IndexError: list index out of range\n",
    "unit_show": "ActiveState=failed\n",
    "nvidia_smi": None,
}


def run(monkeypatch, capsys, **arguments):
    monkeypatch.setattr(service_diagnosis, "Host", FakeHost)
    monkeypatch.setattr(service_diagnosis, "collect", lambda *given, **named: dict(COLLECTED))
    with patch_module_args({"unit": "x", **arguments}), pytest.raises(SystemExit) as ended:
        service_diagnosis.main()
    assert ended.value.code == 0
    return json.loads(capsys.readouterr().out)


def test_a_fault_is_named_and_nothing_is_changed(monkeypatch, capsys):
    result = run(monkeypatch, capsys)
    assert (result["diagnosis"]["code"], result["state"], result["changed"]) == ("engine_exception", "failed", False)
    assert result["collected"] == ["unit_journal", "unit_show"]
    assert result["degraded"] is None


def test_evidence_from_elsewhere_counts(monkeypatch, capsys):
    log = "NVRM: Xid (PCI:0000:06:00): 79, GPU has fallen off the bus.\n"
    result = run(monkeypatch, capsys, channels={"kernel_log": log})
    assert (result["diagnosis"]["code"], result["diagnosis"]["parsed"]["xid"]) == ("gpu_hardware_fault", 79)


def test_history_is_read(monkeypatch, capsys, tmp_path):
    path = tmp_path / "history.jsonl"
    path.write_text(
        json.dumps({"instance": "x", "event": "remedy", "code": "engine_exception", "remedy": "restarted"}) + "\n"
    )
    assert run(monkeypatch, capsys, history=str(path))["diagnosis"]["falsified"]


def test_bundle_is_written_but_not_in_check_mode(monkeypatch, capsys, tmp_path):
    path = tmp_path / "e.tar.gz"
    assert not run(monkeypatch, capsys, bundle=str(path), _ansible_check_mode=True)["changed"]
    assert not path.exists()
    assert run(monkeypatch, capsys, bundle=str(path))["changed"]
    assert path.stat().st_size > 0
