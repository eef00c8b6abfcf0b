# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The server's API key, for modules that talk to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule


def read_key(module: AnsibleModule, required: bool = True) -> str | None:
    """The key in the file that the option api_key_file names, hidden from every output.

    None where no file is named, or where it is not there and I(required) is false: a server may have no key.
    """
    path = module.params["api_key_file"]
    if path is None:
        return None
    try:
        with open(path, encoding="utf-8") as stream:
            key = stream.read().strip()
    except FileNotFoundError as exc:
        if not required:
            return None
        module.fail_json(msg=f"api_key_file {path}: {exc.strerror}")
    except OSError as exc:
        module.fail_json(msg=f"api_key_file {path}: {exc.strerror}")
    if key:
        module.no_log_values.add(key)
    return key or None
