#!/bin/sh
# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# The host of two RTX A6000: everything of one version, 580.126.09. Its guest is survey-ct129, which sees the same GPUs.
set -eu
dpkg --install /opt/fake-nvidia/pool/nvidia-stub-host_*.deb /opt/fake-nvidia/pool/libnvidia-compute-580_580.126.09-*.deb \
  /opt/fake-nvidia/pool/nvidia-utils-580_580.126.09-*.deb
# What the guest's engine holds, seen from here.
systemd-run --quiet --unit=guest-engine.service /usr/bin/python3 -c \
  'import os, time; open("/run/guest-engine.pid", "w").write(str(os.getpid())); time.sleep(1e6)'
while [ ! -s /run/guest-engine.pid ]; do sleep 0.1; done
printf '\n[process engine]\ngpu = 0\npid_file = /run/guest-engine.pid\ntype = C\nmemory = 30000\nhost_module = 580.126.09\n' >>/etc/nvidia-stub.conf
/usr/local/sbin/nvidia-stub-boot
