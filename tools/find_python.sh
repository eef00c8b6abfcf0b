#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Print the path of a working Python X.Y (first on PATH, then pyenv's and uv's folders), or exit with 1.
set -euo pipefail
version=$1
for candidate in "$(command -v "python$version" || true)" "/usr/bin/python$version" "/usr/local/bin/python$version" \
  "$HOME"/.pyenv/versions/"$version".*/bin/"python$version" "$HOME"/.local/share/uv/python/cpython-"$version".*/bin/"python$version"; do
  # A shim may exist for a version that does not answer; `-c` is what tells.
  if [ -x "$candidate" ] && "$candidate" -c 'import ensurepip, ssl, venv' >/dev/null 2>&1; then
    echo "$candidate"
    exit 0
  fi
done
exit 1
