# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filters of role models: parse references, and tell where each one ended up."""

from __future__ import annotations

import os
import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.inferlab.dflash.plugins.module_utils._models import reference


def model_reference(text: str, builtin: str = "", cache: str = "~/.cache/inferlab-dflash") -> dict[str, t.Any]:
    """Parsed model reference; ``source`` is the directory on the control node that the model is taken from."""
    try:
        parsed = reference.parse(text)
    except reference.ReferenceError as error:
        raise AnsibleFilterError(str(error)) from error
    sources = {
        "builtin": f"{builtin}/{parsed.location.partition('-')[2]}",
        "hub": f"{cache}/hub/{parsed.name}",
        "host": f"{cache}/hosts/{parsed.host}/{parsed.name}",
    }
    source = os.path.expanduser(sources.get(parsed.kind, parsed.location))
    return {**parsed._asdict(), "reference": text, "source": source}


def model_paths(results: t.Iterable[t.Mapping[str, t.Any]]) -> dict[str, str]:
    """Reference to directory on the host, from the loop results of model_stage."""
    return {str(entry["item"]["reference"]): str(entry["path"]) for entry in results if "path" in entry}


class FilterModule:
    """Ansible's entry point."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"model_paths": model_paths, "model_reference": model_reference}
