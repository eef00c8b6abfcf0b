# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a report says: one plain document, and whether it says anything new.

Nothing here touches a file or a clock; the role passes the previous document and the time in.
"""

from __future__ import annotations

import json
import math
import typing as t
from collections.abc import Mapping, Sequence

SCHEMA = 1
KINDS = ("deploy", "survey", "benchmark", "diagnose")
_OWN_KEYS = ("schema", "kind", "generated", "title", "hosts")


class ReportError(ValueError):
    """The given data cannot be a report; the message says which value, why, and what would do."""


def plain(value: t.Any) -> t.Any:
    """Return `value` as plain JSON types, whatever subclass Ansible's templating wrapped it in."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted(plain(item) for item in value)
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return [plain(item) for item in value]
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        # JSON has no NaN and no infinity; "not known" is what they mean here.
        return float(value) if math.isfinite(value) else None
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(value)


def without(value: t.Any, keys: frozenset[str]) -> t.Any:
    """Return a copy of `value` without the mapping keys named in `keys`, at any depth."""
    if isinstance(value, dict):
        return {key: without(item, keys) for key, item in value.items() if key not in keys}
    if isinstance(value, list):
        return [without(item, keys) for item in value]
    return value


def parse_previous(text: str | None) -> dict[str, t.Any] | None:
    """Return the previous report from its text, or None where there is none or it cannot be read."""
    if not text:
        return None
    try:
        document = json.loads(text)
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


def build_document(
    hosts: t.Any,
    *,
    kind: str,
    now: str,
    title: str | None = None,
    extra: t.Any = None,
    previous: str | None = None,
    volatile: t.Any = (),
) -> dict[str, t.Any]:
    """Build a report and compare it with the previous one.

    Args:
        hosts: host name to that host's data.
        kind: one of `KINDS`.
        now: UTC time of this report, ISO 8601 with a final Z.
        title: heading of the page.
        extra: further top-level keys, for example findings or figures.
        previous: text of the previous latest.json.
        volatile: names of keys, at any depth, that are measured anew each time and never count as a change.

    Returns:
        `document` (what to write), `changed` (something other than time and volatile values differs from
        the previous report) and `name` (file name, without suffix, of the dated copy).

    Raises:
        ReportError: unknown kind, hosts that are no mapping, or extra keys that would hide the report's own.
    """
    if kind not in KINDS:
        raise ReportError(f"report_kind {kind!r} is not known; use one of {', '.join(KINDS)}")
    if not isinstance(hosts, Mapping):
        raise ReportError(f"report_hosts must map host names to their data, got {type(hosts).__name__}")
    body = plain(hosts)
    wrong = sorted(name for name, data in body.items() if not isinstance(data, dict))
    if wrong:
        raise ReportError(f"report_hosts: the data of {', '.join(wrong)} must be a mapping")
    further = plain(extra or {})
    hidden = sorted(set(further) & set(_OWN_KEYS))
    if hidden:
        raise ReportError(f"report_extra must not hold {', '.join(hidden)}: these are keys of every report")

    document: dict[str, t.Any] = {"schema": SCHEMA, "kind": kind, "generated": now}
    document["title"] = title or f"{kind.capitalize()} report"
    document.update(further)
    document["hosts"] = body

    before = parse_previous(previous)
    if before is None:
        return {"document": document, "changed": True, "name": file_stamp(now)}
    ignored = frozenset(str(key) for key in volatile) | {"generated"}
    if without(before, frozenset({"generated"})) == without(document, frozenset({"generated"})):
        # Nothing but the clock moved: the previous report stays as it is, its own time included.
        document["generated"] = str(before.get("generated") or now)
    changed = without(before, ignored) != without(document, ignored)
    return {"document": document, "changed": changed, "name": file_stamp(now)}


def file_stamp(now: str) -> str:
    """Return an ISO 8601 time as a file name that sorts by time and suits every file system."""
    return now.replace(":", "").replace("-", "")
