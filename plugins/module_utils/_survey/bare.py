# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The survey without Ansible's module code, as a program that a host's Python executes from its standard input.

Importing ansible.module_utils.basic costs a host two thirds of what a whole survey does. The action plugin sends this file, the
options, and the collection's modules: they are imported from memory, and nothing is written on the host.
"""

from __future__ import annotations

import binascii
import gc
import json
import os
import sys
import zlib
from importlib.machinery import ModuleSpec

MARK = "host_survey_info:"
"""Begins the line that holds the answer; what a login prints beside it is not ours."""


class Memory:
    """Imports modules from {name: source or compiled code}; a name with others below it is a package."""

    def __init__(self, modules):
        self.modules = modules
        self.packages = {name.rpartition(".")[0] for name in modules}

    def find_spec(self, name, path=None, target=None):
        return ModuleSpec(name, self, is_package=name in self.packages) if name in self.modules else None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        code = self.modules[module.__name__]
        if isinstance(code, str):
            code = compile(code, module.__name__, "exec", dont_inherit=True)
        exec(code, module.__dict__)


def modules(lines):
    """Read {name: code} from the line whose first word is this Python's own magic number, else {name: source} from the last one."""
    from importlib import _bootstrap_external as loader

    for line in lines:
        magic, dummy, packed = line.partition(" ")
        if magic == binascii.hexlify(loader.MAGIC_NUMBER).decode():
            import marshal

            return marshal.loads(zlib.decompress(binascii.a2b_base64(packed)))
    return json.loads(zlib.decompress(binascii.a2b_base64(lines[-1])))


def main(name, sent):
    """Write the answer of module `name`, from lines as program.program writes them."""
    # So short a life is over before collecting would pay.
    gc.disable()
    given, *packed = sent.splitlines()
    sys.meta_path.insert(0, Memory(modules(packed)))
    module = __import__(name, fromlist=["answer"])
    try:
        said = dict(module.answer(json.loads(given)), changed=False)
    except ValueError as exc:
        said = {"failed": True, "changed": False, "msg": str(exc)}
    sys.stdout.write(f"{MARK}{json.dumps(said)}\n")
    sys.stdout.flush()
    # Not sys.exit: taking every module apart again is a tenth of all that this Python does.
    os._exit(0)
