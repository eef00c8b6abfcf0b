#!/bin/sh
# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# The guest: its host has loaded 580.126.09, its own user space went on to 580.159.03, and its engine dies.
set -eu
dpkg --install /opt/fake-nvidia/pool/nvidia-stub-host_*.deb /opt/fake-nvidia/pool/libnvidia-compute-580_580.159.03-*.deb \
  /opt/fake-nvidia/pool/nvidia-utils-580_580.159.03-*.deb
printf '\nhost_module = 580.126.09\n' >>/etc/nvidia-stub.conf
/usr/local/sbin/nvidia-stub-boot
printf 'APT::Periodic::Unattended-Upgrade "1";\n' >/etc/apt/apt.conf.d/20auto-upgrades

site=/opt/sglang/lib/python3.12/site-packages
mkdir -p /opt/sglang/bin "$site/torch" "$site/torch-2.11.0+cu130.dist-info" "$site/sglang-0.5.17.dist-info" "$site/flash_attn-2.8.3.dist-info"
printf 'home = /usr/bin\nversion = 3.12.3\n' >/opt/sglang/pyvenv.cfg
printf "__version__ = '2.11.0+cu130'\ncuda = '13.0'\n" >"$site/torch/version.py"
printf '#!/bin/sh\nkill -SEGV $$\n' >/opt/sglang/bin/python
chmod 755 /opt/sglang/bin/python

mkdir -p /data/qwen /data/draft /dev/shm/qwen
printf '{"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "num_hidden_layers": 64, "hidden_size": 5120, "vocab_size": 248320}' >/data/qwen/config.json
printf '{"architectures": ["DFlashDraftModel"], "block_size": 16, "hidden_size": 5120, "num_hidden_layers": 5, "dflash_config": {"mask_token_id": 248070, "target_layer_ids": [1, 16, 31, 46, 61]}}' >/data/draft/config.json
head -c 3145728 /dev/zero >/data/qwen/model.safetensors
head -c 1048576 /dev/zero >/data/draft/model.safetensors
cp /data/qwen/* /dev/shm/qwen/

cat >/etc/systemd/system/sglang.service <<'UNIT'
[Unit]
Description=SGLang for Qwen
[Service]
ExecStart=/opt/sglang/bin/python -m sglang.launch_server --model-path /data/qwen --api-key marked-key-4711 --port 30000
UNIT
systemctl daemon-reload
systemctl start sglang.service || true
