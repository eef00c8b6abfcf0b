#!/bin/sh
# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Stub modprobe, rmmod and lsmod for the nvidia modules (called by those names, as nvidia-stub-boot at start, and as
# nvidia-stub-load VERSION by tests).
# They stand for a kernel that can load modules: a loaded module is a folder in /sys/module and its line in /proc/driver/nvidia,
# both tmpfs here. `modprobe nvidia` loads what lies on disk for the running kernel, as the real one does.
set -eu
conf=/etc/nvidia-stub.conf
setting() { sed -n "s/^$1 *= *//p" "$conf" 2>/dev/null | head -n 1; }
kernel=$(setting host_kernel)
[ -n "$kernel" ] || kernel=$(uname -r)
disk="/lib/modules/$kernel/updates/dkms"

load_nvidia() { # VERSION LICENCE
  mkdir -p /proc/driver/nvidia/gpus /sys/module/nvidia/holders
  if [ "$2" = NVIDIA ]; then line="NVIDIA UNIX x86_64 Kernel Module  $1  Wed Jan  7 22:33:56 UTC 2026"
  else line="NVIDIA UNIX Open Kernel Module for x86_64  $1  Release Build  (stub@test)  Wed Jan  7 22:33:56 UTC 2026"; fi
  printf 'NVRM version: %s\nGCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n' "$line" >/proc/driver/nvidia/version
  echo "$1" >/sys/module/nvidia/version
  echo 0 >/sys/module/nvidia/refcnt
  awk -F ' *= *' '
    /^\[/ { gpu = ($0 ~ /^\[gpu /) }
    gpu && $1 == "name" { name = $2 }
    gpu && $1 == "uuid" { uuid = $2 }
    gpu && $1 == "bus" { bus = tolower(substr($2, 5)); dir = "/proc/driver/nvidia/gpus/" bus; system("mkdir -p " dir)
      printf "Model: \t\t %s\nIRQ:   \t\t 99\nGPU UUID: \t %s\nBus Location: \t %s\nDevice Minor: \t %d\n", name, uuid, bus, n++ > (dir "/information") }
  ' "$conf" 2>/dev/null || true
}
load() { # from the disk of the running kernel
  file="$disk/nvidia.ko"
  [ -e "$file" ] || { echo "modprobe: FATAL: Module nvidia not found in directory /lib/modules/$kernel" >&2; exit 1; }
  version=$(modinfo -F version "$file")
  [ "$(setting modprobe_fails)" != "$version" ] || { echo "modprobe: ERROR: could not insert 'nvidia': No such device" >&2; exit 1; }
  load_nvidia "$version" "$(modinfo -F license "$file")"
}

case "$(basename "$0")" in
  nvidia-stub-boot)
    # host_module: the module belongs to another kernel (the guest of a hypervisor); else the one on disk is loaded, if any.
    if [ -n "$(setting host_module)" ]; then load_nvidia "$(setting host_module)" "Dual MIT/GPL"
    elif [ -e "$disk/nvidia.ko" ]; then load; fi ;;
  modprobe)
    for name in "$@"; do
      case "$name" in
        -*) ;;
        nvidia) [ -d /sys/module/nvidia ] || load ;;
        nvidia[-_]*)
          name=$(echo "$name" | tr - _)
          [ -d /sys/module/nvidia ] || load
          [ -d "/sys/module/$name" ] || { mkdir -p "/sys/module/$name/holders" "/sys/module/nvidia/holders/$name"; echo 0 >"/sys/module/$name/refcnt"; } ;;
        *) echo "modprobe: FATAL: Module $name not found" >&2; exit 1 ;;
      esac
    done ;;
  nvidia-stub-load) # VERSION: whatever was loaded, this is loaded now
    rm -rf /proc/driver/nvidia /sys/module/nvidia*
    load_nvidia "$1" "Dual MIT/GPL" ;;
  insmod)
    load_nvidia "$(modinfo -F version "$1")" "$(modinfo -F license "$1")" ;;
  rmmod)
    for name in "$@"; do
      name=$(echo "$name" | tr - _)
      [ -d "/sys/module/$name" ] || { echo "rmmod: ERROR: Module $name is not currently loaded" >&2; exit 1; }
      if [ "$(cat "/sys/module/$name/refcnt")" != 0 ] || [ -n "$(ls "/sys/module/$name/holders")" ] || [ "$(setting rmmod_fails)" = "$name" ]; then
        echo "rmmod: ERROR: Module $name is in use" >&2; exit 1
      fi
      rm -rf "/sys/module/$name" "/sys/module/nvidia/holders/$name"
      if [ "$name" = nvidia ]; then rm -rf /proc/driver/nvidia; fi
    done ;;
  lsmod)
    echo "Module                  Size  Used by"
    for path in /sys/module/nvidia*; do
      [ -d "$path" ] && printf '%-20s %8d  %s %s\n' "$(basename "$path")" 4096 "$(ls "$path/holders" | wc -l)" "$(ls "$path/holders" | paste -sd ,)"
    done ;;
esac
