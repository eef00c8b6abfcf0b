#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Resolve one ansible-core with the packages of INPUT, and write the pinned set that `make setup` or a test step installs.
# usage: tools/pin_dev.sh PYTHON CORE_SPEC OUTPUT INPUT
#   tools/pin_dev.sh python3.11 'ansible-core>=2.19,<2.20' requirements/dev-core219.txt requirements/dev.in
#   tools/pin_dev.sh python3.12 'ansible-core>=2.21,<2.22' requirements/core221.txt requirements/units.in
set -euo pipefail
python=$1 core=$2 output=$3 input=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$python" -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --upgrade pip
"$work/venv/bin/pip" install --quiet "$core" --requirement "$input"
{
  head -n 2 requirements/dev.in
  echo "# Written by tools/pin_dev.sh from $input with $core; do not edit."
  "$work/venv/bin/pip" freeze --all --exclude pip --exclude setuptools
} >"$output"
