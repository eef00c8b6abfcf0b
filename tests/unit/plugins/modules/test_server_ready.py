# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""server_ready against a real HTTP server, with a unit that the test makes up."""

from __future__ import annotations

import http.server
import json
import threading
import typing as t

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.inferlab.dflash.plugins.modules import server_ready

UP = {"LoadState": "loaded", "ActiveState": "active", "SubState": "running", "NRestarts": "0"}
DEAD = {"LoadState": "loaded", "ActiveState": "failed", "Result": "exit-code", "NRestarts": "0"}
KEY = "marked-key-7f3a"


class FakeHost:
    """A unit in a fixed state whose journal ends in an error."""

    state = UP

    def __init__(self, unit):
        self.unit = unit

    def show(self):
        return self.state

    def new_lines(self):
        return []

    def activity(self, unit):
        return {}

    def journal_tail(self, lines):
        return [f"Authorization: Bearer {KEY}", "torch.OutOfMemoryError: CUDA out of memory."][:lines]


class Handler(http.server.BaseHTTPRequestHandler):
    acceptance = None
    asked: t.ClassVar[list] = []

    def do_GET(self):
        self.answer({"data": [{"id": "named"}]})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append({**body, "authorization": self.headers.get("Authorization")})
        usage = {"completion_tokens": body["max_tokens"]}
        if self.acceptance is not None:
            usage["acceptance_length"] = self.acceptance
        self.answer({"choices": [{"text": "x"}], "usage": usage})

    def answer(self, document):
        data = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *arguments):
        return


@pytest.fixture
def url(monkeypatch):
    monkeypatch.setattr(Handler, "asked", [])
    monkeypatch.setattr(Handler, "acceptance", None)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def run(monkeypatch, capsys, host=None, channels=None, **arguments):
    monkeypatch.setattr(FakeHost, "state", UP if host is None else host)
    monkeypatch.setattr(server_ready, "Host", FakeHost)
    monkeypatch.setattr(server_ready, "collect", lambda host, api_key: channels or {})
    with patch_module_args({"unit": "x.service", **arguments}), pytest.raises(SystemExit) as ended:
        server_ready.main()
    return json.loads(capsys.readouterr().out), ended.value.code


def test_ready_after_one_real_token(monkeypatch, capsys, url, tmp_path):
    key = tmp_path / "key"
    key.write_text(f"{KEY}\n")
    result, code = run(monkeypatch, capsys, url=url, api_key_file=str(key))
    assert (code, result["ready"], result["diagnosis"]) == (0, True, {"code": None})
    assert [(item["model"], item["max_tokens"]) for item in Handler.asked] == [("named", 1)]
    assert Handler.asked[0]["authorization"] == f"Bearer {KEY}"
    assert KEY not in json.dumps(result)


def test_collapsed_acceptance_fails(monkeypatch, capsys, url):
    monkeypatch.setattr(Handler, "acceptance", 1.0)
    result, code = run(monkeypatch, capsys, url=url, model="m", algorithm="ddtree")
    assert (code, result["ready"], result["diagnosis"]["code"]) == (1, False, "spec_acceptance_collapsed")
    assert [item["max_tokens"] for item in Handler.asked] == [1, 32, 32, 32]
    assert result["acceptance_length"] == 1.0


def test_good_acceptance_is_reported(monkeypatch, capsys, url):
    monkeypatch.setattr(Handler, "acceptance", 2.5)
    result, code = run(monkeypatch, capsys, url=url, algorithm="dflash")
    assert (code, result["acceptance_length"]) == (0, 2.5)


def test_a_dead_unit_ends_at_once_with_its_cause(monkeypatch, capsys, tmp_path):
    key = tmp_path / "key"
    key.write_text(KEY)
    channels = {"unit_journal": "torch.OutOfMemoryError: CUDA out of memory.\n", "unit_show": "ActiveState=failed\n"}
    result, code = run(monkeypatch, capsys, host=DEAD, channels=channels, timeout=600, api_key_file=str(key))
    assert (code, result["verdict"], result["diagnosis"]["code"]) == (1, "dead", "gpu_oom")
    assert "gpu_oom" in result["msg"]
    assert result["journal_tail"][1].startswith("torch.OutOfMemoryError")
    assert KEY not in json.dumps(result)


def test_check_mode_waits_for_nothing(monkeypatch, capsys):
    result, code = run(monkeypatch, capsys, host=DEAD, _ansible_check_mode=True)
    assert (code, result["skipped"], result["changed"]) == (0, True, False)


def test_a_missing_key_file_is_named(monkeypatch, capsys):
    result, code = run(monkeypatch, capsys, api_key_file="/nonexistent/key")
    assert code == 1 and "/nonexistent/key" in result["msg"]
