# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A tiny engine to install for real: one pure wheel, a plugin, and the pip wheel that ensurepip carries; no network."""

from __future__ import annotations

import ensurepip
import hashlib
import platform
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
from ansible_collections.inferlab.dflash.plugins.module_utils._engine import build, host, identity, lock

PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"


def write_wheel(directory: Path, name: str, version: str, files: dict[str, str]) -> tuple[str, str]:
    """Write a pure wheel; returns (file name, sha256)."""
    info = f"{name}-{version}.dist-info"
    content = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[console_scripts]\n{name} = {name}:main\n",
    }
    content[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in [*content, f"{info}/RECORD"])
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for entry, text in content.items():
            archive.writestr(zipfile.ZipInfo(entry), text)
    return path.name, hashlib.sha256(path.read_bytes()).hexdigest()


def lock_text(pins: list[tuple[str, str, str]], name: str = "transformers-tiny") -> str:
    """A lock for this very machine."""
    meta = f"name={name} backend=transformers python={PYTHON} machine={platform.machine()} glibc=2.5 cuda=none"
    return f"# lock: {meta}\n" + "".join(f"{n}=={v} \\\n    --hash=sha256:{h}\n" for n, v, h in pins)


def bundled_pip() -> Path:
    """The wheel of pip that comes with this Python, inside it or, on Debian, in a folder of its own; the test is skipped without one."""
    folders = [Path(ensurepip.__file__).parent / "_bundled", Path(sysconfig.get_config_var("WHEEL_PKG_DIR") or "/")]
    found = sorted(wheel for folder in folders for wheel in folder.glob("pip-*.whl"))
    if not found or host.glibc() is None:
        pytest.skip("this Python carries no wheel of pip, or is not on glibc")
    return found[0]


def tiny_spec(root: Path, version: str = "1.0", body: str = "VALUE = 1\n", **changes: object) -> build.Spec:
    """A spec whose wheels lie in ``root/wheels`` and whose releases go to ``root/releases``."""
    pip = bundled_pip()
    wheels = root / "wheels"
    wheels.mkdir(parents=True, exist_ok=True)
    (wheels / pip.name).write_bytes(pip.read_bytes())
    files = {
        "tinyengine/__init__.py": body + "def main():\n    print(VALUE)\n",
        "tinyengine/lazy.py": "",
        "tinyengine/data.txt": "data\n",
    }
    dummy, engine = write_wheel(wheels, "tinyengine", version, files)
    dummy, plugin = write_wheel(wheels, "tinyplugin", "1.0", {"tinyplugin.py": "import tinyengine\n"})
    pip_pin = ("pip", pip.name.split("-")[1], hashlib.sha256(pip.read_bytes()).hexdigest())
    text = lock_text([("tinyengine", version, engine), pip_pin])
    fields: dict[str, object] = {
        "releases": root / "releases",
        "id": identity.release_id("transformers-tiny", text, plugin, []),
        "lock": lock.parse(text),
        "python": sys.executable,
        "wheels": [wheels],
        "index": False,
        "plugin_name": "tinyplugin",
        "plugin_version": "1.0",
        "plugin_sha256": plugin,
        "patches": [],
        "imports": ["tinyplugin"],
        "compile": "imports",
        **changes,
    }
    return build.Spec(**fields)  # type: ignore[arg-type]
