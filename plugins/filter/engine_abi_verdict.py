# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter engine_abi_verdict: whether a release, the driver and the GPUs fit together."""

from __future__ import annotations

DOCUMENTATION = r"""
name: engine_abi_verdict
author: inferlab.dflash contributors (@inferlab)
version_added: 1.0.0
short_description: Judge what the compatibility probe of an engine release printed
description:
  - Turns the output of role engine's C(abi_probe.py), run by a release's own Python, into diagnosis codes.
  - Judges that the compiled packages import together, that the driver is new enough, that the kernels cover each GPU, and
    that the tools for kernels compiled at run time are on the unit's PATH.
positional: _input, lock_text
options:
  _input:
    description: Standard output of the probe.
    type: str
    required: true
  lock_text:
    description: Text of the lock that the release was made from.
    type: str
    required: true
  status:
    description: Exit status of the probe.
    type: int
    default: 0
"""

EXAMPLES = r"""
- name: Refuse a release that does not fit this host
  ansible.builtin.assert:
    that: (probe.stdout | inferlab.dflash.engine_abi_verdict(lock, probe.rc)).ok
"""

RETURN = r"""
_value:
  description:
    - Mapping with C(ok), C(code), C(cause), C(summary) and C(findings). Each finding has C(code), C(cause), C(evidence)
      and C(remedy); the one that lies deepest comes first.
  type: dict
"""

import json
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.inferlab.dflash.plugins.module_utils._engine.errors import EngineError
from ansible_collections.inferlab.dflash.plugins.plugin_utils._lazy import Lazy

abi = Lazy("module_utils._engine.abi")
lock = Lazy("module_utils._engine.lock")


def engine_abi_verdict(output: str, lock_text: str, status: int = 0) -> dict[str, Any]:
    """The probe's output, a lock and the probe's exit status -> ok, code, cause, summary, findings."""
    if not isinstance(output, str) or not isinstance(lock_text, str):
        raise AnsibleFilterError("engine_abi_verdict takes the probe's output and the lock's text, both as strings")
    try:
        cuda = lock.parse(lock_text).cuda
    except EngineError as error:
        raise AnsibleFilterError(f"engine_abi_verdict: {error}") from error
    return abi.judge(_records(output), cuda, status)


def _records(output: str) -> list[dict[str, Any]]:
    """The JSON lines of the probe; what imported modules print in between is not ours."""
    records = []
    for line in output.splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict) and "kind" in record:
            records.append(record)
    return records


class FilterModule:
    """Registers the filter under its FQCN."""

    def filters(self) -> dict[str, Any]:
        return {"engine_abi_verdict": engine_abi_verdict}
