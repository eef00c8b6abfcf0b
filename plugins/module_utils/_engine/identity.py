# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a release is called: a hash over everything that decides its content."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

# Raised when the way a release is built changes so that an old one may not be reused.
LAYOUT = 1


def release_id(lock_name: str, lock_text: str, plugin_sha256: str, patches: list[Mapping[str, Any]]) -> str:
    """``<lock name>-<12 hex digits>``, from the lock's text, the plugin wheel's sha256 and the patches.

    The readable half is for people; equality of the whole string means equality of all inputs.
    """
    inputs = {
        "layout": LAYOUT,
        "lock": hashlib.sha256(lock_text.encode()).hexdigest(),
        "plugin": plugin_sha256,
        "patches": [dict(patch) for patch in patches],
    }
    digest = hashlib.sha256(json.dumps(inputs, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    return f"{lock_name}-{digest[:12]}"


def is_release_id(name: str) -> bool:
    """Whether a directory name can be a finished release (and not a half-built or replaced one)."""
    return re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*-[0-9a-f]{12}", name) is not None
