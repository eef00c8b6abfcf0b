# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The action plugin of engine_release: which phases it asks the host for, what it sends, and where it stops."""

from __future__ import annotations

import tarfile
from types import SimpleNamespace

import pytest
from ansible_collections.inferlab.dflash.plugins.action import engine_release
from ansible_collections.inferlab.dflash.plugins.plugin_utils._engine import source_wheel

META = "# lock: name=tiny backend=transformers python=3.11 machine=x86_64 glibc=2.34 cuda=none\n"


@pytest.fixture
def controller(tmp_path, monkeypatch):
    """The plugin with a host that records what it is asked, and a control node that has every wheel in its cache."""
    project = tmp_path / "project"
    (project / "src" / "plugin").mkdir(parents=True)
    (project / "src" / "plugin" / "__init__.py").write_text("")
    (project / "pyproject.toml").write_text('[project]\nname = "plugin"\nversion = "1"\n')
    wheel = source_wheel.make(project)
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "engine-1-py3-none-any.whl").write_bytes(wheel.content)
    (tmp_path / "lock.txt").write_text(META + f"engine==1 --hash=sha256:{wheel.sha256}\n")
    arguments = {"lock": str(tmp_path / "lock.txt"), "plugin": str(project), "wheel_cache": str(tmp_path / "cache")}
    seen = SimpleNamespace(phases=[], sent=[], replies={})
    shell = SimpleNamespace(tmpdir="/remote", join_path=lambda *parts: "/".join(parts))
    plan = {"changed": True, "state_before": "absent", "missing": ["engine", "plugin"], "path": "/r/x"}
    seen.replies = {"plan": plan, "take": {"changed": True}, "build": {"changed": True, "id": "x"}}

    def execute(module_name, module_args, task_vars):
        request = module_args["_request"]
        seen.phases.append(request["phase"])
        seen.request = request
        return seen.replies[request["phase"]]

    def transfer(local, remote):
        with tarfile.open(local) as bundle:
            seen.sent.append((remote, bundle.getnames()))

    action = engine_release.ActionModule.__new__(engine_release.ActionModule)
    action._task = SimpleNamespace(args=arguments, check_mode=False, delegate_to=None)
    action._play_context = SimpleNamespace(remote_addr="host")
    action._connection = SimpleNamespace(_shell=shell)
    action._execute_module = execute
    action._transfer_file = transfer
    action._fixup_perms2 = lambda paths: None
    filled = {"patches": None, "source": "controller", "find_links": [], **arguments}
    monkeypatch.setattr(action, "validate_argument_spec", lambda **_spec: (None, filled), raising=False)
    monkeypatch.setattr(engine_release.ActionBase, "run", lambda *_arguments: {})
    action.seen, action.options = seen, filled
    return action


def test_wheels_go_before_the_build(controller) -> None:
    assert controller.run(None, {}) == {"changed": True, "id": "x", "missing": ["engine", "plugin"]}
    assert controller.seen.phases == ["plan", "take", "build"]
    assert controller.seen.sent == [("/remote/wheels.tar", ["plugin-1-py3-none-any.whl", "engine-1-py3-none-any.whl"])]
    assert controller.seen.request["id"].startswith("tiny-")


@pytest.mark.parametrize(
    ("check_mode", "plan", "phases"),
    [
        (True, {}, ["plan"]),
        (False, {"changed": False, "state_before": "complete"}, ["plan"]),
        (False, {"state_before": "complete", "removed": ["old"]}, ["plan", "build"]),
        (False, {"failed": True}, ["plan"]),
        (False, {"missing": []}, ["plan", "build"]),
    ],
)
def test_phases(controller, check_mode: bool, plan: dict[str, object], phases: list[str]) -> None:
    controller._task.check_mode = check_mode
    controller.seen.replies["plan"].update(plan)
    controller.run(None, {})
    assert controller.seen.phases == phases


def test_a_refused_wheel_ends_it(controller) -> None:
    controller.seen.replies["take"] = {"failed": True, "msg": "sha256"}
    assert controller.run(None, {}) == {"failed": True, "msg": "sha256"}
    assert controller.seen.phases == ["plan", "take"]


@pytest.mark.parametrize("source", ["directory", "index"])
def test_only_the_plugin_is_sent_where_the_wheels_come_from_elsewhere(controller, source: str) -> None:
    controller.options["source"] = source
    controller.run(None, {})
    assert [names for dummy, names in controller.seen.sent] == [["plugin-1-py3-none-any.whl"]]


@pytest.mark.parametrize(
    ("option", "said"), [("lock", "cannot be read on the control node"), ("plugin", "no readable")]
)
def test_what_the_control_node_lacks_is_said(controller, option: str, said: str) -> None:
    controller.options[option] = "/nowhere"
    result = controller.run(None, {})
    assert result["failed"] and said in result["msg"]
    assert controller.seen.phases == []


def test_batches_are_bounded(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(engine_release, "BATCH_BYTES", 10)
    paths = []
    for name, size in (("a", 4), ("b", 6), ("c", 1), ("d", 50), ("e", 1)):
        (tmp_path / name).write_bytes(b"x" * size)
        paths.append(tmp_path / name)
    assert [[path.name for path in batch] for batch in engine_release._batches(paths)] == [
        ["a", "b"],
        ["c"],
        ["d"],
        ["e"],
    ]
