# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stands in for each module of awx.awx while playbook awx is checked: keeps the arguments, talks to no controller.

tests/awx/check.py copies this file to plugins/action/MODULE.py of a stand-in collection.
"""

from __future__ import annotations

import json
import os

from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):
    _supports_check_mode = True
    _VALID_ARGS = None

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        entry = {"module": self._task.action.rpartition(".")[2], "arguments": self._task.args}
        with open(os.environ["AWX_RECORD"], "a", encoding="utf-8") as stream:
            stream.write(json.dumps(entry, default=str) + "\n")
        return {**result, "changed": False}
