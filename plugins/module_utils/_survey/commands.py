# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a command line is, without repeating it: arguments can hold keys and prompts."""

from __future__ import annotations

import re
import typing as t

#: Kind to patterns over a whole command line, unit name or unit description; the first kind that matches is it.
PATTERNS: dict[str, list[str]] = {
    "ddtree": [r"\bddtree\b", r"\bdflash-[\w.@-]+\.service"],
    "sglang": [r"\bsglang\b", r"sglang::", r"\bsgl[-_](?:router|kernel)"],
    "vllm": [r"\bvllm\b", r"VLLM::"],
    "training": [
        r"\btorchrun\b",
        r"\bdeepspeed\b",
        r"\baccelerate\s+launch\b",
        r"\btorch\.distributed\.(?:run|launch)\b",
        r"\b(?:pre|fine)?[-_]?train(?:er|ing)?(?:[-_]\w+)?\.py\b",
        r"\b(?:axolotl|llamafactory|unsloth)\b",
    ],
    "serving": [
        r"\bollama\b",
        r"\bllama-server\b",
        r"\btritonserver\b",
        r"\btrtllm-serve\b",
        r"\blmdeploy\b",
        r"text-generation-\w+",
    ],
}

#: Options whose value says what a server is, and can hold no secret.
_TOLD = frozenset(
    [
        "model",
        "model-path",
        "model-name",
        "served-model-name",
        "drafter",
        "draft-model",
        "speculative-draft-model-path",
        "algorithm",
        "speculative-algorithm",
        "budget",
        "speculative-ddtree-budget",
        "host",
        "port",
        "tp",
        "tp-size",
        "tensor-parallel-size",
        "dp",
        "dp-size",
        "pipeline-parallel-size",
        "mem-fraction-static",
        "gpu-memory-utilization",
        "context-length",
        "max-model-len",
        "quantization",
        "dtype",
        "device",
        "nproc-per-node",
        "nproc_per_node",
        "config",
    ]
)
# Not compiled here: a host pays for each expression, and many hosts have nothing to use it on.
_PYTHON = r"^(?:python[\d.]*|pypy[\d.]*)$"
_SECRET_NAME = r"[\w-]*(?:key|token|secret|passw(?:or)?d|passphrase)"
_SECRETS = (
    (r"(://)[^/\s@]+@", r"\1"),
    (rf"(?i)(\b{_SECRET_NAME}\s*[=:]\s*)[^\s'\",;]+", r"\1********"),
    (rf"(?i)(--{_SECRET_NAME}\s+)[^\s'\",;]+", r"\1********"),
    (r"\b(?:hf_|sk-|ghp_|github_pat_)[A-Za-z0-9_-]{16,}", "********"),
)


def masked(text: str) -> str:
    """Return text without what looks like a credential.

    A second line of defence: command lines are told by a list of harmless options. The diagnosis' own, thorough redaction is
    not used here, because its package costs more to import than all the rest of a survey.
    """
    for pattern, replacement in _SECRETS:
        text = re.sub(pattern, replacement, text)
    return text


def compile_patterns(patterns: t.Mapping[str, t.Sequence[str]]) -> list[tuple[str, t.Pattern[str]]]:
    """Return (kind, pattern) pairs in order.

    Raises:
        ValueError: a pattern is no regular expression; the message names it.
    """
    compiled = []
    for kind, expressions in patterns.items():
        try:
            compiled.append(
                (
                    kind,
                    re.compile("|".join(f"(?:{expression})" for expression in expressions) or r"(?!)", re.IGNORECASE),
                )
            )
        except re.error as exc:
            raise ValueError(f"patterns.{kind}: {list(expressions)} is no list of regular expressions: {exc}") from exc
    return compiled


def kind_of(text: str, compiled: t.Sequence[tuple[str, t.Pattern[str]]]) -> str | None:
    """Return the kind of the first pattern found in `text`."""
    for kind, pattern in compiled:
        if pattern.search(text):
            return kind
    return None


def describe(argv: t.Sequence[str]) -> tuple[str, dict[str, str]]:
    """Return (command, options): program and script or module, and the options that say what it serves.

    >>> describe(["/opt/v/bin/python3", "-u", "-m", "sglang.launch_server", "--port", "30000", "--api-key", "x"])
    ('python3 -m sglang.launch_server', {'port': '30000'})
    """
    if not argv:
        return "", {}
    if len(argv) == 1 or " " in argv[0]:
        # A process that set its own title ("sglang::scheduler_TP0"): all in one string.
        # What follows a colon there counts things ("sshd: ... 0 of 10-100 startups") and is never twice the same.
        return masked(argv[0].split(": ")[0].strip())[:120], {}
    words = list(argv)
    program = words.pop(0).rsplit("/", 1)[-1]
    said = [program]
    while words and words[0].startswith("-") and re.match(_PYTHON, program):
        option = words.pop(0)
        if option == "-m" and words:
            said += ["-m", words.pop(0)]
            break
        if option == "-c":
            said += ["-c", "..."]
            words = words[1:]
            break
        if option in ("-W", "-X") and words:
            words.pop(0)
    else:
        script = next((word for word in words[:1] if not word.startswith("-")), None)
        if script:
            said.append(script)
            words.remove(script)
    script = next((word for word in words if word.endswith(".py")), None)
    if script and not any(part.endswith(".py") for part in said):
        said.append(script)
    return masked(" ".join(said))[:200], told_options(words)


def told_options(words: t.Sequence[str]) -> dict[str, str]:
    """Return the harmless options among the arguments; every other one is left out."""
    options: dict[str, str] = {}
    for index, word in enumerate(words):
        if not word.startswith("--"):
            continue
        name, given, value = word[2:].partition("=")
        if name in _TOLD:
            following = words[index + 1] if not given and index + 1 < len(words) else value
            if following and not following.startswith("--"):
                options[name.replace("_", "-")] = masked(following)[:200]
    return options
