# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ladder: which lower profile to try after a failed start, and when to stop.

An instance is tried as wished first, then its profiles in order, each at most once. A profile is tried only when it
changes something that can cure the diagnosed code, and then for every attempt that failed so far: it must not bring back
what an earlier attempt died of.
"""

from __future__ import annotations

import typing as t

from .._instance.generation import AS_WISHED

VISIBLE = "CUDA_VISIBLE_DEVICES"

_GENERIC = ("algorithm", "args", "env")

#: Diagnosis code to what a profile can change about it. A code that is not here stops the ladder: no profile cures a
#: broken
#: driver, a missing file, a taken port or hardware, and without a known cause another attempt proves nothing.
CURES: dict[str, tuple[str, ...]] = {
    # Without a second GPU there is no NCCL.
    "nccl_unhandled_system_error": ("single_gpu", "env"),
    "nccl_unhandled_cuda_error": ("single_gpu", "env"),
    "shm_too_small": ("single_gpu", "env"),
    # Fewer GPUs would leave less room, so tp_size is no cure for a lack of memory.
    "kv_cache_oom": ("mem_fraction", "algorithm", "args"),
    "gpu_oom": ("mem_fraction", "budget", "algorithm", "args"),
    "cuda_graph_capture_failed": ("budget", "algorithm", "args"),
    "engine_stalled": ("single_gpu", "algorithm", "budget", "args", "env"),
    # Both dflash and ddtree need the drafter.
    "draft_config_invalid": ("no_drafter",),
    "draft_target_mismatch": ("no_drafter",),
    "draft_arch_unsupported": ("no_drafter",),
    "spec_acceptance_collapsed": ("algorithm",),
    "server_args_invalid": (*_GENERIC, "budget", "block_size", "mem_fraction"),
    "ready_but_not_serving": _GENERIC,
    "engine_exception": (*_GENERIC, "budget", "block_size"),
    "killed_by_signal": (*_GENERIC, "single_gpu", "tp_size"),
}

#: The same for a code with a finer cause, which then decides alone.
CURES_BY_CAUSE: dict[tuple[str, str], tuple[str, ...]] = {
    ("engine_stalled", "nccl_init"): ("single_gpu", "env"),
    ("engine_stalled", "graph_capture"): ("budget", "algorithm", "args"),
    ("gpu_oom", "nccl"): ("single_gpu", "mem_fraction", "env"),
    ("model_path_missing", "draft"): ("no_drafter",),
}

_SAID = {
    "single_gpu": "tp_size 1",
    "no_drafter": "algorithm none",
}


def effective(instance: t.Mapping[str, t.Any], profile: t.Mapping[str, t.Any] | None) -> dict[str, t.Any]:
    """The instance, planned or not, with a profile laid over it.

    ``env`` is merged; ``args`` are appended, so that they win; of planned GPUs the first ``tp_size`` are kept.
    """
    merged = {key: value for key, value in instance.items() if key != "profiles"}
    profile = dict(profile or {})
    merged["profile"] = profile.pop("profile", AS_WISHED)
    merged["env"] = {**instance["env"], **profile.pop("env", {})}
    merged["args"] = [*instance["args"], *profile.pop("args", [])]
    merged.update(profile)
    if isinstance(merged["gpus"], list) and len(merged["gpus"]) > merged["tp_size"]:
        merged["gpus"] = merged["gpus"][: merged["tp_size"]]
        merged["devices"] = list(merged.get("devices") or [])[: merged["tp_size"]]
        if VISIBLE in merged["env"]:
            merged["env"][VISIBLE] = ",".join(merged["gpus"])
    return merged


def rungs(instance: t.Mapping[str, t.Any]) -> list[dict[str, t.Any]]:
    """All configurations of an instance, best first; the first is as wished."""
    return [effective(instance, None), *(effective(instance, profile) for profile in instance.get("profiles") or [])]


def cures(code: str, cause: str | None) -> tuple[str, ...]:
    """What a profile can change about a diagnosis; empty when nothing."""
    return CURES_BY_CAUSE.get((code, str(cause)), CURES.get(code, ()))


def _changes(before: t.Mapping[str, t.Any], after: t.Mapping[str, t.Any]) -> set[str]:
    changed = {
        key
        for key in ("algorithm", "tp_size", "budget", "block_size", "mem_fraction", "env", "args")
        if before[key] != after[key]
    }
    if {**before["env"], VISIBLE: ""} == {**after["env"], VISIBLE: ""}:
        # Which GPUs are visible follows from tp_size.
        changed.discard("env")
    if after["tp_size"] == 1 and before["tp_size"] > 1:
        changed.add("single_gpu")
    if after["algorithm"] == "none" and before["algorithm"] != "none":
        changed.add("no_drafter")
    # The budget of a tree means nothing to the other algorithms.
    if "algorithm" not in changed and after["algorithm"] != "ddtree":
        changed.discard("budget")
    return changed


def _spoken(wanted: t.Iterable[str]) -> str:
    return " or ".join(_SAID.get(key, f"another {key}") for key in wanted)


def step(
    instance: t.Mapping[str, t.Any],
    attempts: t.Sequence[t.Mapping[str, t.Any]],
    most: int | None = None,
) -> dict[str, t.Any]:
    """What comes next.

    :arg attempts: what was tried, in order: ``profile``, ``ready``, and when not ready ``code`` and ``cause``.
    :arg most: at most this many attempts in all.
    :returns: ``action`` (``try``, ``done``, ``stop``), ``rung`` (the instance to try, else None), ``reason``,
        ``skipped``
        (profiles that were passed over, with the reason), and for the report ``state`` (``trying``, ``serving``,
        ``degraded``, ``failed``), ``profile``, ``code``.
    """
    ladder = rungs(instance)
    if not attempts:
        return _answer("try", ladder[0], "first attempt, as wished", "trying", AS_WISHED, None)
    last = attempts[-1]
    if last.get("ready"):
        first = next((a for a in attempts if not a.get("ready")), {})
        first_code = first.get("code")
        if last["profile"] == AS_WISHED:
            return _answer("done", None, "serves as wished", "serving", AS_WISHED, None)
        reason = f"serves with profile {last['profile']}; as wished it failed with {first_code}"
        if (first.get("diagnosis") or {}).get("known"):
            reason += (
                f" at {first['diagnosis'].get('time')} and was not tried again (dflash_retry_failed=true tries it)"
            )
        return _answer("done", None, reason, "degraded", last["profile"], first_code)

    code, cause = str(last.get("code") or "unknown"), last.get("cause")
    by_name = {rung["profile"]: rung for rung in ladder}
    position = [rung["profile"] for rung in ladder].index(last["profile"])

    def stop(reason: str, skipped: t.Sequence[str] = ()) -> dict[str, t.Any]:
        return _answer("stop", None, reason, "failed", last["profile"], code, skipped)

    if not cures(code, cause):
        return stop(f"no lower profile can cure {code}")
    if most is not None and len(attempts) >= most:
        return stop(f"the limit of {most} attempts is reached")
    skipped = []
    for rung in ladder[position + 1 :]:
        objection = _objection(rung, attempts, by_name)
        if objection is None:
            reason = f"{code} may be cured by profile {rung['profile']}"
            return _answer("try", rung, reason, "trying", rung["profile"], code, skipped)
        skipped.append(f"{rung['profile']}: {objection}")
    return stop(f"no profile is left that could cure {code}" if skipped else "there is no lower profile", skipped)


def _objection(
    rung: t.Mapping[str, t.Any],
    attempts: t.Sequence[t.Mapping[str, t.Any]],
    by_name: t.Mapping[str, t.Mapping[str, t.Any]],
) -> str | None:
    """Why a rung would repeat a failure, or None."""
    for attempt in attempts:
        code = str(attempt.get("code") or "unknown")
        wanted = cures(code, attempt.get("cause"))
        if not _changes(by_name[attempt["profile"]], rung) & set(wanted):
            return f"keeps what failed with {code} ({attempt['profile']}), which takes {_spoken(wanted)}"
    return None


def _answer(
    action: str,
    rung: t.Mapping[str, t.Any] | None,
    reason: str,
    state: str,
    profile: str,
    code: str | None,
    skipped: t.Sequence[str] = (),
) -> dict[str, t.Any]:
    return {
        "action": action,
        "rung": None if rung is None else dict(rung),
        "reason": reason,
        "skipped": list(skipped),
        "state": state,
        "profile": profile,
        "code": code,
    }
