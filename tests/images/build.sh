#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Build the systemd images of the lab and the Molecule hosts from Debian packages; no container registry is needed.
# usage: tests/images/build.sh bookworm|trixie ...
# An image is rebuilt only when one of its inputs changed (a hash in its label). The stub NVIDIA packages are laid into
# /opt/fake-nvidia as an apt repository; hosts that want a driver user space install from there.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
export CONTAINERS_CONF="$here/containers.conf"
packages=systemd,systemd-sysv,dbus,python3,python3-apt,python3-venv,openssh-server,sudo,iproute2,procps,kmod,curl,ca-certificates,unattended-upgrades

inputs_hash() {
  { echo "$1 $packages"; cd "$here" && find . -type f -not -path '*/__pycache__/*' -print0 | sort -z | xargs -0 sha256sum; } | sha256sum | cut -c1-16
}

build() {
  local suite=$1 image="localhost/dflash-host-$1" hash work sources
  hash=$(inputs_hash "$suite")
  if [ "$(podman image inspect --format '{{ index .Labels "inputs" }}' "$image" 2>/dev/null)" = "$hash" ]; then
    echo "image $image: up to date"
    return
  fi
  echo "image $image: building from Debian $suite packages (about half a minute, minutes on a cold mirror)"
  work=$(mktemp -d)
  trap 'rm -rf "$work"' RETURN
  sources="$work/host.sources"
  if [ -f /etc/apt/sources.list.d/debian.sources ]; then
    sed "s/bookworm/$suite/g" /etc/apt/sources.list.d/debian.sources >"$sources"
  else
    sources="$work/host.list"
    grep -hE '^deb ' /etc/apt/sources.list | sed "s/bookworm/$suite/g" >"$sources"
  fi
  mkdir -p "$work/fake-nvidia"
  if [ -x "$here/nvidia-stub/build.sh" ]; then "$here/nvidia-stub/build.sh" "$work/fake-nvidia"; fi
  mmdebstrap --quiet --variant=minbase --include="$packages" \
    --aptopt='Acquire::Check-Valid-Until "false"' --dpkgopt=force-unsafe-io \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
    --customize-hook='rm -f "$1"/etc/apt/sources.list.d/* "$1"/etc/apt/sources.list "$1"/etc/ssh/ssh_host_*' \
    --customize-hook="mkdir -p \"\$1\"/opt/fake-nvidia && cp -r '$work/fake-nvidia/.' \"\$1\"/opt/fake-nvidia/" \
    --customize-hook="cp -r '$here/rootfs/.' \"\$1\"/" \
    --customize-hook='chroot "$1" systemctl enable --quiet test-boot-id.service ssh.service' \
    --customize-hook='chroot "$1" systemctl mask --quiet apt-daily.timer apt-daily-upgrade.timer systemd-networkd-wait-online.service' \
    --customize-hook='rm -rf "$1"/var/lib/apt/lists/* "$1"/etc/machine-id && : >"$1"/etc/machine-id' \
    "$suite" - "$sources" |
    podman import --quiet --change 'CMD ["/lib/systemd/systemd"]' --change 'STOPSIGNAL SIGRTMIN+3' \
      --change "LABEL inputs=$hash" - "$image" >/dev/null
  echo "image $image: built"
}

[ $# -gt 0 ] || { echo "usage: $0 bookworm|trixie ..." >&2; exit 2; }
for suite in "$@"; do build "$suite"; done
