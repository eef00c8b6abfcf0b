# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Thirty requests that every worker refuses, then one that none does: the statuses as JSON. usage: refused.py URL KEY_FILE"""

from __future__ import annotations

import json
import sys
import urllib.error
import urllib.request

url, key_file = sys.argv[1:]
with open(key_file, encoding="utf-8") as stream:
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {stream.read().strip()}"}


def status(prompt):
    body = json.dumps({"model": "nano", "prompt": prompt, "max_tokens": 1}).encode()
    try:
        request = urllib.request.Request(url + "/v1/completions", body, headers)
        return urllib.request.urlopen(request, timeout=60).status
    except urllib.error.HTTPError as error:
        return error.code


refused = [status("refuse this") for dummy in range(30)]
print(json.dumps({"refused": sorted(set(refused)), "then": status("x")}))
