#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Resolve requirements/dev.in once per supported ansible-core and write the pinned sets that `make setup` installs.
# usage: tools/pin_dev.sh PYTHON CORE_SPEC OUTPUT    e.g. tools/pin_dev.sh python3.11 'ansible-core>=2.19,<2.20' requirements/dev-core219.txt
set -euo pipefail
python=$1 core=$2 output=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$python" -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --upgrade pip
"$work/venv/bin/pip" install --quiet "$core" --requirement requirements/dev.in
{
  head -n 2 requirements/dev.in
  echo "# Written by tools/pin_dev.sh from requirements/dev.in with $core; do not edit."
  "$work/venv/bin/pip" freeze --all --exclude pip --exclude setuptools
} >"$output"
