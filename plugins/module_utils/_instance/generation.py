# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Generations of an instance: what belongs together, and what has to happen to get there. Pure; private to this collection.

A generation is a unit text, an environment text, a release and a record, kept together under its id, so that a roll-back moves all
of them and none alone. The functions here compare and decide; ``store.py`` reads and ``act.py`` writes.
"""

from __future__ import annotations

import hashlib
import json
import typing as t

# The first rung of the ladder: the instance itself, without one of its profiles laid over it.
AS_WISHED = "as wished"
# The order in which actions are taken. The link moves before the unit is installed: a crash between the two leaves the old unit on the
# new release, which the next run completes; the other order could start a new command line on an old release.
ORDER = (
    "verify_unit",
    "make_directories",
    "write_generation",
    "install_environment",
    "install_api_key",
    "move_link",
    "install_unit",
    "daemon_reload",
    "enable",
    "restart",
    "record_active",
)


def generation_id(unit: str, environment: str, release: str, record: t.Mapping[str, t.Any]) -> str:
    """First 12 hex digits of the SHA-256 over everything whose change needs a restart."""
    text = json.dumps([unit, environment, release, dict(record)], sort_keys=True)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:12]


def plan_start(current: t.Mapping[str, t.Any], wanted: t.Mapping[str, t.Any]) -> list[str]:
    """Actions, in order, that take ``current`` to ``wanted``; an empty list means that nothing has to change.

    :param current: what the host has: ``unit, environment, link`` (text or None), ``unit_mode, environment_mode`` (int or None),
        ``directories_right, generation_complete`` (bool), ``active`` (id or None), ``api_key_matches, api_key_in_use`` (bool), and systemd's
        ``active_state, enabled, need_daemon_reload``.
    :param wanted: ``id, unit, environment, release`` and ``enabled`` (bool).
    """
    actions = set()
    if not current["directories_right"]:
        actions.add("make_directories")
    if not current["generation_complete"]:
        actions |= {"write_generation", "verify_unit"}
    if current["environment"] != wanted["environment"] or current["environment_mode"] != 0o600:
        actions.add("install_environment")
    if not current["api_key_matches"]:
        actions.add("install_api_key")
    if current["link"] != wanted["release"]:
        actions.add("move_link")
    if current["unit"] != wanted["unit"] or current["unit_mode"] != 0o644:
        actions.add("install_unit")
    if current["unit"] != wanted["unit"] or current["need_daemon_reload"]:
        actions.add("daemon_reload")
    if wanted["enabled"] and not current["enabled"]:
        actions.add("enable")
    stale = (
        current["active"] != wanted["id"]
        or not current["api_key_in_use"]
        # An edited unit may be what runs now, even when the record names the wanted generation.
        or bool({"install_environment", "move_link", "daemon_reload"} & actions)
        or current["active_state"] not in ("active", "activating", "reloading")
    )
    if stale:
        actions |= {"restart", "record_active"}
    return [action for action in ORDER if action in actions]


def plan_stop(current: t.Mapping[str, t.Any]) -> list[str]:
    """Actions that stop an instance and keep it from starting at boot; its files stay."""
    actions = []
    if current["active_state"] not in ("inactive", "failed", None):
        actions.append("stop")
    if current["enabled"]:
        actions.append("disable")
    return actions


def plan_absent(current: t.Mapping[str, t.Any]) -> list[str]:
    """Actions that remove an instance: stopped, unit and configuration removed; releases and models are shared and stay."""
    actions = plan_stop(current)
    if current["unit"] is not None:
        actions += ["remove_unit", "daemon_reload"]
    if current["exists"]:
        actions.append("remove_files")
    return actions


def previous_ready(
    history: t.Iterable[t.Mapping[str, t.Any]], instance: str, current: str | None, available: t.Container[str]
) -> str | None:
    """The generation a roll-back goes to: the newest one that was ready, is not ``current``, and is still complete on the host."""
    for entry in reversed(list(history)):
        if entry.get("instance") == instance and entry.get("event") == "ready":
            generation = entry.get("generation")
            if generation and generation != current and generation in available:
                return str(generation)
    return None


def known_failure(
    history: t.Iterable[t.Mapping[str, t.Any]], instance: str, wanted: str, active: str | None
) -> dict[str, t.Any] | None:
    """The failure of generation ``wanted`` that the ``active`` one is the answer to, else None.

    That is the case when ``active`` became ready right after a row of failed attempts with ``wanted`` among them, and the instance's
    history says nothing since: no remedy, no roll-back, no other start. Trying ``wanted`` again would stop a server that works for
    an outcome that is known.
    """
    entries = [entry for entry in history if entry.get("instance") == instance]
    last = entries[-1] if entries else {}
    # A generation as wished is no answer to the failure of another one: it is what a failed deployment went back to.
    if last.get("event") != "ready" or last.get("generation") != active or last.get("profile") in (None, AS_WISHED):
        return None
    for entry in reversed(entries[:-1]):
        if entry.get("event") != "failed":
            return None
        if entry.get("generation") == wanted:
            return {key: entry.get(key) for key in ("code", "cause", "time")}
    return None


def superseded(
    history: t.Iterable[t.Mapping[str, t.Any]], instance: str, present: t.Iterable[str], keep: int
) -> list[str]:
    """Generations to delete: all but the ``keep`` most recently used ones, newest use last in ``history``."""
    used: list[str] = []
    for entry in history:
        generation = entry.get("generation")
        if entry.get("instance") == instance and generation:
            if generation in used:
                used.remove(generation)
            used.append(generation)
    present = list(present)
    unknown = [generation for generation in present if generation not in used]
    ordered = unknown + [generation for generation in used if generation in present]
    return ordered[:-keep] if keep > 0 else []
