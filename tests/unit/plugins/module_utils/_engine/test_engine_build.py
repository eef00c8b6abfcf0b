# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Releases made for real from tiny wheels: content, drift, exchange, refusal, and death at any moment."""

from __future__ import annotations

import dataclasses
import fcntl
import hashlib
import json
import mmap
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest
from ansible_collections.inferlab.dflash.plugins.module_utils._engine import (
    build,
    lock,
    manifest,
    release,
    usage,
    wheels,
)
from ansible_collections.inferlab.dflash.plugins.module_utils._engine.errors import EngineError
from ansible_collections.inferlab.dflash.tests.unit.plugins.module_utils._engine.engine_tiny import (
    bundled_pip,
    lock_text,
    tiny_spec,
    write_wheel,
)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """One finished release, which tests leave as it is; those that change one work on a copy.

    It takes seconds to make, and ansible-test forks for each test, so that what a fixture made is forgotten after it: the
    processes of one run find it on disk.
    """
    root = tmp_path_factory.getbasetemp()
    root = (root.parent if "PYTEST_XDIST_WORKER" in os.environ else root) / "made"
    root.mkdir(exist_ok=True)
    with (root / "lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        spec = tiny_spec(root)
        if not spec.path.exists():
            build.build(spec)
    return spec


@pytest.fixture
def copied(made, tmp_path):
    """A copy of the finished release, with wheels to repair it from: a real installation takes seconds."""
    spec = tiny_spec(tmp_path)
    assert spec.id == made.id
    shutil.copytree(made.path, spec.path, symlinks=True)
    return spec


def _site(spec: build.Spec) -> Path:
    return next(spec.path.glob("venv/lib/python3*/site-packages"))


def test_release_is_whole(made) -> None:
    assert build.inspect(made.path)["state"] == "complete"
    assert [path.name for path in made.releases.iterdir()] == [made.id]
    recorded = json.loads((made.path / manifest.NAME).read_text())
    assert recorded["packages"]["tinyengine"] == "1.0"
    assert recorded["plugin"]["sha256"] == made.plugin_sha256
    script = made.path / "venv" / "bin" / "tinyengine"
    assert subprocess.run([script], capture_output=True, text=True, check=True).stdout == "1\n"
    assert ".partial" not in script.read_text() + (made.path / "venv" / "pyvenv.cfg").read_text()


def test_running_it_changes_nothing(made) -> None:
    """Root may run a release by hand: everything is compiled already, so Python leaves nothing behind."""
    python = made.path / "venv" / "bin" / "python"
    shown = subprocess.run(
        [python, "-c", "import tinyplugin; print(tinyplugin.__file__)"], capture_output=True, text=True, check=True
    )
    assert shown.stdout.startswith(str(made.path))
    assert build.inspect(made.path)["drift"] == []


def test_byte_code_needs_no_source_to_be_fresh(made) -> None:
    """Unchecked hash: neither times nor contents of sources decide whether it is used."""
    compiled = sorted(_site(made).rglob("*.pyc"))
    assert {path.name.split(".")[0] for path in compiled} >= {"tinyplugin", "__init__"}
    assert "lazy" not in {path.name.split(".")[0] for path in compiled}
    assert {path.read_bytes()[4:8] for path in compiled} == {b"\1\0\0\0"}


def test_code_knows_its_final_place(made) -> None:
    program = "import tinyengine; print(tinyengine.main.__code__.co_filename)"
    python = made.path / "venv" / "bin" / "python"
    assert (
        str(made.path) + "/venv"
        in subprocess.run([python, "-c", program], capture_output=True, text=True, check=True).stdout
    )


def test_drift_is_named(copied, tmp_path) -> None:
    site = _site(copied)
    (site / "tinyengine" / "__init__.py").write_text("VALUE = 2\n")
    (site / "tinyengine" / "data.txt").unlink()
    (site / "tinyplugin.py").chmod(0o666)
    (site / "extra.py").write_text("")
    (site / "__pycache__" / "extra.cpython-399.pyc").write_bytes(b"stale")
    inside = site.relative_to(copied.path)
    planned = release.plan(copied, tmp_path / "instances", 3)
    assert planned["changed"] and planned["state_before"] == "drifted"
    assert {entry["path"]: entry["problem"] for entry in planned["drift"]} == {
        f"{inside}/tinyengine/__init__.py": "changed",
        f"{inside}/tinyengine/data.txt": "missing",
        f"{inside}/tinyplugin.py": "mode",
        f"{inside}/extra.py": "added",
        f"{inside}/__pycache__/extra.cpython-399.pyc": "bytecode",
    }
    assert f"  missing: {inside}/tinyengine/data.txt" in planned["diff"]["before"].splitlines()


@pytest.mark.parametrize("verify", ["quick", "full"])
def test_an_edit_is_found_though_size_and_time_are_as_before(copied, verify: str) -> None:
    # A copy has other inodes: the stamps are those of where the release was made, so let them be of this place.
    recorded = json.loads((copied.path / manifest.NAME).read_text())
    recorded["stamps"] = manifest.stamps(copied.path)
    (copied.path / manifest.NAME).write_text(json.dumps(recorded))
    edited = _site(copied) / "tinyengine" / "data.txt"
    times = edited.stat()
    edited.write_text("DATA\n")
    os.utime(edited, ns=(times.st_atime_ns, times.st_mtime_ns))
    drift = build.inspect(copied.path, verify)["drift"]
    assert [(entry["path"].rsplit("/", 1)[-1], entry["problem"]) for entry in drift] == [("data.txt", "changed")]


def test_quick_reads_what_was_only_touched(copied, monkeypatch) -> None:
    recorded = json.loads((copied.path / manifest.NAME).read_text())
    recorded["stamps"] = manifest.stamps(copied.path)
    (copied.path / manifest.NAME).write_text(json.dumps(recorded))
    (_site(copied) / "tinyengine" / "data.txt").touch()
    read: list[str] = []
    monkeypatch.setattr(
        manifest, "sha256", lambda path, original=manifest.sha256: read.append(path.name) or original(path)
    )
    assert build.inspect(copied.path, "quick")["state"] == "complete"
    assert read == ["data.txt"]


def test_added_files_are_removed_without_making_it_anew(copied, tmp_path) -> None:
    site = _site(copied)
    stray = [site / "tinyengine" / "__pycache__" / "other.cpython-311.pyc", site / "new" / "__pycache__" / "x.pyc"]
    for path in stray:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"stale")
    (site / "link.py").symlink_to("tinyplugin.py")
    shutil.rmtree(tmp_path / "wheels")
    planned = release.plan(copied, tmp_path / "instances", 3)
    assert {entry["problem"] for entry in planned["drift"]} == {"bytecode", "added"}
    result = release.run(copied, {"phase": "build"}, tmp_path / "wheels", tmp_path / "instances", 3)
    assert result["changed"]
    assert build.inspect(copied.path)["state"] == "complete"


