# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Modules of this collection that are imported when they are first used.

Ansible imports every filter plugin of a collection in every worker process, that is, once a task, and compiles collection code
from source each time. What a filter imports at its top is paid for by every task of a play, so the larger parts wait until they
are called.
"""

from __future__ import annotations

import importlib
import typing as t

PREFIX = "ansible_collections.inferlab.dflash.plugins."


class Lazy:
    """Stands for the module ``name`` (below ``plugins``, such as ``module_utils._tune.plan``)."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> t.Any:
        return getattr(importlib.import_module(PREFIX + self._name), attribute)
