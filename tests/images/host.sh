#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Start or remove one systemd test host (a podman container that boots like a machine and is reached over OpenSSH).
# usage: host.sh up NAME SUITE PUBLIC_KEY_FILE [podman run option ...]
#        host.sh down NAME ...
#        host.sh network NAME SUBNET GATEWAY     an internal network: the control node reaches the hosts, they reach nothing else
# `up` leaves a host that already runs from the current image with the same options alone. The tmpfs mounts stand for the loaded
# kernel module and are empty after a restart, as a machine's are.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
export CONTAINERS_CONF="$here/containers.conf"

remove() {
  # After a killed conmon the first removal fails and the second succeeds.
  for _ in 1 2 3; do podman rm --force --ignore --time 1 "$1" >/dev/null 2>&1 && return 0; sleep 1; done
  podman rm --force --ignore "$1" >/dev/null
}

up() {
  local name=$1 suite=$2 key=$3; shift 3
  local image="localhost/dflash-host-$suite" wanted
  wanted=$(printf '%s\n' "$(podman image inspect --format '{{ .Id }}' "$image")" "$@" | sha256sum | cut -c1-16)
  if [ "$(podman container inspect --format '{{ index .Config.Labels "wanted" }} {{ .State.Running }}' "$name" 2>/dev/null)" != "$wanted true" ]; then
    remove "$name"
    podman run --detach --quiet --name "$name" --hostname "$name" --label "wanted=$wanted" --systemd=always --restart=always \
      --cap-add=SYS_ADMIN --tmpfs /proc/driver:rw,mode=755 --tmpfs /sys/module:rw,mode=755 "$@" "$image" >/dev/null
    echo "host $name: created"
  else
    echo "host $name: up to date"
  fi
  local state=starting
  for _ in $(seq 60); do
    state=$(podman exec "$name" systemctl is-system-running 2>/dev/null || true)
    case "$state" in running | degraded) break ;; esac
    sleep 0.5
  done
  case "$state" in running | degraded) ;; *) echo "host $name: systemd did not come up within 30 s (state: ${state:-none})" >&2; exit 1 ;; esac
  # As systemd does at the boot of a machine, but not in a container: without it a unit never sees its credentials.
  podman exec "$name" mount --make-rshared /
  podman exec --interactive "$name" sh -c 'umask 077; mkdir -p /root/.ssh /run/sshd; cat >/root/.ssh/authorized_keys' <"$key"
}

case "${1:-}" in
  up) shift; up "$@" ;;
  down) shift; for name in "$@"; do remove "$name"; done ;;
  network) podman network exists "$2" || podman network create --internal --disable-dns --subnet "$3" --gateway "$4" "$2" >/dev/null ;;
  *) sed -n '5,9p' "$0" >&2; exit 2 ;;
esac
