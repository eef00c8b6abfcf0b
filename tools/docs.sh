#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Build a browsable site of all modules, filters and roles into .build/docs/html. No network: references to Ansible's own documentation
# stay plain text; any other warning fails.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH=$PWD/.venv/bin:$PATH
# Only this collection, not what else the user has installed.
export ANSIBLE_COLLECTIONS_PATH=$PWD/.collections
site=$PWD/.build/docs
rm -rf "$site" && mkdir -p "$site" && chmod 755 "$site"
antsibull-docs sphinx-init --use-current --squash-hierarchy --sphinx-theme alabaster --project inferlab.dflash --title inferlab.dflash \
  --dest-dir "$site" inferlab.dflash >/dev/null
antsibull-docs --config-file "$site/antsibull-docs.cfg" collection --cleanup everything --use-current --squash-hierarchy --fail-on-error \
  --dest-dir "$site/rst" inferlab.dflash
sphinx-build --quiet --builder html --conf-dir "$site" --define extensions=sphinx_antsibull_ext --define nitpicky=0 \
  --warning-file "$site/warnings" "$site/rst" "$site/html" 2>/dev/null
if grep -Ev "undefined label: '(ansible_collections\.ansible\.builtin\.|[a-z_]+')" "$site/warnings"; then exit 1; fi
pages=$(find "$site/html" -name '*_module.html' | wc -l)
[ "$pages" -eq "$(find plugins/modules -name '*.py' | wc -l)" ] || { echo "docs: $pages pages of modules" >&2; exit 1; }
echo "docs: $site/html/index.html"