def _mended_from(spec, tmp_path, monkeypatch) -> str:
    """Repair `spec`: "parts" when only what drifted was made again, "anew" when everything was installed."""
    calls: list[str] = []
    monkeypatch.setattr(build, "build", lambda spec, original=build.build: calls.append("anew") or original(spec))
    release.run(spec, {"phase": "build"}, tmp_path / "wheels", tmp_path / "instances", 3)
    assert build.inspect(spec.path)["state"] == "complete"
    assert build.inspect(spec.path, "quick")["state"] == "complete"
    assert [path.name for path in spec.releases.iterdir() if path.is_dir()] == [spec.id]
    return "".join(calls) or "parts"


def test_only_what_drifted_is_made_again(copied, tmp_path, monkeypatch) -> None:
    site = _site(copied)
    untouched = next(site.glob("tinyplugin*.dist-info/METADATA")).stat()
    (site / "tinyengine" / "__init__.py").write_text("VALUE = 2\n")
    (site / "tinyengine" / "data.txt").unlink()
    (site / "tinyplugin.py").chmod(0o666)
    (site / "extra.py").write_text("")
    (copied.path / "venv" / "bin" / "python").unlink()
    assert _mended_from(copied, tmp_path, monkeypatch) == "parts"
    assert next(_site(copied).glob("tinyplugin*.dist-info/METADATA")).stat().st_ino == untouched.st_ino
    recorded = json.loads((copied.path / manifest.NAME).read_text())
    assert recorded["stamps"] == manifest.stamps(copied.path), "a quick look would read every file again"


def test_what_no_wheel_holds_is_installed_anew(copied, tmp_path, monkeypatch) -> None:
    (copied.path / "venv" / "bin" / "tinyengine").write_bytes(b"other")
    assert _mended_from(copied, tmp_path, monkeypatch) == "anew"


@pytest.mark.parametrize("lost", ["tinyengine/__pycache__/*.pyc", "tinyengine*.dist-info/RECORD"])
def test_what_no_wheel_holds_is_not_mended_in_parts(copied, lost: str) -> None:
    next(_site(copied).glob(lost)).write_bytes(b"other")
    found = build.inspect(copied.path)
    assert len(found["drift"]) == 1
    assert not build.mend_drifted(copied, found["manifest"], found["drift"])
    assert build.inspect(copied.path) == found
    assert [path.name for path in copied.releases.iterdir()] == [copied.id]


