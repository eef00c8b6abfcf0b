# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What host_survey_info accepts and answers, the same whether Ansible's module or the bare program runs it."""

from __future__ import annotations

import typing as t

from .._gpu import facts
from .._gpu.host import Host, Running
from .collect import Options, collect
from .source import Source

ARGUMENTS: dict[str, dict[str, t.Any]] = {
    "patterns": {"type": "dict"},
    "paths": {"type": "list", "elements": "str"},
    "depth": {"type": "int", "default": 4},
    "entries": {"type": "int", "default": 30000},
    "time_limit": {"type": "int", "default": 10},
    "control_time": {"type": "float"},
    "import_test": {"type": "bool", "default": False},
    "gpu_subset": {"type": "list", "elements": "str", "default": []},
    "root": {"type": "path", "default": "/"},
}


def run(argv: list[str]) -> tuple[int, str]:
    """Status and output of a command; a name that is not installed is a normal answer here."""
    done = Running(argv, {"LC_ALL": "C.UTF-8"}).finish()
    return 127 if done.rc is None else done.rc, done.out


def answer(given: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return `survey`, and `gpu` where `gpu_subset` asks for it.

    Args:
        given: every option of ARGUMENTS.

    Raises:
        ValueError: a subset does not exist, or a pattern is no regular expression; the text names the option.
    """
    found: dict[str, t.Any] = {}
    if given["gpu_subset"]:
        try:
            found["gpu"] = facts.gather(Host(given["root"]), facts.subsets(given["gpu_subset"]))
        except ValueError as exc:
            raise ValueError(f"gpu_subset: no such subset: {exc}") from exc
    wishes = {name: given[name] for name in ("patterns", "paths") if given[name] is not None}
    options = Options(
        depth=given["depth"],
        entries=given["entries"],
        control_time=given["control_time"],
        import_test=given["import_test"],
        **wishes,
    )
    source = Source(given["root"], run if given["root"] == "/" else None, given["time_limit"])
    return {"survey": collect(source, options), **found}
