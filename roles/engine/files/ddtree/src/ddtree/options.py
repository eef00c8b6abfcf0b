# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""The command line of `ddtree.server`, without what the server itself imports."""

from __future__ import annotations

import argparse
from pathlib import Path

ALGORITHMS = ("none", "dflash", "ddtree")
DTYPES = ("float32", "bfloat16", "float16")


def arguments() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m ddtree.server", description="OpenAI-compatible server over ddtree.generate.", allow_abbrev=False
    )
    parser.add_argument("--model", required=True, metavar="DIR", help="target checkpoint with its tokenizer")
    parser.add_argument("--drafter", metavar="DIR", help="DFlash drafter checkpoint; needed by dflash and ddtree")
    parser.add_argument("--algorithm", choices=ALGORITHMS, default="ddtree")
    parser.add_argument("--budget", type=int, default=16, help="nodes of a draft tree, root excluded (ddtree)")
    parser.add_argument("--block-size", type=int, help="rows of a drafted block; default: the drafter's own")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=30000)
    parser.add_argument("--served-model-name", metavar="NAME", help="default: the name of the model's directory")
    parser.add_argument(
        "--dtype", choices=["auto", *DTYPES], default="auto", help="auto: float32 on CPU, else bfloat16"
    )
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")
    parser.add_argument("--max-queue", type=int, default=64, help="requests that may wait; more get status 429")
    parser.add_argument("--max-batch", type=int, default=8, help="requests that are generated at the same time")
    parser.add_argument("--context-length", type=int, help="prompt plus output, tokens; default: the model's")
    parser.add_argument("--seed", type=int, help="seed of requests that name none; default: a new one each time")
    parser.add_argument("--api-key-file", type=Path, help="default: api_key in $CREDENTIALS_DIRECTORY, if it is there")
    parser.add_argument("--drain-timeout", type=int, default=60, help="seconds to finish requests after SIGTERM")
    return parser
