# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter report_html: a report document to a page."""

from __future__ import annotations

DOCUMENTATION = r"""
name: report_html
author:
  - inferlab.dflash contributors (@inferlab)
version_added: 1.0.0
short_description: Render a report document as one self-contained HTML page
description:
  - Renders what P(inferlab.dflash.report_document#filter) built.
  - The page carries its style sheet and pictures, runs no script and loads nothing. All values are escaped.
positional: _input
options:
  _input:
    description: A report document.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Render a report
  ansible.builtin.copy:
    dest: /tmp/report.html
    mode: "0644"
    content: "{{ result.document | inferlab.dflash.report_html }}"
"""

RETURN = r"""
_value:
  description: The page.
  type: str
"""

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.inferlab.dflash.plugins.plugin_utils._report.document import ReportError, plain
from ansible_collections.inferlab.dflash.plugins.plugin_utils._report.page import render_page


def report_html(document: t.Any) -> str:
    """Render a report document; see DOCUMENTATION."""
    try:
        return render_page(plain(document))
    except ReportError as exc:
        raise AnsibleFilterError(f"report_html: {exc}") from exc


class FilterModule:
    """Ansible's entry point."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filters of this file."""
        return {"report_html": report_html}
