# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Every target can be interrupted and run again. `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help setup setup-torch setup-release lab-up lab-down deploy stop survey bench monitoring diagnose lint unit sanity molecule test test-all \
  release ee awx-check docs clean

export CONTAINERS_CONF := $(CURDIR)/tests/images/containers.conf
BIN := .venv/bin
PLAYBOOK = $(BIN)/ansible-playbook

help:  ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

setup:  ## Install Debian packages and the pinned tools into .venv (re-runnable)
	@tools/setup.sh base

setup-torch:  ## Make .venv-torch for the tests of the ddtree package
	@tools/setup.sh torch

setup-release:  ## Make .venv-release for make release and make ee
	@tools/setup.sh release

lab-up: setup  ## Build the lab image and start the two lab hosts
	@$(PLAYBOOK) playbooks/lab.yml

lab-down:  ## Remove the lab hosts (nothing else)
	@$(PLAYBOOK) playbooks/lab.yml --extra-vars lab_state=absent

deploy: lab-up  ## Take the lab hosts from blank to serving, and show a real completion
	@$(PLAYBOOK) deploy_dflash.yml --limit lab $(ARGS)

stop:  ## Stop the lab's instances
	@$(PLAYBOOK) playbooks/stop.yml --limit lab $(ARGS)

survey:  ## Survey the lab: reports/survey/latest.html
	@$(PLAYBOOK) playbooks/survey.yml --limit lab $(ARGS)

# One host: lab1 and lab2 share the control node's cores and would measure each other.
bench:  ## Benchmark the lab: reports/benchmark/latest.html; ARGS='-e dflash_tune=true' deploys the winner
	@$(PLAYBOOK) playbooks/benchmark.yml --limit 'lab[0]' $(ARGS)

monitoring:  ## Prometheus configuration, alerts and Grafana dashboard for the lab: reports/monitoring/
	@$(PLAYBOOK) playbooks/monitoring.yml --limit lab $(ARGS)

diagnose:  ## Diagnose the lab's instances
	@$(PLAYBOOK) playbooks/diagnose.yml --limit lab $(ARGS)

lint: setup  ## ruff, yamllint, ansible-lint
	@$(BIN)/python tests/run.py lint

unit: setup  ## pytest for the collection, on every supported Python found
	@$(BIN)/python tests/run.py unit

sanity: setup  ## ansible-test sanity, on every supported Python found
	@$(BIN)/python tests/run.py sanity

molecule: setup  ## Molecule; SCENARIO=name[,name] for some of them
	@$(BIN)/python tests/run.py molecule $(if $(SCENARIO),--scenario $(SCENARIO))

test:  ## Everything that CI runs; ends in one line of counts
	@tools/setup.sh test
	@$(BIN)/python tests/run.py lint molecule --beside sanity,unit --beside package,awx

test-all:  ## test, and what takes longer (scale, kill series, image builds)
	@tools/setup.sh test
	@$(BIN)/python tests/run.py lint molecule long --beside sanity,unit --beside package,awx

release: setup setup-release  ## Build dist/*.tar.gz and check it
	@tools/release.sh

ee: release  ## Build the execution environment image
	@tools/ee.sh

awx-check: setup  ## Hold the AWX definitions against awx.awx's documented arguments
	@$(BIN)/python tests/run.py awx

docs: setup  ## Build a browsable site of modules, filters and roles: .build/docs/html/index.html
	@tools/docs.sh

clean: ## Remove what the targets made here (environments, build and report folders); lab hosts stay
	@rm -rf .build .venv .venv-* .ansible .cache .pytest_cache .ruff_cache .hypothesis dist tests/output
