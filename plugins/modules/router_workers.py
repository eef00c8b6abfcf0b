#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: router_workers
short_description: Give a running router exactly the wanted workers
version_added: 1.0.0
description:
  - Compares the workers of a running sglang-router with the wanted ones, adds and removes the difference through the
    router's own API, and waits until every wanted worker is healthy.
  - A removed worker gets no further request; those that it has are finished. The router is not restarted.
author:
  - inferlab.dflash contributors (@inferlab)
options:
  url:
    description: Base address of the router.
    type: str
    default: http://127.0.0.1:30080
  workers:
    description: Addresses of the workers, as C(http://HOST:PORT).
    type: list
    elements: str
    required: true
  api_key_file:
    description: File on the host with the router's API key. The key is sent, never logged or returned.
    type: path
  timeout:
    description: Seconds to wait for the router and its workers.
    type: int
    default: 120
  at_least:
    description:
      - How many of the workers must be healthy in the end. By default all of them.
    type: int
attributes:
  check_mode:
    support: full
    description: Says what would be added and removed. A router that does not run is no failure there.
  diff_mode:
    support: full
    description: Shows the list of workers before and after.
"""

EXAMPLES = r"""
- name: Serve from two instances
  inferlab.dflash.router_workers:
    workers:
      - http://192.0.2.10:30000
      - http://192.0.2.11:30000
    api_key_file: /etc/dflash/router/api_key
"""

RETURN = r"""
added:
  description: Workers that were added, or would be.
  type: list
  elements: str
  returned: always
removed:
  description: Workers that were removed, or would be.
  type: list
  elements: str
  returned: always
unhealthy:
  description: Wanted workers that were not healthy in the end.
  type: list
  elements: str
  returned: always
"""

import json
import time
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.urls import open_url
from ansible_collections.inferlab.dflash.plugins.module_utils._router import workers


class Router:
    """The part of the router's API that is needed here."""

    def __init__(self, url: str, key: str | None) -> None:
        self.url = url.rstrip("/")
        self.headers = {"Content-Type": "application/json"}
        if key:
            self.headers["Authorization"] = f"Bearer {key}"

    def call(self, method: str, path: str, body: t.Any = None) -> t.Any:
        """One request; raises OSError (which HTTPError is) when it fails."""
        data = None if body is None else json.dumps(body)
        reply = open_url(self.url + path, method=method, data=data, headers=self.headers, timeout=10, use_proxy=False)
        text = reply.read()
        return json.loads(text) if text else None

    def listed(self) -> list[dict[str, t.Any]]:
        """The router's workers."""
        return list((self.call("GET", "/workers") or {}).get("workers") or [])


def wait_for_list(router: Router, deadline: float) -> list[dict[str, t.Any]]:
    """The workers as soon as the router answers; raises OSError after the deadline."""
    while True:
        try:
            return router.listed()
        except (OSError, ValueError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)


def settle(router: Router, wanted: list[str], enough: int, deadline: float) -> list[str]:
    """Wait until enough wanted workers are healthy and no unwanted one is left; the unhealthy ones of the end."""
    while True:
        listed = router.listed()
        absent = workers.missing(listed, wanted)
        done = len(set(wanted)) - len(absent) >= enough and not workers.plan(listed, wanted)["remove"]
        if done or time.monotonic() > deadline:
            return absent
        time.sleep(0.5)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "url": {"type": "str", "default": "http://127.0.0.1:30080"},
            "workers": {"type": "list", "elements": "str", "required": True},
            "api_key_file": {"type": "path", "no_log": False},
            "timeout": {"type": "int", "default": 120},
            "at_least": {"type": "int"},
        },
        supports_check_mode=True,
    )
    result: dict[str, t.Any] = {"changed": False, "added": [], "removed": [], "unhealthy": []}
    try:
        wanted = [workers.address(url) for url in module.params["workers"]]
        key = None
        if module.params["api_key_file"]:
            with open(module.params["api_key_file"], encoding="utf-8") as stream:
                key = stream.read().strip()
        router = Router(module.params["url"], key)
        deadline = time.monotonic() + (0 if module.check_mode else module.params["timeout"])
        listed = wait_for_list(router, deadline)
    except (OSError, ValueError) as exc:
        if module.check_mode and isinstance(exc, OSError):
            # The unit that would serve it does not run yet; it starts with the wanted workers.
            module.exit_json(**result)
        module.fail_json(msg=f"router at {module.params['url']}: {exc}", **result)
    difference = workers.plan(listed, wanted)
    result.update(added=difference["add"], removed=list(difference["remove"]))
    result["changed"] = bool(result["added"] or result["removed"])
    before = sorted(str(worker["url"]) for worker in listed)
    result["diff"] = {"before": "".join(f"{u}\n" for u in before), "after": "".join(f"{u}\n" for u in sorted(wanted))}
    if module.check_mode:
        module.exit_json(**result)
    try:
        for url in difference["add"]:
            # The router asks a worker with the key that was registered for it, not with its own.
            router.call("POST", "/workers", {"url": url, **({"api_key": key} if key else {})})
        for identifier in difference["remove"].values():
            router.call("DELETE", f"/workers/{identifier}")
        enough = module.params["at_least"] if module.params["at_least"] is not None else len(set(wanted))
        result["unhealthy"] = settle(router, wanted, enough, deadline)
    except (OSError, ValueError) as exc:
        module.fail_json(msg=f"router at {module.params['url']}: {exc}", **result)
    if len(set(wanted)) - len(result["unhealthy"]) < enough:
        lost = ", ".join(result["unhealthy"])
        module.fail_json(msg=f"the router does not reach {lost} within {module.params['timeout']} s", **result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
