# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kill the making and the repair of a release at random moments, and hold it to its promises after each kill.

usage: engine_kills.py ROUNDS (PYTHONPATH=.collections). Odd rounds make a release, even ones repair a drifted one. After each
SIGKILL a release under its own name is whole or, in a repair, still the drifted one; the next run completes it and leaves
nothing else. The seed of the moments is printed.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ansible_collections.inferlab.dflash.plugins.module_utils._engine import build, release
from ansible_collections.inferlab.dflash.tests.unit.plugins.module_utils._engine.engine_tiny import tiny_spec

PROGRAM = """
import sys
from pathlib import Path
from ansible_collections.inferlab.dflash.plugins.module_utils._engine import release
from ansible_collections.inferlab.dflash.tests.unit.plugins.module_utils._engine.engine_tiny import tiny_spec
root = Path(sys.argv[1])
release.run(tiny_spec(root), {"phase": "build"}, root / "wheels", root / "instances", 3)
"""


def drift(spec: build.Spec) -> Path:
    path = next(spec.path.glob("venv/lib/python3*/site-packages/tinyengine/data.txt"))
    path.write_text("drift\n", encoding="utf-8")
    return path


def killed(root: Path, after: float) -> bool:
    """Run the maker and kill it with all its children; whether it was still running."""
    child = subprocess.Popen([sys.executable, "-c", PROGRAM, str(root)], start_new_session=True)
    try:
        child.wait(after)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        return True
    if child.returncode:
        raise SystemExit(f"the maker failed by itself with {child.returncode}")
    return False


def main() -> None:
    rounds = int(sys.argv[1])
    seed = int(os.environ.get("SEED", time.time_ns() % 100000))
    moments = random.Random(seed)
    root = Path(tempfile.mkdtemp(prefix="engine-kills-"))
    spec = tiny_spec(root)
    begin = time.monotonic()
    release.run(spec, {"phase": "build"}, root / "wheels", root / "instances", 3)
    whole = time.monotonic() - begin
    hits = 0
    for number in range(1, rounds + 1):
        repair = number % 2 == 0
        if repair:
            drift(spec)
        else:
            shutil.rmtree(spec.path)
        hits += killed(root, moments.uniform(0.05, whole * 1.2))
        state = build.inspect(spec.path)["state"]
        allowed = {"complete", "drifted"} if repair else {"complete", "absent"}
        if state not in allowed:
            raise SystemExit(f"round {number}, seed {seed}: a release is {state} after a kill")
        release.run(spec, {"phase": "build"}, root / "wheels", root / "instances", 3)
        left = sorted(path.name for path in spec.releases.iterdir() if path.is_dir())
        if build.inspect(spec.path)["state"] != "complete" or left != [spec.id]:
            raise SystemExit(f"round {number}, seed {seed}: not completed, there is {left}")
    shutil.rmtree(root)
    if hits < rounds // 3:
        raise SystemExit(f"only {hits} of {rounds} kills hit a running maker, which proves too little")
    print(f"{rounds} rounds, {hits} kills of a running maker (one takes {whole:.1f} s), seed {seed}: all completed")


if __name__ == "__main__":
    main()
