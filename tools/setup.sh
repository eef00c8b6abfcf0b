#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Make the control node ready: Debian packages, then pinned Python environments beside this checkout. Re-runnable; a finished
# part is recognised by its inputs and skipped, a half-made environment is made again.
# usage: tools/setup.sh base|torch|test|release|core221 [PYTHON]        test: base and torch at the same time
set -euo pipefail
cd "$(dirname "$0")/.."
# Not worth compiling: tests of packages, and models of other families.
never_imported='/tests/|/torch/testing/_internal/|/transformers/models/(?!auto/|qwen)'
packages=(podman runc mmdebstrap apt-utils openssh-client gcc libc6-dev netavark iptables python3-venv git)

say() { echo "setup: $*"; }

debian_packages() {
  local missing=() package
  for package in "${packages[@]}"; do
    dpkg-query --show --showformat '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return
  [ "$(id -u)" = 0 ] || { echo "setup: these Debian packages are missing: ${missing[*]}; run this as root or install them first" >&2; exit 1; }
  say "installing Debian packages: ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  apt-get -o DPkg::Lock::Timeout=300 update -qq
  apt-get -o DPkg::Lock::Timeout=300 install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# The CPU build of torch where an index or a link directory has it (a fifth of the download), else the index's own build with what it
# needs. The lock that is installed afterwards accepts either.
torch_first() {
  local pip="$1/bin/python -m pip install --quiet --disable-pip-version-check --no-compile" version
  version=$(sed -n 's/^torch==\([0-9.]*\).*/\1/p' roles/engine/files/locks/transformers-cp311.txt)
  say "installing torch $version (200 MB for the CPU build, gigabytes for the index's CUDA build)"
  $pip --no-deps "torch==$version+cpu" 2>/dev/null || $pip "torch==$version"
}

# environment DIR PYTHON REQUIREMENTS ...: an environment whose mark equals the hash of its inputs is complete.
environment() {
  local dir=$1 python=$2 mark; shift 2
  mark=$({ "$python" --version; sha256sum "$@"; } | sha256sum | cut -c1-16)
  [ "$(cat "$dir/.complete" 2>/dev/null)" = "$mark" ] && return
  say "making $dir with $("$python" --version) from $*"
  rm -rf "$dir"
  "$python" -m venv "$dir"
  "$dir/bin/python" -m pip install --quiet --disable-pip-version-check --upgrade pip 2> >(grep -v 'is ignored: it is neither' >&2)
  [ "$dir" != .venv-torch ] || torch_first "$dir"
  local file
  for file in "$@"; do
    "$dir/bin/python" -m pip install --disable-pip-version-check --progress-bar on --no-compile --requirement "$file" \
      2> >(grep -v 'is ignored: it is neither' >&2) | { grep -E '^(Downloading|Installing|Successfully)' || true; } | cut -c1-160
  done
  # pip would compile everything, and on one core. Some packages carry files that are no Python of this version; those stay as they are.
  "$dir/bin/python" -m compileall -q -j 0 -x "$never_imported" "$dir/lib" >/dev/null || true
  echo "$mark" >"$dir/.complete"
}

python311() { tools/find_python.sh 3.11 || { echo "setup: Python 3.11 is needed (Debian 12: apt-get install python3)" >&2; exit 1; }; }

base() { environment .venv "$(python311)" requirements/dev-core219.txt; }
torch() { environment .venv-torch "$(python311)" roles/engine/files/locks/transformers-cp311.txt roles/engine/files/ddtree/requirements-test.txt; }

case "${1:-}" in
  base) debian_packages; base ;;
  torch) debian_packages; torch ;;
  test)
    debian_packages
    # The step that needs it makes it again, and says so, when this fails.
    torch & made=$!
    base
    wait "$made" || true
    ;;
  release) environment .venv-release "$(python311)" requirements/release.txt ;;
  core221) environment ".venv-py${2/./}" "$(tools/find_python.sh "$2")" requirements/core221.txt ;;
  *) echo "usage: tools/setup.sh base|torch|test|release|core221 [PYTHON]" >&2; exit 2 ;;
esac
