# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""ansible-runner with process isolation in the execution environment image, against a deployed lab1.

The playbooks are those of the collection inside the image. A deployment that changes nothing, one that changes the budget, one that is
refused, and one that cannot start; each must leave its verdict in the artifacts. Ends with a line of counts.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HOST = "lab1"
FLAT = ("model", "drafter", "algorithm", "budget", "port", "engine_backend")
BROKEN = {
    "name": "main",
    "engine_backend": "transformers",
    "model": "builtin:nano-target",
    "drafter": "builtin:nano-drafter",
    "port": 8000,
    "args": ["--no-such-option"],
}


def isolated(folder: Path, playbook: str, answers: dict) -> tuple[int, str, dict, str]:
    """Exit status, runner's status, what the job hands on, and its output."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "env").mkdir(parents=True)
    (folder / "project").mkdir()
    shutil.copytree(ROOT / "inventories/lab", folder / "inventory")
    shutil.copy(ROOT / ".build/lab/id_ed25519", folder / "env/ssh_key")
    (folder / "env/extravars").write_text(json.dumps({"ansible_ssh_private_key_file": None, **answers}))
    (folder / "env/envvars").write_text(json.dumps({"ANSIBLE_FORCE_COLOR": "0", "JOB_ID": "41"}))
    argv = [str(ROOT / ".venv-release/bin/ansible-runner"), "run", str(folder), "--ident", "job", "--quiet"]
    argv += ["--playbook", f"inferlab.dflash.{playbook}", "--limit", HOST]
    argv += [
        "--process-isolation",
        "--process-isolation-executable",
        "podman",
        "--container-image",
        "localhost/dflash-ee",
    ]
    argv += ["--container-option=--network=host", "--container-option=--user=root"]
    status = subprocess.run(argv, check=False).returncode
    job = folder / "artifacts/job"
    events = [json.loads(path.read_text()) for path in (job / "job_events").glob("*-*.json")]
    stats = [event["event_data"] for event in events if event["event"] == "playbook_on_stats"]
    handed_on = stats[0].get("artifact_data", {}) if stats else {}
    return status, (job / "status").read_text(), handed_on, (job / "stdout").read_text()


def argv_on_host() -> str:
    words = ["podman", "exec", HOST, "systemctl", "show", "--property", "ExecStart", "--value", "dflash-main.service"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def serves() -> bool:
    body = json.dumps({"model": "main", "prompt": "1, 2, 3,", "max_tokens": 4})
    words = ["podman", "exec", HOST, "curl", "-sf", "-H", "Content-Type: application/json", "-d", body]
    done = subprocess.run([*words, "http://127.0.0.1:8000/v1/completions"], capture_output=True, text=True, check=False)
    return '"choices"' in done.stdout


def main() -> int:
    broken = {"dflash_instances": [BROKEN], **{f"dflash_{name}": "" for name in FLAT}}
    cases = (
        ("nothing to do", {}, (0, "successful"), "serving", None, "--budget 16"),
        ("another budget", {"dflash_budget": "12"}, (0, "successful"), "serving", None, "--budget 12"),
        ("a bad answer", {"dflash_budget": "many"}, (2, "failed"), "failed", None, "--budget 12"),
        ("cannot start", broken, (2, "failed"), "failed", "server_args_invalid", "--budget 12"),
        ("back", {}, (0, "successful"), "serving", None, "--budget 16"),
    )
    passed = failed = 0
    with tempfile.TemporaryDirectory() as base:
        for title, answers, ended, state, code, argv in cases:
            begin = time.monotonic()
            status, said, handed_on, output = isolated(Path(base) / "job", "deploy_dflash", answers)
            result = handed_on.get("dflash_result", {}).get(HOST, {})
            verdicts = handed_on.get("dflash_verdicts", {}).get(HOST)
            found = {
                "ended": (status, said) == ended,
                "state": result.get("state") == state,
                "code": result.get("code") == code,
                "verdicts": [verdict["code"] for verdict in verdicts or []] == ([code] if state == "failed" else []),
                "in force": argv in argv_on_host() and serves(),
            }
            wrong = [name for name, right in found.items() if not right]
            passed, failed = passed + (not wrong), failed + bool(wrong)
            print(
                f"{'FAILED' if wrong else 'ok'}: {title} ({time.monotonic() - begin:.0f} s){': ' if wrong else ''}{', '.join(wrong)}"
            )
            if wrong:
                print(json.dumps({"status": [status, said], **handed_on}, indent=1)[:4000], output[-3000:], sep="\n")
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 0 if failed == 0 and passed == len(cases) else 1


if __name__ == "__main__":
    sys.exit(main())
