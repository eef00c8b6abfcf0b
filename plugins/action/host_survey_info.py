# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The control node's side of host_survey_info: asks a host for little more CPU than the survey itself takes."""

from __future__ import annotations

import shlex
from typing import Any

from ansible import constants as C
from ansible.plugins.action import ActionBase
from ansible_collections.inferlab.dflash.plugins.module_utils._survey.answer import ARGUMENTS
from ansible_collections.inferlab.dflash.plugins.plugin_utils._survey import program

# Ansible loads this file before it forks for each host: what all hosts are sent is made once.
MODULES = program.packed()


class ActionModule(ActionBase):
    """Sends the survey to a host's Python as a bare program where that is sure to be the same, else runs the module."""

    _requires_connection = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        said = self._bare(task_vars or {}) or self._execute_module(task_vars=task_vars)
        return {**result, **said}

    def _bare(self, task_vars: dict[str, Any]) -> dict[str, Any] | None:
        """The program's answer, or None: the module will say what is wrong, and finds an interpreter where none is known."""
        python = self._python(task_vars)
        elsewhere = self._task.async_val or self._task.delegate_to or "root" in self._task.args
        if not python or elsewhere or not self._is_pipelining_enabled("new", False):
            return None
        _result, given = self.validate_argument_spec(argument_spec=ARGUMENTS)
        text, sent = program.program(given, MODULES)
        command = f"{self._compute_environment_string()} {python} -B -c {shlex.quote(text)}".strip()
        done = self._low_level_execute_command(command, in_data=sent)
        return program.answer(done["stdout"]) if done["rc"] == 0 else None

    def _python(self, task_vars: dict[str, Any]) -> str | None:
        """The interpreter's words, quoted, where it is set or was discovered before."""
        given = C.config.get_config_value("INTERPRETER_PYTHON", variables=task_vars)
        name = str(self._templar.template(given) or "auto")
        if name.startswith("auto"):
            name = str((task_vars.get("ansible_facts") or {}).get("discovered_interpreter_python") or "")
        return shlex.join(shlex.split(name)) or None
