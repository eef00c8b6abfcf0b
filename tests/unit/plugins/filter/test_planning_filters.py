# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filters, called as Ansible calls them: refusals become AnsibleFilterError with the text of the plan."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.inferlab.dflash.plugins.filter import (
    dflash_wishes,
    plan_instances,
    preflight_findings,
    readiness_verdict,
)

NO_GPU = {"driver": {"state": "no_gpu"}, "devices": [], "identity": {}}


def call(module, *args, **kwargs):
    ((_name, function),) = module.FilterModule().filters().items()
    return function(*args, **kwargs)


def test_from_a_text_area_to_a_plan():
    wishes = call(dflash_wishes, "- {name: main, model: /srv/t, port: '31000'}")
    (planned,) = call(plan_instances, wishes, NO_GPU, host="lab1")
    assert (planned["port"], planned["gpus"], planned["engine_backend"]) == (31000, [], "transformers")


def test_refusals_are_filter_errors():
    with pytest.raises(AnsibleFilterError, match="no YAML"):
        call(dflash_wishes, "[{")
    with pytest.raises(AnsibleFilterError, match="algorithm = 'eagle'"):
        call(dflash_wishes, [{"model": "m", "algorithm": "eagle"}])
    wishes = call(dflash_wishes, [{"model": "m", "engine_backend": "sglang"}])
    with pytest.raises(AnsibleFilterError, match="no NVIDIA GPU"):
        call(plan_instances, wishes, NO_GPU)
    with pytest.raises(AnsibleFilterError, match="gpu_nam"):
        call(preflight_findings, {"gpu_nam": "x"}, NO_GPU)


def test_findings_to_verdict():
    found = call(preflight_findings, {"gpu_name": "H200"}, NO_GPU, host="web1")
    assert call(readiness_verdict, found)["verdict"] == "not_ready"
    assert "web1 is the wrong machine" in found[0]["message"]
