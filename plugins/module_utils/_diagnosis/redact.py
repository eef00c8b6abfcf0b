# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Remove secrets and prompts from text before it leaves the host."""

from __future__ import annotations

import re
from collections.abc import Iterable

MASK = "********"

# Keys whose value is a credential, as they appear in arguments, environment lines, JSON and Python reprs.
_KEY = (
    r"(?:api[-_]?key|access[-_]?token|auth[-_]?token|hf[-_]?token|hugging_?face_hub_token|secret[a-z_-]*"
    r"|passw(?:or)?d|passphrase|authorization)"
)
_PROMPT_KEY = r"(?:prompt|input_text|text|content|messages|prompt_token_ids|input_ids|output_ids)"
_QUOTED = r"\[.*?\]|'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\""
_PATTERNS = (
    # JSON / Python repr: "api_key": "x", 'api_key': 'x', api_key='x'
    (re.compile(rf"(?i)([\"']?[a-z_-]*{_KEY}[\"']?\s*[:=]\s*)([\"'])(?:(?!\2).)+\2"), r"\1\2" + MASK + r"\2"),
    # --api-key x, --api-key=x
    (re.compile(rf"(?i)(--[a-z-]*{_KEY}(?:\s+|=))(?!None\b|-)[^\s'\",;]+"), r"\1" + MASK),
    # API_KEY=x, Authorization: Bearer x
    (re.compile(r"(?i)(authorization\s*[:=]\s*(?:bearer|basic)\s+)[^\s'\",;]+"), r"\1" + MASK),
    (re.compile(rf"(?i)\b([a-z0-9_]*{_KEY}=)(?!None\b|['\"])[^\s'\",;]+"), r"\1" + MASK),
    (re.compile(r"(?i)\b(bearer\s+)[a-z0-9._~+/-]{8,}=*"), r"\1" + MASK),
    # Tokens with a recognisable shape, and user:password@ in addresses.
    (re.compile(r"\b(?:hf_|sk-|ghp_|github_pat_)[A-Za-z0-9_-]{16,}"), MASK),
    (re.compile(r"(://[^/\s:@]+:)[^/\s@]+(@)"), r"\1" + MASK + r"\2"),
    # Prompts and answers of users, as request loggers print them.
    (re.compile(rf"(?i)([\"']?\b{_PROMPT_KEY}[\"']?\s*[:=]\s*)({_QUOTED})"), r"\1<removed>"),
)


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """Return I(text) without credentials, user prompts, and without every value in I(secrets) verbatim."""
    for secret in secrets:
        if secret and len(secret) >= 4:
            text = text.replace(secret, MASK)
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text


def redact_lines(lines: Iterable[str], secrets: Iterable[str] = ()) -> list[str]:
    """L(redact, redact) over a list of lines."""
    known = tuple(secrets)
    return [redact(line, known) for line in lines]
