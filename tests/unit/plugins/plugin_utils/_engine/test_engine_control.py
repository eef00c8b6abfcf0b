# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The control node's share: the plugin's wheel, the wheels of a lock, the patch list. No network is used."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from ansible_collections.inferlab.dflash.plugins.module_utils._engine import lock
from ansible_collections.inferlab.dflash.plugins.module_utils._engine.errors import EngineError
from ansible_collections.inferlab.dflash.plugins.plugin_utils._engine import patch_files, source_wheel, wheelhouse

ROLE = Path(__file__).parents[5] / "roles" / "engine" / "files"
PROJECT = """\
[project]
name = "tiny-engine"
version = "1.2"
requires-python = ">=3.9"
dependencies = ["packaging"]
[project.optional-dependencies]
gpu = ["torch; sys_platform == 'linux'", "triton"]
[project.scripts]
tiny = "tiny:main"
[project.entry-points."sglang.srt.plugins"]
tiny = "tiny:register"
"""


@pytest.fixture
def project(tmp_path):
    source = tmp_path / "project"
    (source / "src" / "tiny" / "__pycache__").mkdir(parents=True)
    (source / "src" / "tiny_engine.egg-info").mkdir()
    (source / "pyproject.toml").write_text(PROJECT)
    (source / "src" / "tiny" / "__init__.py").write_text("def main():\n    print('hello')\n")
    (source / "src" / "tiny" / "data.json").write_text("{}")
    (source / "src" / "tiny" / "__pycache__" / "x.pyc").write_bytes(b"x")
    (source / "src" / "tiny_engine.egg-info" / "PKG-INFO").write_text("x")
    return source


def test_wheel_is_the_same_every_time_and_holds_only_sources(project) -> None:
    first = source_wheel.make(project)
    for path in project.rglob("*"):
        path.touch()
    assert source_wheel.make(project) == first
    (project / "wheel.whl").write_bytes(first.content)
    with zipfile.ZipFile(project / "wheel.whl") as archive:
        names = archive.namelist()
        assert archive.testzip() is None
        metadata = archive.read("tiny_engine-1.2.dist-info/METADATA").decode()
    assert sorted(name for name in names if "dist-info" not in name) == ["tiny/__init__.py", "tiny/data.json"]
    assert "Requires-Dist: torch ; (sys_platform == 'linux') and extra == 'gpu'" in metadata.splitlines()
    assert first.filename == "tiny_engine-1.2-py3-none-any.whl"


def test_wheel_changes_with_a_source(project) -> None:
    first = source_wheel.make(project).sha256
    (project / "src" / "tiny" / "data.json").write_text("[]")
    assert source_wheel.make(project).sha256 != first


def test_pip_installs_the_wheel(project, tmp_path) -> None:
    wheel = source_wheel.make(project)
    (tmp_path / wheel.filename).write_bytes(wheel.content)
    target = tmp_path / "target"
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--target", target]
    subprocess.run([*command, tmp_path / wheel.filename], check=True)
    program = (
        "from importlib.metadata import *; print(*[e.load().__name__ for e in entry_points(group='console_scripts')])"
    )
    shown = subprocess.run(
        [sys.executable, "-S", "-c", program],
        env={"PYTHONPATH": str(target)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout == "main\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no readable"),
        ("[project]\nname = 'x'\n", "must state name and version"),
        ("[project]\nname = 'x'\ndynamic = ['version']\n", "nothing dynamic"),
        ("not toml", "no readable"),
    ],
)
def test_project_refused(project, text: str, said: str) -> None:
    (project / "pyproject.toml").write_text(text)
    with pytest.raises(EngineError, match=said):
        source_wheel.make(project)


def test_the_plugin_that_ships_makes_a_wheel() -> None:
    wheel = source_wheel.make(ROLE / "ddtree")
    assert wheel.name == "inferlab-ddtree"


META = "# lock: name=tiny backend=transformers python=3.11 machine=x86_64 glibc=2.34 cuda=none\n"


@pytest.fixture
def locked(project, tmp_path, monkeypatch):
    """A lock of one wheel that lies in a directory for find-links; pip knows no index."""
    wheel = source_wheel.make(project)
    links = tmp_path / "links"
    links.mkdir()
    (links / wheel.filename).write_bytes(wheel.content)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    text = META + f"tiny-engine==1.2 --hash=sha256:{wheel.sha256}\n"
    return lock.parse(text), links / wheel.filename, tmp_path / "cache"


def test_wheels_are_fetched_once(locked) -> None:
    parsed, wheel, cache = locked
    said: list[str] = []
    first = wheelhouse.provide(parsed, ["tiny-engine"], cache, [str(wheel.parent)], said.append)
    assert first == {"tiny-engine": cache / wheel.name}
    assert said[0] == f"fetching 1 of 1 wheels of tiny into {cache}"
    wheel.unlink()
    assert wheelhouse.provide(parsed, ["tiny-engine"], cache, [], said.append) == first
    assert len([line for line in said if line.startswith("fetching")]) == 1


def test_a_damaged_wheel_in_the_cache_is_fetched_again(locked) -> None:
    parsed, wheel, cache = locked
    wheelhouse.provide(parsed, ["tiny-engine"], cache, [str(wheel.parent)], lambda line: None)
    (cache / wheel.name).write_bytes(b"half")
    (cache / ".fetch-killed").mkdir()
    found = wheelhouse.provide(parsed, ["tiny-engine"], cache, [str(wheel.parent)], lambda line: None)
    assert found["tiny-engine"].read_bytes() == wheel.read_bytes()
    assert not (cache / ".fetch-killed").exists()


