# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make the wheels and locks of scenario engine. usage: make_locks.py TARGET_DIR SHIPPED_LOCKS_DIR

tiny.txt, tiny2.txt: a package of the test's own, in two versions, and pip as the shipped locks pin it. wrong-hash.txt: tiny
with a wrong hash. ddtree/: the plugin. sglang.txt: SGLang's wheel as the shipped lock pins it, without anything that it needs. patches/ holds a
patch whose file has another hash in that wheel.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

from ansible_collections.inferlab.dflash.plugins.plugin_utils._engine import source_wheel

META = "# lock: name={name} backend={backend} python=3.11 machine=x86_64 glibc=2.34 cuda=none\n"
PROJECT = '[project]\nname = "tinyengine"\nversion = "{version}"\n[project.scripts]\ntinyengine = "tinyengine:main"\n'


def shipped_pin(lock: Path, package: str) -> str:
    match = re.search(rf"^{package}==.*(?:\n    --hash=.*)+\n", lock.read_text(encoding="utf-8"), re.MULTILINE)
    if not match:
        raise SystemExit(f"{lock} does not pin {package}")
    return match.group(0)


def main() -> None:
    target, locks = map(Path, sys.argv[1:])
    (target / "wheels").mkdir(parents=True, exist_ok=True)
    shutil.copytree(locks.parent / "ddtree", target / "ddtree", dirs_exist_ok=True)
    pip = shipped_pin(locks / "transformers-cp311.txt", "pip")
    for lock, version in (("tiny", "1.0"), ("tiny2", "2.0")):
        project = target / f"project-{version}"
        (project / "src" / "tinyengine").mkdir(parents=True, exist_ok=True)
        (project / "pyproject.toml").write_text(PROJECT.format(version=version), encoding="utf-8")
        source = f"VALUE = {version!r}\n\n\ndef main():\n    print(VALUE)\n"
        (project / "src" / "tinyengine" / "__init__.py").write_text(source, encoding="utf-8")
        (project / "src" / "tinyengine" / "data.txt").write_text("data\n", encoding="utf-8")
        wheel = source_wheel.make(project)
        (target / "wheels" / wheel.filename).write_bytes(wheel.content)
        pin = f"tinyengine=={version} \\\n    --hash=sha256:{wheel.sha256}\n"
        meta = META.format(name=f"transformers-{lock}", backend="transformers")
        (target / f"{lock}.txt").write_text(meta + pip + pin, encoding="utf-8")
    wrong = re.sub(
        r"(tinyengine==1.0 \\\n    --hash=sha256:)\w+", r"\g<1>" + "0" * 64, (target / "tiny.txt").read_text()
    )
    (target / "wrong-hash.txt").write_text(wrong, encoding="utf-8")
    sglang = shipped_pin(locks / "sglang-0.5.17-cu130-cp311.txt", "sglang")
    meta = META.format(name="sglang-alone", backend="sglang")
    (target / "sglang.txt").write_text(meta + pip + sglang, encoding="utf-8")
    patch = {
        "name": "unknown-build",
        "package": "sglang",
        "versions": ["0.5.17"],
        "file": "sglang/version.py",
        "before": "0" * 64,
        "after": "1" * 64,
        "diff": "version.patch",
    }
    (target / "patches").mkdir(exist_ok=True)
    (target / "patches" / "patches.json").write_text(json.dumps({"schema": 1, "patches": [patch]}), encoding="utf-8")
    (target / "patches" / "version.patch").write_text("@@ -1 +1 @@\n-x\n+y\n", encoding="utf-8")


if __name__ == "__main__":
    main()
