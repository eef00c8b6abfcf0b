# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Quoting for systemd's unit and environment files. Private to this collection.

Source: systemd.service(5) "Command lines", systemd.exec(5) "EnvironmentFile=", systemd.unit(5) "Specifiers".
"""

from __future__ import annotations

import re
import typing as t

_PLAIN = re.compile(r"^[A-Za-z0-9_@=,.:/+-]+$")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def quote_word(word: str) -> str:
    """One word of ``ExecStart=``: percent and dollar doubled so that nothing is expanded, quoted where it must be.

    :raises ValueError: control characters, which a unit file cannot carry in a readable way.
    """
    if _CONTROL.search(word):
        raise ValueError(f"a command line word must not hold control characters: {word!r}")
    escaped = word.replace("%", "%%").replace("$", "$$")
    if escaped and _PLAIN.match(escaped):
        return escaped
    return '"' + escaped.replace("\\", "\\\\").replace('"', '\\"') + '"'


def command_line(words: t.Iterable[str]) -> str:
    """``ExecStart=`` value for ``words``; the long form of an option stays on the line of its value."""
    return " ".join(quote_word(str(word)) for word in words)


def environment_file(values: t.Mapping[str, str]) -> str:
    """Text of an EnvironmentFile, sorted by name; values are double-quoted, which keeps every character but the escaped ones.

    :raises ValueError: a name that is not a shell name, or a value with a line break.
    """
    lines = []
    for name in sorted(values):
        value = str(values[name])
        if not re.match(r"^[A-Za-z_][A-Za-z0-9_]*$", name):
            raise ValueError(f"environment variable name {name!r} is not valid; use letters, digits and underscores")
        if _CONTROL.search(value):
            raise ValueError(f"environment variable {name} must not hold control characters or line breaks")
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("`", "\\`").replace("$", "\\$")
        lines.append(f'{name}="{escaped}"')
    return "".join(line + "\n" for line in lines)
