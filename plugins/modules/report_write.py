#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: report_write
short_description: Write the report of a run on the control node
version_added: 1.0.0
description:
  - Writes C(<dir>/<kind>/latest.json) and C(latest.html), and a dated copy of both whenever the report says something new.
  - A report that differs from the previous one only in its time is left as it is. One that differs only in the keys named
    by O(volatile) is written but is not a change.
  - The page carries its style sheet and pictures, runs no script and loads nothing. Everything in it is escaped.
  - Files are written whole or not at all. Runs on the control node, whatever host the task is for.
author:
  - inferlab.dflash contributors (@inferlab)
options:
  kind:
    description: What is reported.
    type: str
    required: true
    choices: [deploy, survey, benchmark, diagnose]
  hosts:
    description: Host names mapped to what is reported of each.
    type: dict
    required: true
  dir:
    description: Directory on the control node; each kind has its own folder in it.
    type: path
    required: true
  title:
    description: Heading of the page; empty for the kind's own.
    type: str
    default: ''
  extra:
    description: Further top-level keys of the report, for example C(findings) or C(figures).
    type: dict
    default: {}
  volatile:
    description: Keys, at any depth, that are measured anew each time and whose new values alone are no change.
    type: list
    elements: str
    default: []
  files:
    description: Further files to write beside the report, file names mapped to their text.
    type: dict
    default: {}
attributes:
  check_mode:
    support: full
    description: Says what would change and writes nothing.
  diff_mode:
    support: full
    description: Shows the difference of the data, not that of the page.
"""

EXAMPLES = r"""
- name: Report two hosts
  inferlab.dflash.report_write:
    kind: deploy
    dir: /srv/reports
    hosts:
      a: {state: serving}
      b: {state: refused, code: wrong_machine}
  run_once: true
"""

RETURN = r"""
json:
  description: Path of the report's data.
  returned: success
  type: str
html:
  description: Path of the report's page.
  returned: success
  type: str
generated:
  description: UTC time of the report that now lies there.
  returned: success
  type: str
"""