@pytest.mark.parametrize("fault", ["tampered", "absent"])
def test_no_wheel_with_a_locked_hash(locked, fault: str) -> None:
    parsed, wheel, cache = locked
    if fault == "tampered":
        wheel.write_bytes(wheel.read_bytes() + b"x")
    else:
        wheel.unlink()
    with pytest.raises(EngineError, match="tiny-engine"):
        wheelhouse.provide(parsed, ["tiny-engine"], cache, [str(wheel.parent)], lambda line: None)
    assert list(cache.glob("*.whl")) == []


def test_the_preferred_build_is_taken(project, tmp_path, monkeypatch) -> None:
    """Two builds under one version, as of torch: pip alone would take what it likes, the lock's first one is wanted."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    links = tmp_path / "links"
    links.mkdir()
    hashes = []
    for version in ("1.2+cpu", "1.2"):
        (project / "pyproject.toml").write_text(PROJECT.replace('"1.2"', f'"{version}"').replace('["packaging"]', "[]"))
        wheel = source_wheel.make(project)
        (links / wheel.filename).write_bytes(wheel.content)
        hashes.append((version, wheel.sha256))
    for order in (hashes, hashes[::-1]):
        comments = "".join(f"# tiny-engine {version}: {digest}\n" for version, digest in order)
        pin = "tiny-engine==1.2 " + " ".join(f"--hash=sha256:{digest}" for dummy, digest in order) + "\n"
        parsed = lock.parse(META + comments + pin)
        cache = tmp_path / f"cache-{order[0][0]}"
        found = wheelhouse.provide(parsed, ["tiny-engine"], cache, [str(links)], lambda line: None)
        assert found["tiny-engine"].name == f"tiny_engine-{order[0][0]}-py3-none-any.whl"


@pytest.mark.parametrize(
    ("line", "absent"),
    [
        ("Requires-Dist: nvidia-nccl-cu13==2.29.7; platform_system == 'Linux'", ["nvidia-nccl-cu13"]),
        ("Requires-Dist: pywin32; sys_platform == 'win32'", []),
        ("Requires-Dist: tiny_engine>=1", []),
        ("Requires-Dist: wcwidth; extra == 'widechars'\r", []),
        ("Requires-Dist: optree; extra == 'optree'", []),
        ("Requires-Dist: tomli; python_version < '3.11'", []),
        ("Requires-Dist: cuda-toolkit[cublas,nvrtc]==13.0.3", ["cuda-toolkit"]),
    ],
)
def test_what_a_build_needs_beyond_its_lock(line: str, absent: list[str]) -> None:
    parsed = lock.parse(META + f"tiny-engine==1.2 --hash=sha256:{'a' * 64}\n")
    assert wheelhouse.unlocked_requirements(f"Name: x\n{line}\n", parsed) == absent


def test_a_build_that_needs_more_is_refused_with_the_way_out(project, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    wheel = source_wheel.make(project)
    (tmp_path / wheel.filename).write_bytes(wheel.content)
    builds = f"# tiny-engine 1.2+cpu: {'a' * 64}\n# tiny-engine 1.2: {wheel.sha256}\n"
    parsed = lock.parse(META + builds + f"tiny-engine==1.2 --hash=sha256:{'a' * 64} --hash=sha256:{wheel.sha256}\n")
    with pytest.raises(EngineError, match=r"needs packaging, .* Wanted is the build 1\.2\+cpu.*engine_find_links"):
        wheelhouse.provide(parsed, ["tiny-engine"], tmp_path / "cache", [str(tmp_path)], lambda line: None)


def test_platform_tags_end_at_the_glibc_of_the_lock() -> None:
    tags = wheelhouse.platform_tags(lock.parse(META + f"x==1 --hash=sha256:{'a' * 64}\n"))
    assert tags[0] == "manylinux_2_34_x86_64" and "linux_x86_64" in tags
    assert "manylinux_2_35_x86_64" not in tags


def _patches(tmp_path: Path, **changes: object) -> str:
    entry = {
        "name": "p",
        "package": "sglang",
        "versions": ["1"],
        "file": "x.py",
        "before": "a",
        "after": "b",
        "diff": "p.patch",
    }
    entry.update(changes)
    (tmp_path / "p.patch").write_text("@@ -1 +1 @@\n")
    entry = {key: value for key, value in entry.items() if value is not None}
    (tmp_path / "patches.json").write_text(json.dumps({"schema": 1, "patches": [entry]}))
    return str(tmp_path)


def test_patches_carry_their_text(tmp_path) -> None:
    loaded = patch_files.load(_patches(tmp_path), {"sglang": "1"})
    assert [entry["diff"] for entry in loaded] == ["@@ -1 +1 @@\n"]
    assert patch_files.load(_patches(tmp_path), {"sglang": "2"}) == []
    assert patch_files.load(None, {"sglang": "1"}) == []


@pytest.mark.parametrize(
    ("change", "said"), [({"before": None}, "p lacks before"), ({"diff": "gone.patch"}, r"gone\.patch: No such file")]
)
def test_patch_list_refused(tmp_path, change: dict[str, object], said: str) -> None:
    with pytest.raises(EngineError, match=said):
        patch_files.load(_patches(tmp_path, **change), {"sglang": "1"})


def test_no_patch_list(tmp_path) -> None:
    with pytest.raises(EngineError, match=r"patches\.json cannot be read"):
        patch_files.load(str(tmp_path), {})


def test_patches_that_ship_are_well_formed() -> None:
    listed = json.loads((ROLE / "patches" / "patches.json").read_text())["patches"]
    for version in {version for entry in listed for version in entry["versions"]} | {"0.5.17"}:
        patch_files.load(str(ROLE / "patches"), {"sglang": version})
