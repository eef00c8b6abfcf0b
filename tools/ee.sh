#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Build the execution environment with podman. Without EE_BASE_IMAGE the base is made here from Debian packages, so that no container
# registry is needed; with it, that image is used.
set -euo pipefail
cd "$(dirname "$0")/.."
export CONTAINERS_CONF=$PWD/tests/images/containers.conf
release=$PWD/.venv-release/bin
base=${EE_BASE_IMAGE:-localhost/dflash-ee-base:latest}
tag=${EE_TAG:-localhost/dflash-ee}

[ -n "$(ls dist/inferlab-dflash-*.tar.gz 2>/dev/null)" ] || { echo "ee: build the collection first: make release" >&2; exit 1; }

if [ "$base" = localhost/dflash-ee-base:latest ] && ! podman image exists "$base"; then
  echo "ee: making $base from Debian packages"
  sources=/etc/apt/sources.list.d/debian.sources
  [ -f "$sources" ] || sources=/etc/apt/sources.list
  mmdebstrap --quiet --variant=minbase --include=python3,python3-pip,python3-venv,git,openssh-client,ca-certificates,sudo \
    --aptopt='Acquire::Check-Valid-Until "false"' --dpkgopt=force-unsafe-io --dpkgopt='path-exclude=/usr/share/doc/*' \
    --skip=cleanup/apt/lists bookworm - "$sources" |
    podman import --quiet - "$base" >/dev/null
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r execution-environment.yml meta dist "$work"/
python3 - "$work/execution-environment.yml" "$base" <<'PY'
import re
import sys

path, base = sys.argv[1:]
text = open(path, encoding="utf-8").read()
text = re.sub(r"name: quay\.io\S+", f"name: {base}", text)
if base.startswith("localhost/"):
    # Debian's pip is there already, and its package manager is apt.
    text += "options:\n  skip_pip_install: true\n  package_manager_path: /usr/bin/apt-get\n"
open(path, "w", encoding="utf-8").write(text)
PY
(cd "$work" && "$release/ansible-builder" create --file execution-environment.yml --context "$work/context" >/dev/null)
options=(--network=host --env PIP_BREAK_SYSTEM_PACKAGES=1)
if [ -f /etc/ssl/certs/ca-certificates.crt ]; then
  options+=(--volume /etc/ssl/certs/ca-certificates.crt:/etc/ssl/certs/ca-certificates.crt:ro --env PIP_CERT=/etc/ssl/certs/ca-certificates.crt)
fi
for name in PIP_INDEX_URL PIP_EXTRA_INDEX_URL; do
  value=${!name:-$("$release/pip" config get "global.$(tr 'A-Z_' 'a-z-' <<<"${name#PIP_}")" 2>/dev/null || true)}
  case "$value" in http*) options+=(--env "$name=$value") ;; esac
done
echo "ee: building $tag"
podman build "${options[@]}" --tag "$tag" --file "$work/context/Containerfile" "$work/context"
podman run --rm --network=none "$tag" ansible-galaxy collection list inferlab.dflash
echo "ee: $tag is ready"
