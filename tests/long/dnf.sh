#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# driver_reconcile's dnf side against Debian's own dnf, in a root of its own (--installroot): stub packages, a local repository.
# Installs dnf, rpm and createrepo-c when they are missing.
set -euo pipefail
here=$(cd "$(dirname "$0")/../.." && pwd)
missing=()
for package in dnf rpm createrepo-c; do
  dpkg-query --show --showformat '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  apt-get -o DPkg::Lock::Timeout=300 update -qq
  apt-get -o DPkg::Lock::Timeout=300 install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi
PYTHONPATH="$here/.collections" exec "$here/.venv/bin/python" "$here/tests/long/dnf_reconcile.py"
