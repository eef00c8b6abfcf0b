#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Build the release and the execution environment image, then let ansible-runner deploy to the lab from inside the image, with the key in
# its ssh-agent and nothing of this checkout mounted but the inventory. See execution_environment.py.
# The lab is made when it is not there, and then removed again.
set -euo pipefail
cd "$(dirname "$0")/../.."
export CONTAINERS_CONF=$PWD/tests/images/containers.conf
tools/setup.sh base
tools/setup.sh release
tools/release.sh
tools/ee.sh
if ! podman container exists lab1; then
  trap '.venv/bin/ansible-playbook playbooks/lab.yml --extra-vars lab_state=absent >/dev/null' EXIT
fi
.venv/bin/ansible-playbook playbooks/lab.yml
# Made from this machine's package index; the image has no settings for one.
.venv/bin/ansible-playbook deploy_dflash.yml --limit lab1
.venv/bin/python tests/long/execution_environment.py
