#!/bin/sh
# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# A blank host with eight RTX PRO 6000: somebody's wrapper holds GPU 0, a training job GPU 3.
set -eu
dpkg --install /opt/fake-nvidia/pool/nvidia-stub-host_*.deb /opt/fake-nvidia/pool/libnvidia-compute_590.44.01-*.deb \
  /opt/fake-nvidia/pool/nvidia-utils_590.44.01-*.deb
{
  printf '[driver]\nhost_module = 590.44.01\ncuda = 13.1\nlink = NODE\np2p = OK\n'
  for n in 0 1 2 3 4 5 6 7; do
    printf '\n[gpu %s]\nname = NVIDIA RTX PRO 6000 Blackwell Workstation Edition\nuuid = GPU-b6000000-0000-4000-8000-00000000000%s\n' $n $n
    printf 'bus = 00000000:%s1:00.0\ndevice_id = 0x2BB110DE\ncompute_capability = 12.0\nmemory = 97887\nused = 4\n' $n
  done
  printf '\n[process wrapper]\ngpu = 0\npid_file = /run/wrapper.pid\ntype = C\nmemory = 56000\n'
  printf '\n[process training]\ngpu = 3\npid_file = /run/training.pid\ntype = C\nmemory = 40000\n'
} >/etc/nvidia-stub.conf
/usr/local/sbin/nvidia-stub-boot

mkdir -p /root/jobs
printf 'import os, sys, time\nopen(sys.argv[1], "w").write(str(os.getpid()))\ntime.sleep(1e6)\n' | tee /root/jobs/wrapper.py >/root/jobs/train.py
systemd-run --quiet --unit=wrapper.service /usr/bin/python3 /root/jobs/wrapper.py /run/wrapper.pid --token marked-key-4711
systemd-run --quiet --unit=train-job.service /usr/bin/python3 /root/jobs/train.py /run/training.pid --hf-token marked-key-4711
while [ ! -s /run/wrapper.pid ] || [ ! -s /run/training.pid ]; do sleep 0.1; done
