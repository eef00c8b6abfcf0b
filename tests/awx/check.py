# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run playbook awx against a stand-in that keeps what each task gives to awx.awx, and hold that against the modules' documentation.

usage: tests/awx/check.py     (run by `make awx-check` with the environment's python)
awx.awx comes out of the PyPI package `ansible`; nothing of it is kept in this project. Names, types, choices and required options are
checked with ansible's own validator, survey specs also against what AWX's API accepts; every name that an object refers to must be made
before it, and what is removed must be what was made. Ends with a line of counts.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import typing as t
import zipfile
from pathlib import Path

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / ".build" / "awx"
STAND_IN = BUILD / "stand-in"
BIN = Path(sys.executable).parent
# The last release of the package that holds awx.awx for the ansible-core of Python 3.11.
PACKAGE = "ansible==12.3.0"
QUESTION_TYPES = {"text", "textarea", "password", "integer", "float", "multiplechoice", "multiselect"}

SOURCE = {"awx_scm_url": "https://git.example.org/dflash.git"}
NOTIFICATION = {
    "name": "Mail",
    "notification_type": "email",
    "notification_configuration": {"recipients": ["ops@example.org"]},
}
EVERYTHING = {
    **SOURCE,
    "awx_ee_image": "registry.example.org/dflash-ee:1.0.0",
    "awx_credentials": ["SSH", "DFlash API key"],
    "awx_notification": NOTIFICATION,
    "awx_remove_organization": True,
}
LOCAL = {"awx_scm_type": "", "awx_local_path": "dflash"}
# Which module makes what an argument names.
REFERENCES = {
    "organization": "organization",
    "project": "project",
    "source_project": "project",
    "inventory": "inventory",
    "workflow_job_template": "workflow_job_template",
    "execution_environment": "execution_environment",
    "unified_job_template": "job_template",
    "notification_templates_error": "notification_template",
}


class Entry(t.NamedTuple):
    module: str
    arguments: dict[str, t.Any]

    @property
    def name(self) -> str:
        return str(self.arguments.get("name") or self.arguments.get("identifier"))


def collection() -> None:
    """awx.awx, unpacked from the package; fetched once."""
    if (BUILD / "ansible_collections/awx/awx/plugins/modules").is_dir():
        return
    print(f"fetching awx.awx out of {PACKAGE}", flush=True)
    BUILD.mkdir(parents=True, exist_ok=True)
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(BUILD), PACKAGE]
    subprocess.run(pip, check=True, stderr=subprocess.DEVNULL)
    wheel = next(BUILD.glob("ansible-*.whl"))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(
            BUILD, [name for name in archive.namelist() if name.startswith("ansible_collections/awx/awx/")]
        )
    wheel.unlink()


def stand_in(modules: t.Iterable[str]) -> None:
    shutil.rmtree(STAND_IN, ignore_errors=True)
    folder = STAND_IN / "ansible_collections/awx/awx/plugins/action"
    folder.mkdir(parents=True)
    for module in modules:
        shutil.copy(ROOT / "tests/awx/record.py", folder / f"{module}.py")
    lookups = folder.parent / "lookup"
    lookups.mkdir()
    shutil.copy(ROOT / "tests/awx/lookup.py", lookups / "controller_api.py")


def specifications(modules: t.Sequence[str]) -> dict[str, dict[str, t.Any]]:
    """The documented options of each module, as an argument specification."""
    env = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(BUILD)}
    argv = [BIN / "ansible-doc", "--json", *(f"awx.awx.{module}" for module in modules)]
    documented = json.loads(subprocess.run(argv, env=env, capture_output=True, text=True, check=True).stdout)
    return {
        module: {name: translate(option) for name, option in documented[f"awx.awx.{module}"]["doc"]["options"].items()}
        for module in modules
    }


def translate(option: dict[str, t.Any]) -> dict[str, t.Any]:
    kept = {key: option[key] for key in ("type", "required", "choices", "elements", "aliases") if key in option}
    if option.get("suboptions") and option.get("type") in ("dict", "list"):
        kept["options"] = {name: translate(sub) for name, sub in option["suboptions"].items()}
    return kept


def play(variables: dict[str, t.Any], organizations: str = "DFlash") -> tuple[int, str, list[Entry]]:
    """Run the playbook; exit status, output, and what its tasks asked for."""
    record = BUILD / "record.jsonl"
    record.write_text("")
    env = {
        **os.environ,
        "ANSIBLE_COLLECTIONS_PATH": f"{STAND_IN}:{ROOT / '.collections'}",
        "AWX_RECORD": str(record),
        "AWX_ORGANIZATIONS": organizations,
        "ANSIBLE_FORCE_COLOR": "0",
    }
    argv = [BIN / "ansible-playbook", ROOT / "playbooks/awx.yml", "-i", "localhost,", "-e", json.dumps(variables)]
    done = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    return (
        done.returncode,
        done.stdout + done.stderr,
        [Entry(**json.loads(line)) for line in record.read_text().splitlines()],
    )


