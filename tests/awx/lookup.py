# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stand-in of awx.awx.controller_api: the organisations named in AWX_ORGANIZATIONS exist, separated by commas."""

from __future__ import annotations

import os
import typing as t

from ansible.plugins.lookup import LookupBase


class LookupModule(LookupBase):
    def run(self, terms: list[str], variables: t.Any = None, **options: t.Any) -> list[dict[str, str]]:
        if terms != ["organizations"]:
            raise ValueError(f"the stand-in knows no {terms}")
        wanted = options["query_params"]["name"]
        return [{"name": name} for name in os.environ["AWX_ORGANIZATIONS"].split(",") if name == wanted]
