#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Build the collection into dist/ and hold the result against what a release must be. Every check is counted; the last line says how many
# passed.
set -uo pipefail
cd "$(dirname "$0")/.."
root=$PWD
bin=$root/.venv/bin release=$root/.venv-release/bin
passed=0 failed=0

check() {
  local name=$1; shift
  if "$@" >"$root/.build/release.log" 2>&1; then passed=$((passed + 1)); echo "ok: $name"; else
    failed=$((failed + 1)); echo "FAILED: $name"; tail -n 20 "$root/.build/release.log"
  fi
}

build() {
  rm -rf dist && mkdir -p dist
  # A clean copy of what git knows: nothing that lies about in a working tree gets in.
  rm -rf .build/release && mkdir -p .build/release
  git ls-files -z --cached --others --exclude-standard | grep -zv '^.collections/' | while IFS= read -r -d '' file; do
    [ -e "$file" ] && printf '%s\0' "$file"
  done | tar --null --files-from=- -cf - | tar -xf - -C .build/release
  "$bin/ansible-galaxy" collection build --output-path dist .build/release
}

size_below_20_mb() { [ "$(stat -c %s dist/*.tar.gz)" -lt 20000000 ]; }

runs_from_an_empty_directory() (
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  cd "$work" && "$bin/ansible-galaxy" collection install --offline -p "$work/collections" "$root"/dist/*.tar.gz &&
    printf 'dflash:\n  children:\n    here:\n      hosts:\n        h1: {ansible_connection: local}\n' >hosts.yml &&
    ANSIBLE_COLLECTIONS_PATH=$work/collections "$bin/ansible-playbook" -i hosts.yml inferlab.dflash.deploy_dflash -l here --list-hosts >"$work/hosts" && grep -q h1 "$work/hosts" &&
    ANSIBLE_COLLECTIONS_PATH=$work/collections "$bin/ansible-playbook" -i hosts.yml inferlab.dflash.deploy_dflash -l here --syntax-check &&
    { ANSIBLE_COLLECTIONS_PATH=$work/collections "$bin/ansible-playbook" -i hosts.yml inferlab.dflash.deploy_dflash >"$work/out" 2>&1; [ $? -ne 0 ]; } &&
    grep -q 'Groups of this inventory: here' "$work/out"
)

galaxy_importer() (
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  printf '[galaxy-importer]\nRUN_ANSIBLE_TEST=False\nRUN_ANSIBLE_LINT=False\nCHECK_CHANGELOG=True\n' >"$work/importer.cfg"
  cd "$work" && GALAXY_IMPORTER_CONFIG=$work/importer.cfg PATH="$release:$PATH" "$release/python" -m galaxy_importer.main "$root"/dist/*.tar.gz >"$work/out" 2>&1
  status=$?
  cat "$work/out"
  [ $status -eq 0 ] && ! grep -qE '^(ERROR|WARNING)' "$work/out"
)

docs_lint() ( cd .build/release && PATH="$bin:$PATH" "$bin/antsibull-docs" lint-collection-docs . --plugin-docs --skip-rstcheck )
changelog_lint() { "$bin/antsibull-changelog" lint; }
licences() { "$release/reuse" --root .build/release lint; }

sbom() {
  local lock
  for lock in roles/engine/files/locks/*.txt; do
    "$release/cyclonedx-py" requirements --output-format JSON --output-file "dist/$(basename "$lock" .txt).cdx.json" "$lock" || return 1
    grep -q '"name": "torch"' "dist/$(basename "$lock" .txt).cdx.json" || return 1
  done
}

mkdir -p .build
check "collection builds" build
check "tarball is below 20 MB" size_below_20_mb
check "installs and runs from an empty directory" runs_from_an_empty_directory
check "galaxy-importer is clean" galaxy_importer
check "documentation lint" docs_lint
check "documentation site builds" tools/docs.sh
check "changelog lint" changelog_lint
check "licences of every file (reuse)" licences
check "SBOM of the engine locks" sbom
ls -l dist
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
