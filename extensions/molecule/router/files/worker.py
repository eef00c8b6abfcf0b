# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A worker as the router sees one: the routes of an instance, one answer a request, an API key. usage: worker.py PORT NAME"""

from __future__ import annotations

import http.server
import json
import os
import sys
import time

PORT, NAME = int(sys.argv[1]), sys.argv[2]
KEY = os.environ["WORKER_KEY"]
MODELS = {"object": "list", "data": [{"id": "nano", "object": "model"}]}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_args):
        pass

    def answer(self, status, body):
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def allowed(self):
        if self.headers.get("Authorization") == f"Bearer {KEY}":
            return True
        self.answer(401, {"error": {"message": "missing or wrong API key"}})
        return False

    def do_GET(self):
        if self.path in ("/health", "/health_generate"):
            self.answer(200, {})
        elif self.allowed():
            known = {"/v1/models": MODELS, "/server_info": {"served_model_name": "nano"}}
            self.answer(*((200, known[self.path]) if self.path in known else (404, {"error": {"message": self.path}})))

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if b"refuse this" in body:
            self.answer(400, {"error": {"message": "as asked"}})
        elif self.allowed():
            time.sleep(0.02)
            choice = {"index": 0, "text": NAME, "finish_reason": "length"}
            usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
            self.answer(
                200, {"id": "1", "object": "text_completion", "model": "nano", "choices": [choice], "usage": usage}
            )


http.server.ThreadingHTTPServer(("127.0.0.1", PORT), Handler).serve_forever()
