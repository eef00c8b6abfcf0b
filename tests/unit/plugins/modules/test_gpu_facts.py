# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.testing import patch_module_args
from ansible_collections.inferlab.dflash.plugins.modules import driver_reconcile, driver_rollback, gpu_facts


def run(module, capsys, **arguments):
    """The module's main() with these arguments: (exit status, result)."""
    with patch_module_args(arguments), pytest.raises(SystemExit) as ended:
        module.main()
    return ended.value.code, json.loads(capsys.readouterr().out)


@pytest.fixture
def root(tmp_path):
    library = tmp_path / "usr/lib/x86_64-linux-gnu"
    library.mkdir(parents=True)
    (library / "libnvidia-ml.so.580.159.03").write_text("")
    (library / "libnvidia-ml.so.1").symlink_to("libnvidia-ml.so.580.159.03")
    proc = tmp_path / "proc/driver/nvidia"
    proc.mkdir(parents=True)
    (proc / "version").write_text(
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.126.09  Release Build  (x@y)\n"
    )
    return str(tmp_path)


def test_facts_of_a_broken_driver_are_no_failure(root, capsys):
    for check_mode in (False, True):
        code, result = run(gpu_facts, capsys, root=root, _ansible_check_mode=check_mode)
        gpu = result["ansible_facts"]["gpu"]
        assert (code, result["changed"]) == (0, False)
        assert set(gpu) == {"schema", "sources", "warnings", "identity", "driver", "devices", "p2p"}
        assert gpu["driver"]["state"] == "mismatch"
        assert gpu["driver"]["kernel_module_version"] == "580.126.09"
        assert gpu["driver"]["user_space_version"] == "580.159.03"


def test_the_subset_min_is_the_driver_alone(root, capsys):
    gpu = run(gpu_facts, capsys, root=root, gather_subset=["min"])[1]["ansible_facts"]["gpu"]
    assert gpu["devices"] == [] and "packages" not in gpu["driver"]


def test_a_wrong_subset_is_refused_with_the_right_ones(root, capsys):
    code, result = run(gpu_facts, capsys, root=root, gather_subset=["colour"])
    assert code == 1 and "colour" in result["msg"] and "topology" in result["msg"]


@pytest.mark.parametrize("version", ["580", "latest", "580.126.09-0ubuntu1", "13.0"])
def test_a_target_that_is_no_full_version_is_refused(capsys, version):
    code, result = run(driver_reconcile, capsys, target_version=version)
    assert code == 1 and version in result["msg"] and "580.126.09" in result["msg"]


def test_no_history_is_a_warning_and_no_change(tmp_path, capsys, monkeypatch):
    # Ansible tells a warning once a process, so what the module says is taken where it says it.
    warnings: list[str] = []
    monkeypatch.setattr(AnsibleModule, "warn", lambda self, warning, **more: warnings.append(warning))
    code, result = run(driver_rollback, capsys, state_dir=str(tmp_path))
    assert (code, result["changed"]) == (0, False)
    assert any("no change of the driver" in warning for warning in warnings)


def test_a_damaged_record_is_refused(tmp_path, capsys):
    (tmp_path / "driver.json").write_text("{")
    for module in (driver_rollback, driver_reconcile):
        code, result = run(module, capsys, state_dir=str(tmp_path))
        assert code == 1 and "cannot be read" in result["msg"]
