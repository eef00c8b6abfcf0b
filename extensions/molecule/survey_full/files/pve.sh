#!/bin/sh
# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Two RTX A6000 of 580.126.09; container 131 was given one of them, container 132 is somebody's mail.
set -eu
dpkg --install /opt/fake-nvidia/pool/nvidia-stub-host_*.deb /opt/fake-nvidia/pool/libnvidia-compute-580_580.126.09-*.deb \
  /opt/fake-nvidia/pool/nvidia-utils-580_580.126.09-*.deb
printf '\nhost_module = 580.126.09\n' >>/etc/nvidia-stub.conf
/usr/local/sbin/nvidia-stub-boot
mkdir -p /etc/pve/lxc /sys/fs/cgroup/systemd/lxc/131 /sys/fs/cgroup/systemd/lxc/132 /opt/guest
printf 'arch: amd64\nhostname: ct131\ndev0: /dev/nvidia0,gid=44\ndev1: /dev/nvidiactl\n' >/etc/pve/lxc/131.conf
printf 'arch: amd64\nhostname: mail\n' >/etc/pve/lxc/132.conf
echo 00000000000000000000000000000131 >/opt/guest/machine-id
