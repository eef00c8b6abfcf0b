# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hold every AWX object of this project against the documented argument specification of its awx.awx module.

usage: tests/awx/check.py     (run by `make awx-check` with the environment's python)
awx.awx comes out of the PyPI package `ansible`; nothing of it is kept in this project. Names, types, choices and required options are
checked with ansible's own validator; survey specs also against what AWX's API documents. Ends with a line of counts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / ".build" / "awx"
# The last release of the package that holds awx.awx for the ansible-core of Python 3.11.
PACKAGE = "ansible==12.3.0"
QUESTION_TYPES = {"text", "textarea", "password", "integer", "float", "multiplechoice", "multiselect"}


def collection() -> Path:
    """awx.awx, unpacked from the package; fetched once."""
    path = BUILD / "ansible_collections" / "awx" / "awx"
    if not (path / "plugins" / "modules").is_dir():
        print(f"fetching awx.awx out of {PACKAGE}", flush=True)
        BUILD.mkdir(parents=True, exist_ok=True)
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(BUILD), PACKAGE]
        subprocess.run(pip, check=True, stderr=subprocess.DEVNULL)
        wheel = next(BUILD.glob("ansible-*.whl"))
        with zipfile.ZipFile(wheel) as archive:
            wanted = [name for name in archive.namelist() if name.startswith("ansible_collections/awx/awx/")]
            archive.extractall(BUILD, wanted)
        wheel.unlink()
    return path


def specification(module: str) -> dict:
    """The documented options of a module as an argument specification."""
    binary = Path(sys.executable).parent / "ansible-doc"
    env = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(BUILD)}
    done = subprocess.run([binary, "--json", f"awx.awx.{module}"], env=env, capture_output=True, text=True, check=True)
    options = json.loads(done.stdout)[f"awx.awx.{module}"]["doc"]["options"]
    return {name: translate(option) for name, option in options.items()}


def translate(option: dict) -> dict:
    kept = {key: option[key] for key in ("type", "required", "choices", "elements", "aliases") if key in option}
    if kept.get("required"):
        kept.pop("default", None)
    if option.get("suboptions") and option.get("type") in ("dict", "list"):
        kept["options"] = {name: translate(sub) for name, sub in option["suboptions"].items()}
    return kept


def survey_errors(spec: dict) -> list[str]:
    errors = [f"{key} is missing" for key in ("name", "description", "spec") if key not in spec]
    for question in spec.get("spec", []):
        name = question.get("variable", "?")
        for key in ("question_name", "question_description", "variable", "type", "required", "default", "choices"):
            if key not in question:
                errors.append(f"{name}: {key} is missing")
        if question.get("type") not in QUESTION_TYPES:
            errors.append(f"{name}: type {question.get('type')!r} is not one of AWX's")
        if question.get("type") == "multiplechoice" and question.get("default") not in (
            "",
            *question.get("choices", []),
        ):
            errors.append(f"{name}: default {question['default']!r} is not among the choices")
    return errors


def rendered() -> list[dict]:
    target = BUILD / "objects.json"
    for old in BUILD.glob("objects.json*"):
        old.unlink()
    binary = Path(sys.executable).parent / "ansible-playbook"
    argv = [binary, str(ROOT / "tests/awx/render.yml"), "-i", "localhost,", "-e", f"render_to={target}"]
    subprocess.run(argv, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return [entry for file in sorted(BUILD.glob("objects.json*")) for entry in json.loads(file.read_text())]


def main() -> int:
    collection()
    specifications: dict[str, dict] = {}
    passed = failed = 0
    for entry in rendered():
        module, arguments = entry["module"], entry["arguments"]
        if module not in specifications:
            specifications[module] = specification(module)
        result = ArgumentSpecValidator(specifications[module]).validate(arguments)
        errors = [
            *result.error_messages,
            *(survey_errors(arguments["survey_spec"]) if "survey_spec" in arguments else []),
        ]
        passed, failed = (passed, failed + 1) if errors else (passed + 1, failed)
        print(
            f"{'FAILED' if errors else 'ok'}: {module} {arguments['name']!r}{': ' if errors else ''}{'; '.join(errors)}"
        )
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 0 if failed == 0 and passed > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
