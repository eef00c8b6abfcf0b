# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A scripted engine: takes SGLang's command line, answers like it, and dies as /opt/scripted/faults.json tells it.

That file maps words of the command line, such as "--tp-size 2", to the lines that a dying engine writes.
"""

from __future__ import annotations

import argparse
import http.server
import json
import os
import signal
import sys

FAULTS = "/opt/scripted/faults.json"

parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("--host", required=True)
parser.add_argument("--port", type=int, required=True)
parser.add_argument("--served-model-name", required=True)
parser.add_argument("--model-path", required=True)
parser.add_argument("--speculative-algorithm")
OPTIONS, _others = parser.parse_known_args()


def die_as_told() -> None:
    if not os.path.exists(FAULTS):
        return
    with open(FAULTS, encoding="utf-8") as stream:
        faults = json.load(stream)
    for words, lines in faults.items():
        if words in " ".join(sys.argv):
            print("\n".join(lines), file=sys.stderr, flush=True)
            # As SGLang ends itself after a crash of its scheduler.
            os.kill(os.getpid(), signal.SIGKILL)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_arguments: object) -> None:
        pass

    def answer(self, body: object) -> None:
        content = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_GET(self) -> None:
        models = {"object": "list", "data": [{"id": OPTIONS.served_model_name, "object": "model"}]}
        self.answer(models if self.path == "/v1/models" else {})

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        tokens = int(asked.get("max_tokens") or 1)
        usage = {"prompt_tokens": 4, "completion_tokens": tokens, "total_tokens": 4 + tokens}
        if OPTIONS.speculative_algorithm:
            usage |= {"acceptance_length": 3.5, "verify_rounds": max(1, tokens // 3)}
        choice = {"index": 0, "text": " one" * tokens, "finish_reason": "length"}
        choice["message"] = {"role": "assistant", "content": choice["text"]}
        self.answer(
            {
                "id": "1",
                "object": "text_completion",
                "model": OPTIONS.served_model_name,
                "choices": [choice],
                "usage": usage,
            }
        )


die_as_told()
http.server.ThreadingHTTPServer((OPTIONS.host, OPTIONS.port), Handler).serve_forever()
