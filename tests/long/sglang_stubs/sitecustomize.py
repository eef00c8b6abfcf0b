# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Empty stand-ins for what SGLang imports and a machine without a GPU cannot: any attribute of theirs is an empty class.

Found only where nothing real of the name is. Loaded by Python itself when this folder is on PYTHONPATH.
"""

from __future__ import annotations

import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

NAMES = {"sgl_kernel", "flashinfer", "torchvision", "xgrammar", "IPython", "soundfile", "cuda", "decord"}


class Anything(type):
    def __getattr__(cls, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything(name, (), {})

    def __getitem__(cls, dummy: object) -> type:
        return cls

    def __or__(cls, dummy: object) -> type:
        return cls

    __ror__ = __or__


class Stub(ModuleType):
    __version__ = "0.0.0"
    __file__ = "stub"

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        bases: tuple[type, ...] = ()
        if name == "StructuralTag":  # a field type of a request
            from pydantic import BaseModel

            return type(name, (BaseModel,), {})
        return Anything(name, bases, {})


class Finder(MetaPathFinder, Loader):
    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        return ModuleSpec(fullname, self, is_package=True) if fullname.split(".")[0] in NAMES else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return Stub(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        return None


sys.meta_path.append(Finder())
