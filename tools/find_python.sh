#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Print the path of a working Python X.Y (the distribution's, then the first on PATH, then pyenv's and uv's folders), or exit with 1.
set -euo pipefail
version=$1
# The distribution's is built with profile-guided optimisation; one that pyenv compiled is not, and takes half as long again.
for candidate in "/usr/bin/python$version" "$(command -v "python$version" || true)" "/usr/local/bin/python$version" \
  "$HOME"/.pyenv/versions/"$version".*/bin/"python$version" "$HOME"/.local/share/uv/python/cpython-"$version".*/bin/"python$version"; do
  # A shim may exist for a version that does not answer; `-c` is what tells.
  if [ -x "$candidate" ] && "$candidate" -c 'import ensurepip, ssl, venv' >/dev/null 2>&1; then
    echo "$candidate"
    exit 0
  fi
done
exit 1