def survey_errors(spec: dict[str, t.Any]) -> list[str]:
    """What AWX's API would refuse in a survey_spec."""
    errors = [f"{key} is missing" for key in ("name", "description", "spec") if key not in spec]
    for question in spec.get("spec", []):
        name = question.get("variable", "?")
        for key in ("question_name", "question_description", "variable", "type", "required", "choices"):
            if key not in question:
                errors.append(f"{name}: {key} is missing")
        if question.get("type") not in QUESTION_TYPES:
            errors.append(f"{name}: type {question.get('type')!r} is not one of AWX's")
        if question.get("default") == "":
            errors.append(f"{name}: an empty default would be given to the job and win over the inventory")
        if question.get("type") == "multiplechoice" and question.get("default") not in (
            None,
            *question.get("choices", []),
        ):
            errors.append(f"{name}: default {question.get('default')!r} is not among the choices")
    return errors


def reference_errors(entry: Entry, made: set[tuple[str, str]]) -> list[str]:
    """Names that the object refers to and that nothing made before it."""
    errors = []
    for key, module in REFERENCES.items():
        names = entry.arguments.get(key) or []
        for name in names if isinstance(names, list) else [names]:
            if (module, name) not in made:
                errors.append(f"{key} {name!r} was not made before")
    for key in ("success_nodes", "failure_nodes"):
        for node in entry.arguments.get(key) or []:
            if ("workflow_job_template_node", node) not in made:
                errors.append(f"{key} {node!r} was not made before")
    return errors


class Checks:
    def __init__(self, specs: dict[str, dict[str, t.Any]]) -> None:
        self.specs = specs
        self.passed = self.failed = 0

    def say(self, name: str, errors: t.Sequence[str]) -> None:
        self.passed, self.failed = (self.passed, self.failed + 1) if errors else (self.passed + 1, self.failed)
        print(f"{'FAILED' if errors else 'ok'}: {name}{': ' if errors else ''}{'; '.join(errors)}", flush=True)

    def argument_errors(self, entry: Entry) -> list[str]:
        return ArgumentSpecValidator(self.specs[entry.module]).validate(entry.arguments).error_messages

    def made(self, title: str, variables: dict[str, t.Any]) -> set[tuple[str, str]]:
        status, output, entries = play(variables)
        self.say(f"{title}: the playbook runs", [] if status == 0 and entries else [output[-2000:]])
        made: set[tuple[str, str]] = set()
        for entry in entries:
            errors = [*self.argument_errors(entry), *reference_errors(entry, made)]
            if "survey_spec" in entry.arguments:
                errors += survey_errors(entry.arguments["survey_spec"])
            self.say(f"{title}: {entry.module} {entry.name!r}", errors)
            made.add((entry.module, entry.name))
        return made

    def removed(self, title: str, variables: dict[str, t.Any], made: set[tuple[str, str]], left: set[str]) -> None:
        status, output, entries = play({**variables, "awx_state": "absent"})
        self.say(f"{title}: the playbook runs", [] if status == 0 and entries else [output[-2000:]])
        for entry in entries:
            state = [] if entry.arguments.get("state") == "absent" else ["state is not absent"]
            self.say(f"{title}: {entry.module} {entry.name!r}", [*self.argument_errors(entry), *state])
        gone = {(entry.module, entry.name) for entry in entries}
        # An inventory source goes with its inventory, a node with its workflow.
        kept = {
            (module, name)
            for module, name in made - gone
            if module not in {*left, "inventory_source", "workflow_job_template_node"}
        }
        self.say(f"{title}: what was made is removed", [f"{module} {name!r} stays" for module, name in sorted(kept)])

    def removed_again(self, title: str, variables: dict[str, t.Any]) -> None:
        """With the organisation gone, nothing may name it but its own removal: AWX would not find it."""
        status, output, entries = play({**variables, "awx_state": "absent"}, organizations="")
        named = [f"{e.module} {e.name!r} names it" for e in entries if e.arguments.get("organization")]
        self.say(title, named if status == 0 and entries else [output[-2000:]])

    def refused(self, title: str, variables: dict[str, t.Any], text: str) -> None:
        status, output, entries = play(variables)
        self.say(title, [] if status != 0 and not entries and text in output else [output[-2000:]])

    def can_fail(self, entry: Entry) -> None:
        """The check itself: an argument that the module does not have, and a choice that it does not know, are found."""
        wrong = [{**entry.arguments, "no_such_option": 1}, {**entry.arguments, "state": "no such state"}]
        blind = [str(arguments) for arguments in wrong if not self.argument_errors(Entry(entry.module, arguments))]
        self.say("a wrong argument is found", blind)


def main() -> int:
    collection()
    tasks = "".join((ROOT / "playbooks/tasks" / f"awx_{state}.yml").read_text() for state in ("present", "absent"))
    modules = sorted(set(re.findall(r"^  awx\.awx\.(\w+):", tasks, re.MULTILINE)))
    stand_in(modules)
    checks = Checks(specifications(modules))
    checks.can_fail(Entry("organization", {"name": "x"}))
    few = checks.made("made from a git repository", SOURCE)
    checks.removed("removed", {}, few, {"organization"})
    many = checks.made("made with every option", EVERYTHING)
    checks.removed("removed with every option", EVERYTHING, many, set())
    checks.removed_again("removed again, without its organisation", EVERYTHING)
    checks.made("made from a local folder", LOCAL)
    checks.refused("a project without a source is refused", {}, "awx_scm_url")
    checks.refused("an unknown state is refused", {**SOURCE, "awx_state": "gone"}, "use present or absent")
    untouched = set(modules) - {module for module, dummy in many}
    checks.say("every module of the playbook was met", sorted(untouched))
    print(f"{checks.passed} passed, {checks.failed} failed, 0 skipped")
    return 0 if checks.failed == 0 and checks.passed > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
