# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file that carries a choice back into the inventory. Text in, text out."""

from __future__ import annotations

import json
import typing as t


def merged(existing: t.Any, name: str, choice: t.Mapping[str, t.Any]) -> dict[str, dict[str, t.Any]]:
    """``dflash_tuned`` with the choice for instance ``name``; other instances keep theirs.

    :param existing: the former content of the file, parsed; anything that is no such mapping counts as none.
    """
    former = existing.get("dflash_tuned") if isinstance(existing, t.Mapping) else None
    kept = {key: dict(value) for key, value in former.items()} if isinstance(former, t.Mapping) else {}
    kept[name] = {"algorithm": choice["algorithm"]}
    if choice.get("budget"):
        kept[name]["budget"] = int(choice["budget"])
    return dict(sorted(kept.items()))


def render(tuned: t.Mapping[str, t.Mapping[str, t.Any]], notes: t.Sequence[str]) -> str:
    """Text of the file: the choice, and as comments what it rests on."""
    lines = [
        "---",
        "# Written by the tuning of playbooks/benchmark.yml. Remove an entry to go back to the inventory's own values.",
    ]
    lines += [f"# {line}" for note in notes for line in str(note).splitlines()]
    lines.append("dflash_tuned:")
    for name, values in tuned.items():
        lines.append(f"  {json.dumps(name)}:")
        lines += [f"    {key}: {json.dumps(value)}" for key, value in values.items()]
    return "\n".join(lines) + "\n"


def notes(name: str, verdict: t.Mapping[str, t.Any], day: str) -> list[str]:
    """The evidence in a few lines: the verdict, and the choice at every concurrency that was measured."""
    lines = [f"{name}, {day}, for {verdict['concurrency']} request(s) at once: {'; '.join(verdict['reasons'])}."]
    for at in verdict["by_concurrency"]:
        what = at["choice"]["configuration"] if at.get("choice") else f"no change ({at['status']})"
        lines.append(f"  {at['concurrency']} at once: {what}")
    return lines
