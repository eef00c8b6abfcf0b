#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# A release killed at random moments, again and again; see engine_kills.py.
set -euo pipefail
cd "$(dirname "$0")/../.."
PYTHONPATH=.collections exec .venv/bin/python tests/long/engine_kills.py "${1:-24}"
