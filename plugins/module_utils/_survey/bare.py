# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The survey without Ansible's module code, as a program on Python's standard input.

Importing ansible.module_utils.basic costs a host two thirds of what a whole survey does. The action plugin sends this file, and in the
call at its end the collection's sources as text: they are imported from memory, and nothing is written on the host.
"""

from __future__ import annotations

import base64
import json
import sys
import zlib
from importlib.machinery import ModuleSpec

MARK = "host_survey_info:"
"""Begins the line that holds the answer; what a login prints beside it is not ours."""


class Memory:
    """Imports modules from {name: source}; a name with others below it is a package."""

    def __init__(self, sources):
        self.sources = sources
        self.packages = {name.rpartition(".")[0] for name in sources}

    def find_spec(self, name, path=None, target=None):
        return ModuleSpec(name, self, is_package=name in self.packages) if name in self.sources else None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        exec(compile(self.sources[module.__name__], module.__name__, "exec", dont_inherit=True), module.__dict__)


def main(packed, name):
    """Write the answer of module `name` from base64 of zlib of JSON: {"sources": ..., "given": ...}."""
    sent = json.loads(zlib.decompress(base64.b64decode(packed)))
    sys.meta_path.insert(0, Memory(sent["sources"]))
    module = __import__(name, fromlist=["answer"])
    try:
        said = dict(module.answer(sent["given"]), changed=False)
    except ValueError as exc:
        said = {"failed": True, "changed": False, "msg": str(exc)}
    sys.stdout.write(f"{MARK}{json.dumps(said)}\n")
