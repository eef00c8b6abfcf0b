#!/bin/sh
# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# A guest: its host has loaded 580.126.09, its own user space went on to 580.159.03.
set -eu
printf 'deb [trusted=yes] file:/opt/fake-nvidia ./\n' >/etc/apt/sources.list.d/fake-nvidia.list
apt-get -qq update
dpkg --install /opt/fake-nvidia/pool/nvidia-stub-host_*.deb /opt/fake-nvidia/pool/libnvidia-compute-580_580.159.03-*.deb \
  /opt/fake-nvidia/pool/nvidia-utils-580_580.159.03-*.deb
printf '\nhost_module = 580.126.09\n' >>/etc/nvidia-stub.conf
/usr/local/sbin/nvidia-stub-boot
