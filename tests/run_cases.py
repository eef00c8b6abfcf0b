# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a folder of case files through the diagnosis and compare with what they expect.

    python tests/run_cases.py DIR [--json OUT]

A case is a YAML file with C(id), C(input) (evidence by channel) and, where the outcome is known, C(expected) (code, cause,
also_acceptable, parsed, must_not). This runner holds no rule of its own. Exit status 1 when a case fails.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import yaml

REPO = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPO / ".collections"))
if REPO.parent.parent.name == "ansible_collections":
    sys.path.insert(0, str(REPO.parent.parent.parent))

from ansible_collections.inferlab.dflash.plugins.module_utils._diagnosis import diagnose  # noqa: E402

# The keys of expected.parsed that are compared; others only inform the reader of a case.
COMPARED = frozenset(
    {
        *(
            "accept_len",
            "accept_rate",
            "arch",
            "architecture",
            "backend",
            "client_name",
            "client_pid",
            "client_version",
        ),
        *("compute_capability", "gpu_arch", "cuda_error", "cuda_version", "driver_cuda", "required_cuda"),
        *("driver_version", "exit_code", "status", "fabric_manager_version", "holder", "holder_pid"),
        *("kernel_module_version", "on_disk_module_version", "modeset_module_version", "mask_token_id", "vocab_size"),
        *("max_target_layer_id", "target_num_layers", "page_size", "draft_block_size", "memory_total_mib"),
        *("module_flavour", "nccl_version", "torch_version", "sglang_version", "nvidia_smi_version", "nvml_reported"),
        *("option", "value", "package", "path", "workdir", "user", "unit", "service", "pci_bus_id", "pci_id", "pid"),
        *("rank", "port", "restarts", "repo_id", "role", "shm_size_kib", "timeout_start_s", "watchdog_timeout_s"),
        *("signal", "stale_version", "stale_dkms_version", "symbol", "library", "tool", "user_space_version", "xid"),
    }
)


def problems(expected: dict, verdict: dict) -> list[str]:
    """In what a verdict differs from what a case expects."""
    found = []
    codes = [expected["code"], *expected.get("also_acceptable", [])]
    if verdict["code"] not in codes:
        found.append(f"code {verdict['code']}, expected {expected['code']}")
    elif (
        expected.get("cause")
        and verdict["cause"]
        and verdict["code"] == expected["code"]
        and verdict["cause"] != expected["cause"]
    ):
        found.append(f"cause {verdict['cause']}, expected {expected['cause']}")
    for key, wanted in (expected.get("parsed") or {}).items():
        if key in COMPARED and verdict["parsed"].get(key) != wanted:
            found.append(f"{key} {verdict['parsed'].get(key)!r}, expected {wanted!r}")
    return found


def load(folder: Path) -> list[dict]:
    """All cases below I(folder), by name."""
    cases = []
    for path in sorted([*folder.rglob("*.yml"), *folder.rglob("*.yaml")]):
        case = yaml.safe_load(path.read_text(encoding="utf-8"))
        if isinstance(case, dict) and "input" in case:
            cases.append({"id": path.stem, **case})
    return cases


def main() -> int:
    parser = argparse.ArgumentParser(description="Run case files through the diagnosis.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json", type=Path, help="write {id: {code, cause, parsed, secondary_codes}} here")
    options = parser.parse_args()
    results, failed, passed, open_ended = {}, 0, 0, 0
    for case in load(options.folder):
        verdict = diagnose(case["input"])
        results[str(case["id"])] = {key: verdict[key] for key in ("code", "cause", "parsed", "secondary_codes")}
        label = f"{verdict['code']}{'/' + verdict['cause'] if verdict['cause'] else ''}"
        if not isinstance(case.get("expected"), dict) or "code" not in case["expected"]:
            open_ended += 1
            print(f"----  {case['id']}  {label}")
            continue
        wrong = problems(case["expected"], verdict)
        failed += bool(wrong)
        passed += not wrong
        print(f"{'FAIL' if wrong else 'ok'}  {case['id']}  {label}{'  <- ' + '; '.join(wrong) if wrong else ''}")
    if options.json:
        options.json.write_text(json.dumps(results, indent=2, ensure_ascii=False, default=str) + "\n", encoding="utf-8")
    print(f"{passed} passed, {failed} failed" + (f", {open_ended} without an expectation" if open_ended else ""))
    return 1 if failed or not results else 0


if __name__ == "__main__":
    sys.exit(main())
