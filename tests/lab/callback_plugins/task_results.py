# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes one JSON line a task result to the file named by TASK_RESULTS, for the tests in this directory."""

from __future__ import annotations

DOCUMENTATION = r"""
name: task_results
type: notification
short_description: One JSON line a task result
description:
  - Appends host, task, changed, failed and message of each result to the file named by the environment variable TASK_RESULTS.
author: inferlab.dflash contributors (@inferlab)
"""

import json
import os

from ansible.plugins.callback import CallbackBase


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "task_results"

    def _write(self, result, failed):
        body = result.result if hasattr(result, "result") else result._result
        task = result.task if hasattr(result, "task") else result._task
        host = result.host if hasattr(result, "host") else result._host
        line = {
            "host": host.get_name(),
            "task": task.get_name(),
            "changed": bool(body.get("changed")),
            "failed": failed,
            "msg": str(body.get("msg", "")),
        }
        with open(os.environ["TASK_RESULTS"], "a", encoding="utf-8") as stream:
            stream.write(json.dumps(line) + "\n")

    def v2_runner_on_ok(self, result):
        self._write(result, False)

    def v2_runner_on_failed(self, result, ignore_errors=False):
        self._write(result, True)
