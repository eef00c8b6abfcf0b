# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import re
from pathlib import Path

import yaml
from ansible_collections.inferlab.dflash.plugins.module_utils._plan import options

ROOT = Path(__file__).resolve().parents[5]
OPTIONS = yaml.safe_load((ROOT / "playbooks/vars/options.yml").read_text())


def tasks_of(node):
    """Every task of a playbook or a task file, in blocks too."""
    for item in node if isinstance(node, list) else []:
        if isinstance(item, dict):
            yield item
            for key in ("tasks", "pre_tasks", "post_tasks", "block", "rescue", "always"):
                yield from tasks_of(item.get(key))


def test_a_misspelt_option_is_named_with_the_nearest_one():
    assert options.unknown(["dflash_algoritm", "ansible_host", "dflash_port"], OPTIONS["dflash_options"]) == [
        "dflash_algoritm is not an option of this collection; did you mean dflash_algorithm?"
    ]


def test_a_far_name_gets_no_guess_and_internal_names_pass():
    assert options.unknown(["dflash_xyz"], OPTIONS["dflash_options"]) == [
        "dflash_xyz is not an option of this collection"
    ]
    assert options.unknown(["dflash_plan"], OPTIONS["dflash_options"], OPTIONS["dflash_internal"]) == []


def test_empty_values_of_forms_count_as_not_given():
    given = {"dflash_model": "", "dflash_port": None, "dflash_budget": 0, "other": 1}
    assert list(options.given_specification(given, OPTIONS["dflash_options"])) == ["dflash_budget"]


def test_every_variable_that_a_playbook_reads_is_an_option_or_internal():
    known = set(OPTIONS["dflash_options"]) | set(OPTIONS["dflash_internal"]) | set(OPTIONS["dflash_artifacts"])
    read = re.compile(r"(dflash_[a-z_]+)\s*\|\s*default")
    for file in sorted((ROOT / "playbooks").rglob("*.yml")):
        unlisted = set(read.findall(file.read_text())) - known
        assert not unlisted, f"{file.name} reads {sorted(unlisted)}, which playbooks/vars/options.yml does not list"


def test_what_a_job_hands_on_is_accepted_by_the_next_one_and_used_for_nothing_else():
    """A controller gives artifacts to the next job as extra variables: they must be known, and must not cover a variable that is set."""
    handed = set()
    for file in sorted((ROOT / "playbooks").rglob("*.yml")):
        for task in tasks_of(yaml.safe_load(file.read_text())):
            handed |= set(task.get("ansible.builtin.set_stats", {}).get("data", {}))
            names = {task.get("register"), *task.get("ansible.builtin.set_fact", {}), *task.get("vars", {})}
            assert not names & set(OPTIONS["dflash_artifacts"]), f"{file.name}: {task['name']}"
    assert handed == set(OPTIONS["dflash_artifacts"])
    assert not handed & (set(OPTIONS["dflash_options"]) | set(OPTIONS["dflash_internal"]))
