# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the inventory wishes for: `dflash_instances` or the flat options, checked and made complete.

Values may come from an AWX survey and then are strings; they are coerced where that is unambiguous, else refused.
"""

from __future__ import annotations

import difflib
import re
import typing as t

from .._instance.generation import AS_WISHED
from .errors import PlanError

ALGORITHMS = ("ddtree", "dflash", "none")
BACKENDS = ("auto", "sglang", "transformers")
DEFAULT_BUDGET = 16

#: Flat option -> key of the instance it sets.
FLAT_OPTIONS = {
    "dflash_name": "name",
    "dflash_engine_backend": "engine_backend",
    "dflash_model": "model",
    "dflash_drafter": "drafter",
    "dflash_algorithm": "algorithm",
    "dflash_budget": "budget",
    "dflash_tp_size": "tp_size",
    "dflash_port": "port",
}

#: What a profile of the ladder may override. Names, ports and models stay: a lower profile serves the same thing,
#: slower.
PROFILE_KEYS = ("profile", "algorithm", "tp_size", "budget", "block_size", "mem_fraction", "env", "args")

# "router" is the unit of role router; a unit name is dflash-<name>.service, and user names and paths are made from it.
_NAME = re.compile(r"^[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?$")
_ENV_NAME = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")
_GPU_UUID = re.compile(r"^(?:GPU|MIG)-[0-9a-fA-F][0-9a-fA-F-]{3,}$")


def _shown(value: t.Any) -> str:
    text = repr(str(value)) if isinstance(value, str) else repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _refuse(where: str, key: str, value: t.Any, reason: str, way_out: str) -> t.NoReturn:
    raise PlanError(f"{where}: {key} = {_shown(value)}", reason, way_out)


def _blank(value: t.Any) -> bool:
    """True for what an unanswered survey question or an empty YAML key leaves behind."""
    return value is None or (isinstance(value, str) and not value.strip())


def _integer(where: str, key: str, value: t.Any, low: int, high: int) -> int:
    number: int | None = None
    if isinstance(value, int) and not isinstance(value, bool):
        number = value
    elif isinstance(value, str) and re.fullmatch(r"[+-]?[0-9]{1,9}", value.strip()):
        number = int(value.strip())
    if number is None:
        _refuse(where, key, value, "it is not a whole number", f"Give a whole number from {low} to {high}")
    if not low <= number <= high:
        _refuse(where, key, value, "it is out of range", f"Give a whole number from {low} to {high}")
    return number


def _fraction(where: str, key: str, value: t.Any) -> float:
    number: float | None = None
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        number = float(value)
    elif isinstance(value, str) and re.fullmatch(r"[0-9]*\.?[0-9]+", value.strip()):
        number = float(value.strip())
    if number is None or not 0.05 <= number <= 0.98:
        _refuse(
            where, key, value, "it is not a usable share of GPU memory", "Give a number from 0.05 to 0.98, such as 0.85"
        )
    return number


def _text(where: str, key: str, value: t.Any) -> str:
    if not isinstance(value, str):
        _refuse(where, key, value, f"it is of type {type(value).__name__}", "Give a string")
    if any(ord(char) < 32 for char in value):
        _refuse(where, key, value, "it holds a line break or control character", "Give one line of plain text")
    return str(value).strip()


def _choice(where: str, key: str, value: t.Any, choices: t.Sequence[str]) -> str:
    text = _text(where, key, value).lower()
    if text not in choices:
        _refuse(where, key, value, "it is unknown", f"Choose one of {', '.join(choices)}")
    return text


def _name(where: str, key: str, value: t.Any) -> str:
    text = _text(where, key, value)
    if not _NAME.match(text):
        _refuse(
            where,
            key,
            value,
            "it cannot name a systemd unit and a directory",
            "Use 1 to 40 lower-case letters, digits or dashes, beginning and ending with a letter or digit",
        )
    if text == "router" or text.startswith("router-"):
        _refuse(where, key, value, "units of that name belong to role router", "Choose another name")
    return text


def _environment(where: str, key: str, value: t.Any) -> dict[str, str]:
    if not isinstance(value, dict):
        _refuse(
            where, key, value, f"it is of type {type(value).__name__}", "Give a mapping of variable names to values"
        )
    result: dict[str, str] = {}
    for name, content in value.items():
        if not isinstance(name, str) or not _ENV_NAME.match(name):
            _refuse(
                where,
                f"{key}.{name}",
                content,
                "that is no name of an environment variable",
                "Use letters, digits and '_'",
            )
        if isinstance(content, bool) or not isinstance(content, (str, int, float)):
            _refuse(
                where, f"{key}.{name}", content, f"it is of type {type(content).__name__}", 'Quote it, for example "1"'
            )
        if name == "CUDA_VISIBLE_DEVICES":
            _refuse(
                where, f"{key}.{name}", content, "the GPUs are planned, not set by hand", "Use gpus: [UUID] instead"
            )
        result[str(name)] = _text(where, f"{key}.{name}", str(content))
    return result


def _arguments(where: str, key: str, value: t.Any) -> list[str]:
    if not isinstance(value, (list, tuple)):
        _refuse(
            where,
            key,
            value,
            f"it is of type {type(value).__name__}",
            'Give a list, one argument an element: ["--a", "1"]',
        )
    result = []
    for item in value:
        if isinstance(item, bool) or not isinstance(item, (str, int, float)):
            _refuse(where, key, item, f"an argument of type {type(item).__name__}", "Give strings or numbers")
        result.append(_text(where, key, str(item)))
    return result


def _gpus(where: str, key: str, value: t.Any) -> str | list[str]:
    if isinstance(value, str):
        if value.strip().lower() == "auto":
            return "auto"
        value = [part for part in re.split(r"[\s,]+", value.strip()) if part]
    if not isinstance(value, (list, tuple)):
        _refuse(where, key, value, "it is neither 'auto' nor a list", "Give auto, or a list of GPU UUIDs")
    result: list[str] = []
    for item in value:
        if not isinstance(item, str) or not _GPU_UUID.match(item.strip()):
            _refuse(
                where,
                key,
                item,
                "GPUs are named by UUID only, since an index can mean another GPU after a reboot",
                "List them with 'nvidia-smi -L', or write gpus: auto",
            )
        if item.strip() in result:
            _refuse(where, key, item, "it is listed twice", "List each GPU once")
        result.append(str(item.strip()))
    return result


def _port(where: str, key: str, value: t.Any) -> str | int:
    if isinstance(value, str) and value.strip().lower() == "auto":
        return "auto"
    # The unit's user is unprivileged: ports below 1024 could not be bound.
    return _integer(where, key, value, 1024, 65535)


def _algorithm(where: str, key: str, value: t.Any) -> str:
    return _choice(where, key, value, ALGORITHMS)


_CHECKS: dict[str, t.Callable[[str, str, t.Any], t.Any]] = {
    "name": _name,
    "engine_backend": lambda where, key, value: _choice(where, key, value, BACKENDS),
    "model": _text,
    "drafter": _text,
    "served_model_name": _text,
    "algorithm": _algorithm,
    "tp_size": lambda where, key, value: _integer(where, key, value, 1, 64),
    "gpus": _gpus,
    "host": _text,
    "port": _port,
    "budget": lambda where, key, value: _integer(where, key, value, 1, 1024),
    "block_size": lambda where, key, value: _integer(where, key, value, 2, 256),
    "mem_fraction": _fraction,
    "env": _environment,
    "args": _arguments,
}

INSTANCE_KEYS = (*_CHECKS, "profiles")


def _near(key: str, known: t.Iterable[str]) -> str:
    match = difflib.get_close_matches(key, list(known), n=1)
    return f"Did you mean {match[0]}? Known keys" if match else "Known keys"


def _unknown_keys(where: str, given: t.Mapping[str, t.Any], known: t.Sequence[str]) -> None:
    for key in given:
        if key not in known:
            raise PlanError(f"{where}: {key}", "this key is unknown", f"{_near(str(key), known)}: {', '.join(known)}")


def _profiles(where: str, value: t.Any) -> list[dict[str, t.Any]]:
    if _blank(value):
        return []
    if not isinstance(value, (list, tuple)):
        _refuse(
            where, "profiles", value, f"it is of type {type(value).__name__}", "Give a list of overrides, best first"
        )
    result: list[dict[str, t.Any]] = []
    for number, item in enumerate(value):
        place = f"{where}, profiles[{number}]"
        if not isinstance(item, dict) or not item:
            _refuse(
                where, f"profiles[{number}]", item, "it is no mapping of overrides", "Write for example {tp_size: 1}"
            )
        _unknown_keys(place, item, PROFILE_KEYS)
        profile = {key: _CHECKS[key](place, key, content) for key, content in item.items() if key != "profile"}
        # The name is what the report and dflash_result.profile show.
        profile["profile"] = _text(place, "profile", item["profile"]) if "profile" in item else _profile_name(profile)
        result.append(profile)
    return result


def _profile_name(profile: t.Mapping[str, t.Any]) -> str:
    parts = [str(profile["algorithm"])] if "algorithm" in profile else []
    parts += [f"{short}{profile[key]}" for key, short in (("tp_size", "tp"), ("budget", "b")) if key in profile]
    parts += [key for key in ("block_size", "mem_fraction", "env", "args") if key in profile]
    return "-".join(parts)


def _instance(where: str, given: t.Any, lone: bool) -> dict[str, t.Any]:
    if not isinstance(given, dict):
        raise PlanError(f"{where} = {_shown(given)}", f"it is of type {type(given).__name__}", "Give a mapping")
    _unknown_keys(where, given, INSTANCE_KEYS)
    if not lone and _blank(given.get("name")):
        raise PlanError(f"{where}: name", "with several instances each needs one", "Give each instance a name")
    label = f"{where} ({given['name']})" if isinstance(given.get("name"), str) and given["name"].strip() else where
    read = {key: check(label, key, given[key]) for key, check in _CHECKS.items() if not _blank(given.get(key))}
    if "model" not in read:
        raise PlanError(
            f"{label}: model", "no target model is named", "Set model (or dflash_model) to a path or a hub name"
        )
    drafter = read.get("drafter")
    algorithm = read.get("algorithm") or ("ddtree" if drafter else "none")
    if algorithm != "none" and not drafter:
        _refuse(
            label, "algorithm", algorithm, "it needs a drafter and none is named", "Set drafter, or algorithm: none"
        )
    gpus = read.get("gpus", "auto")
    tp_size = read.get("tp_size") or (len(gpus) if isinstance(gpus, list) and gpus else 1)
    if isinstance(gpus, list) and gpus and len(gpus) != tp_size:
        _refuse(label, "gpus", gpus, f"{len(gpus)} GPUs are listed and tp_size is {tp_size}", "Make both agree")
    backend = read.get("engine_backend", "auto")
    if backend == "transformers" and tp_size > 1:
        _refuse(label, "tp_size", tp_size, "the transformers backend runs on one GPU or the CPU", "Set tp_size: 1")
    return {
        "name": read.get("name", "main"),
        "engine_backend": backend,
        "model": read["model"],
        "drafter": drafter,
        "served_model_name": read.get("served_model_name"),
        "algorithm": algorithm,
        "tp_size": tp_size,
        "gpus": gpus,
        "host": read.get("host"),
        "port": read.get("port", "auto"),
        "budget": read.get("budget", DEFAULT_BUDGET),
        "block_size": read.get("block_size"),
        "mem_fraction": read.get("mem_fraction"),
        "env": read.get("env", {}),
        "args": read.get("args", []),
        "profiles": _profiles(label, given.get("profiles")),
    }


def _check_profiles(instance: t.Mapping[str, t.Any]) -> None:
    """A profile must be a valid instance when laid over its instance; said now, not after the first failed attempt."""
    names = [AS_WISHED]
    for profile in instance["profiles"]:
        where = f"instance {instance['name']}, profile {profile['profile']}"
        if profile["profile"] in names:
            _refuse(
                where, "profile", profile["profile"], "that name is taken", "Name each profile: {profile: NAME, ...}"
            )
        names.append(profile["profile"])
        algorithm = profile.get("algorithm", instance["algorithm"])
        if algorithm != "none" and not instance["drafter"]:
            _refuse(
                where, "algorithm", algorithm, "it needs a drafter and none is named", "Set drafter on the instance"
            )
        tp_size = profile.get("tp_size", instance["tp_size"])
        if tp_size > instance["tp_size"]:
            _refuse(
                where,
                "tp_size",
                tp_size,
                f"it is above the instance's own {instance['tp_size']}",
                "A profile goes down",
            )


def _distinct(instances: t.Sequence[t.Mapping[str, t.Any]]) -> None:
    for key in ("name", "port"):
        seen: dict[t.Any, int] = {}
        for number, instance in enumerate(instances):
            value = instance[key]
            if value == "auto":
                continue
            if value in seen:
                raise PlanError(
                    f"dflash_instances[{number}]: {key} = {_shown(value)}",
                    f"dflash_instances[{seen[value]}] ({instances[seen[value]]['name']}) has it already",
                    f"Give each instance of a host its own {key}",
                )
            seen[value] = number


def normalise(instances: t.Any, flat: t.Mapping[str, t.Any] | None = None) -> list[dict[str, t.Any]]:
    """Check `dflash_instances`, or the flat options when it is empty, and return complete instances.

    Raises PlanError naming the value, the reason and the way out. `port: auto` and `gpus: auto` stay for the planner.
    """
    flat = {str(key): value for key, value in (flat or {}).items() if not _blank(value)}
    _unknown_keys("flat options", flat, tuple(FLAT_OPTIONS))
    if _blank(instances):
        instances = []
    if isinstance(instances, dict):
        raise PlanError("dflash_instances", "it is one mapping, not a list", "Put '- ' before its first key")
    if not isinstance(instances, (list, tuple)):
        raise PlanError(
            f"dflash_instances = {_shown(instances)}", f"it is of type {type(instances).__name__}", "Give a list"
        )
    if instances and flat:
        raise PlanError(
            f"{', '.join(sorted(flat))} beside dflash_instances",
            "the flat options describe a single instance and would be ambiguous here",
            "Set the values inside dflash_instances, or leave dflash_instances empty",
        )
    if flat:
        instances = [{FLAT_OPTIONS[key]: value for key, value in flat.items()}]
    result = [
        _instance(f"dflash_instances[{number}]" if not flat else "flat options", given, lone=len(instances) == 1)
        for number, given in enumerate(instances)
    ]
    for instance in result:
        _check_profiles(instance)
    _distinct(result)
    return result
