# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Playbook options that nobody knows: most often a misspelt name. Pure; private to this collection."""

from __future__ import annotations

import difflib
import typing as t

PREFIX = "dflash_"


def unknown(given: t.Iterable[str], options: t.Mapping[str, t.Any], internal: t.Iterable[str] = ()) -> list[str]:
    """One sentence a variable with the prefix that is no option, with the nearest option's name where one is near.

    :param given: names of all variables of a host.
    :param internal: names that the playbooks themselves set.
    """
    known = set(options) | set(internal)
    messages = []
    for name in sorted(given):
        if name.startswith(PREFIX) and name not in known:
            near = difflib.get_close_matches(name, list(options), n=1, cutoff=0.75)
            hint = f"; did you mean {near[0]}?" if near else ""
            messages.append(f"{name} is not an option of this collection{hint}")
    return messages


def given_specification(values: t.Mapping[str, t.Any], options: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """The part of ``options`` whose values were given: null and the empty string, which survey forms send, count as not given."""
    return {
        name: options[name] for name in options if name in values and values[name] is not None and values[name] != ""
    }