def test_everything_is_compiled_where_wanted_and_a_patched_file_mended_with_its_patch(
    made, tmp_path, monkeypatch
) -> None:
    name = "tinyengine/data.txt"
    content = (_site(made) / name).read_text()
    digests = [hashlib.sha256(text.encode()).hexdigest() for text in (content, "patched\n")]
    patch = {"name": "p", "file": name, "before": digests[0], "after": digests[1]}
    patch["diff"] = f"@@ -1 +1 @@\n-{content}+patched\n"
    spec = dataclasses.replace(tiny_spec(tmp_path, compile="all", imports=[]), patches=[patch])
    build.build(spec)
    # Built once for two questions: what is compiled where everything is wanted, and what becomes of a patched file.
    compiled = sorted(_site(spec).rglob("*.pyc"))
    assert {path.name.split(".")[0] for path in compiled} == {"tinyplugin", "__init__", "lazy"}
    assert {path.read_bytes()[4:8] for path in compiled} == {b"\1\0\0\0"}
    (_site(spec) / name).write_text("drift\n")
    assert _mended_from(spec, tmp_path, monkeypatch) == "parts"
    assert (_site(spec) / name).read_text() == "patched\n"


def test_plan_writes_nothing(tmp_path) -> None:
    spec = tiny_spec(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    result = release.run(spec, {"phase": "plan"}, tmp_path / "wheels", tmp_path / "instances", 3)
    assert result["changed"] and result["state_before"] == "absent" and result["missing"] == []
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("tamper", ["lock", "wheel", "import", "python"])
def test_refused_and_nothing_left(tmp_path, tamper: str) -> None:
    spec, said = tiny_spec(tmp_path), ""
    wheel = tmp_path / "wheels" / "tinyengine-1.0-py3-none-any.whl"
    if tamper == "lock":
        pip = bundled_pip()
        wrong = lock_text([("tinyengine", "1.0", "0" * 64), ("pip", pip.name.split("-")[1], manifest.sha256(pip))])
        spec, said = tiny_spec(tmp_path, lock=lock.parse(wrong)), "tinyengine"
    elif tamper == "wheel":
        wheel.write_bytes(wheel.read_bytes() + b"x")
        said = "tinyengine"
    elif tamper == "import":
        spec, said = tiny_spec(tmp_path, body="raise RuntimeError('undefined symbol')\n"), "undefined symbol"
    else:
        spec, said = tiny_spec(tmp_path, python="/bin/false"), "virtual environment"
    with pytest.raises(EngineError, match=said) as raised:
        build.build(spec)
    assert raised.value.code == ("venv_unavailable" if tamper == "python" else "")
    assert list(spec.releases.glob("*")) == []


def test_no_room(tmp_path, monkeypatch) -> None:
    spec = tiny_spec(tmp_path)
    monkeypatch.setattr(build.host, "free_bytes", lambda path: 1 << 20)
    with pytest.raises(EngineError, match="1 MiB free"):
        build.build(spec)
    assert list(spec.releases.glob("*")) == []


def test_a_failed_repair_keeps_the_old_release(copied, tmp_path) -> None:
    (copied.path / "note").write_text("drift")
    next((tmp_path / "wheels").glob("tinyengine*")).unlink()
    with pytest.raises(EngineError, match="tinyengine"):
        build.build(copied)
    assert [entry["path"] for entry in build.inspect(copied.path)["drift"]] == ["note"]


# The rename that makes the release real never comes, so that the kill always meets a builder at work.
KILLED = """
import time
from pathlib import Path
from ansible_collections.inferlab.dflash.tests.unit.plugins.module_utils._engine.engine_tiny import tiny_spec
from ansible_collections.inferlab.dflash.plugins.module_utils._engine import build, release
build._put_in_place = lambda partial, target: time.sleep(600)
root = Path({root!r})
release.run(tiny_spec(root), {{"phase": "build"}}, root / "wheels", root / "instances", 3)
"""


@pytest.mark.parametrize("when", ["install", "repair"])
def test_killed_and_run_again(made, tmp_path, when: str) -> None:
    """SIGKILL for the builder and its children; an existing release stays whole meanwhile, and the next run completes."""
    spec = tiny_spec(tmp_path)
    if when == "repair":
        shutil.copytree(made.path, spec.path, symlinks=True)
        (_site(spec) / "tinyengine" / "data.txt").write_text("drift")
    sign = f"{spec.id}.partial/venv/lib/python3*/site-packages/tinyengine"
    program = KILLED.format(root=str(tmp_path))
    child = subprocess.Popen([sys.executable, "-c", program], start_new_session=True, env=_environment())
    deadline = time.monotonic() + 60
    while not any(True for dummy in spec.releases.glob(sign)):
        assert child.poll() is None and time.monotonic() < deadline, "the builder ended before it could be killed"
    os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    if when == "repair":
        assert [entry["path"].rsplit("/", 1)[-1] for entry in build.inspect(spec.path)["drift"]] == ["data.txt"]
    else:
        assert not spec.path.exists()
    before = os.umask(0o077)
    try:
        release.run(spec, {"phase": "build"}, tmp_path / "wheels", tmp_path / "instances", 3)
    finally:
        os.umask(before)
    assert build.inspect(spec.path)["state"] == "complete"
    assert [path.name for path in spec.releases.iterdir() if path.is_dir()] == [spec.id]
    readable = {path: path.stat().st_mode & 0o005 for path in [spec.path, *spec.path.rglob("*")] if path.is_dir()}
    assert set(readable.values()) == {0o005}, "the instances' user cannot read the release"


def _environment() -> dict[str, str]:
    """For a child that imports the collection; ansible-test finds it by a hook that a child does not have."""
    roots = [str(path.parent) for path in Path(__file__).absolute().parents if path.name == "ansible_collections"]
    return {**os.environ, "PYTHONPATH": os.pathsep.join([*roots, *filter(None, sys.path)])}


def test_old_releases_go_but_none_that_is_needed(copied, tmp_path) -> None:
    spec = copied
    names = [f"transformers-tiny-{number:012x}" for number in range(6)]
    for age, name in enumerate(names):
        (spec.releases / name).mkdir(parents=True)
        (spec.releases / name / manifest.NAME).write_text(json.dumps({"created": 100 + age, "files": {}}))
    # A wheel of one that goes, one that it shares with one that stays, and one of nobody.
    hashes = [write_wheel(tmp_path / "wheels", name, "1.0", {})[1] for name in ("gone", "shared", "foreign")]
    (spec.releases / names[3] / "requirements.txt").write_text(f"--hash=sha256:{hashes[0]} --hash=sha256:{hashes[1]}")
    (spec.releases / names[5] / "requirements.txt").write_text(f"--hash=sha256:{hashes[1]}")
    for instance, name in (("chat", names[0]), ("draft", names[1])):
        (tmp_path / "instances" / instance).mkdir(parents=True)
        if instance == "chat":
            (tmp_path / "instances" / instance / "release").symlink_to(spec.releases / name)
        else:
            (tmp_path / "instances" / instance / "record.json").write_text(json.dumps({"previous": f"x/{name}"}))
    assert usage.links(tmp_path / "instances", spec.releases) == {names[0]: ["chat"], names[1]: ["draft"]}
    held = (spec.releases / names[2] / "held.so").open("wb+")
    held.write(b"x" * 4096)
    held.flush()
    with mmap.mmap(held.fileno(), 4096):
        result = release.run(spec, {"phase": "build"}, tmp_path / "wheels", tmp_path / "instances", 2)
    assert result["removed"] == [names[3], names[4]]
    left = {path.name for path in spec.releases.iterdir() if path.is_dir()}
    assert left == {names[0], names[1], names[2], names[5], spec.id}
    assert {path.name.split("-")[0] for path in (tmp_path / "wheels").iterdir()} >= {"shared", "foreign", "tinyengine"}
    assert not (tmp_path / "wheels" / "gone-1.0-py3-none-any.whl").exists()


def test_wheels_come_in_only_with_a_locked_hash(tmp_path) -> None:
    good, digest = write_wheel(tmp_path / "from", "good", "1.0", {"good.py": ""})
    bad, dummy = write_wheel(tmp_path / "from", "tampered", "1.0", {"tampered.py": ""})
    archive = tmp_path / "wheels.tar"
    with tarfile.open(archive, "w") as bundle:
        for name in (good, bad):
            bundle.add(tmp_path / "from" / name, arcname=name)
    with pytest.raises(EngineError, match=r"tampered-1\.0"):
        wheels.take_in(archive, tmp_path / "wheels", [digest])
    assert [path.name for path in (tmp_path / "wheels").iterdir()] == [good]


def test_a_member_cannot_leave_the_directory(tmp_path) -> None:
    name, digest = write_wheel(tmp_path / "from", "good", "1.0", {"good.py": ""})
    archive = tmp_path / "wheels.tar"
    with tarfile.open(archive, "w") as bundle:
        bundle.add(tmp_path / "from" / name, arcname=f"../../{name}")
    assert wheels.take_in(archive, tmp_path / "wheels", [digest]) == [name]
    assert (tmp_path / "wheels" / name).is_file()
