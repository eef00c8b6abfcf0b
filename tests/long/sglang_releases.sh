#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# The plugin and the rendered launch lines against the real releases of SGLang, without a GPU; see sglang_releases.py.
# usage: tests/long/sglang_releases.sh [--only lines|api|tests] [VERSION ...]     (default: everything, every known release)
set -euo pipefail
cd "$(dirname "$0")/../.."
tools/setup.sh base
tools/setup.sh torch
PYTHONPATH=.collections:roles/engine/files/ddtree/src exec .venv/bin/python tests/long/sglang_releases.py "$@"
