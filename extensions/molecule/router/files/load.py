# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Load on the router until a file appears, then the counts as JSON. usage: load.py URL KEY_FILE STOP_FILE MARK_FILE

A request that begins after MARK_FILE exists and fails counts as ``failed_after_mark``.
"""

from __future__ import annotations

import collections
import json
import os
import sys
import threading
import urllib.request

url, key_file, stop, mark = sys.argv[1:]
with open(key_file, encoding="utf-8") as stream:
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {stream.read().strip()}"}
counts: collections.Counter[str] = collections.Counter()
lock = threading.Lock()
failures: list[str] = []


def client(number):
    turn = 0
    while not os.path.exists(stop):
        turn += 1
        after = os.path.exists(mark)
        body = json.dumps({"model": "nano", "prompt": f"{number} {turn}", "max_tokens": 1}).encode()
        try:
            reply = urllib.request.urlopen(urllib.request.Request(url + "/v1/completions", body, headers), timeout=60)
            name = json.load(reply)["choices"][0]["text"]
        except (OSError, ValueError, KeyError) as error:
            name = "failed_after_mark" if after else "failed_before_mark"
            with lock:
                failures.append(repr(error))
        with lock:
            counts[f"{name}_after_mark" if after and not name.startswith("failed") else name] += 1


threads = [threading.Thread(target=client, args=(number,)) for number in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(json.dumps({"counts": counts, "failures": failures[:10]}))
