# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""AWX survey forms made from the playbooks' options, so that the two cannot differ. Pure; private to this collection.

Source of the format: awx.awx.job_template, option survey_spec; AWX's API documentation, "survey_spec".
"""

from __future__ import annotations

import re
import typing as t

# Lengths of a text answer. Not 0: the controller would then take an empty text for an answer.
TEXT_BOUNDS = (1, 1024)


class FormError(ValueError):
    """An option that cannot be asked for in a form; the text names it."""


def _words(text: t.Any) -> str:
    joined = " ".join(" ".join(text) if isinstance(text, (list, tuple)) else str(text).split())
    return re.sub(r"[CVOMIPB]\(([^)#]*)(?:#\w+)?\)", r"\1", " ".join(joined.split()))


def question(name: str, option: t.Mapping[str, t.Any], bounds: t.Sequence[int] | None = None) -> dict[str, t.Any]:
    """One question of a survey for one option.

    :raises FormError: a type that a form cannot ask for (lists, dictionaries), or a secret.
    """
    kind = option.get("type", "str")
    if option.get("no_log") or name.endswith(("_key", "_token", "_password")):
        raise FormError(f"{name} is a secret; give it by a credential, never by a survey")
    if option.get("choices"):
        asked, choices = "multiplechoice", [str(choice) for choice in option["choices"]]
    elif kind == "bool":
        asked, choices = "multiplechoice", ["true", "false"]
    elif kind in ("int", "float", "str", "path"):
        asked, choices = {"int": "integer", "float": "float"}.get(kind, "text"), []
    else:
        raise FormError(f"{name} is of type {kind}, which a survey form cannot ask for")
    default = option.get("default")
    if isinstance(default, bool):
        default = "true" if default else "false"
    low, high = bounds if bounds else (TEXT_BOUNDS if asked == "text" else (None, None))
    if asked in ("integer", "float") and bounds is None:
        raise FormError(f"{name} is a number without bounds; add them to dflash_bounds")
    asks = {
        "question_name": name.replace("dflash_", "").replace("_", " ").capitalize(),
        "question_description": _words(option["description"]),
        "variable": name,
        "type": asked,
        "required": bool(option.get("required", False)),
        "choices": choices,
        "min": low,
        "max": high,
    }
    # A controller gives every default to the job, an empty one too, and that would win over what the inventory says.
    return asks if default is None else {**asks, "default": default}


def form(
    title: str,
    names: t.Sequence[str],
    options: t.Mapping[str, t.Mapping[str, t.Any]],
    bounds: t.Mapping[str, t.Sequence[int]],
) -> dict[str, t.Any]:
    """The survey_spec of a template that asks for the options ``names``."""
    missing = [name for name in names if name not in options]
    if missing:
        raise FormError(f"not options of this collection: {', '.join(missing)}")
    return {
        "name": title,
        "description": title,
        "spec": [question(name, options[name], bounds.get(name)) for name in names],
    }
