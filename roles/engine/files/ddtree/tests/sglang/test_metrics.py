# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""Metrics as SGLang exports them: written in one process, collected through PROMETHEUS_MULTIPROC_DIR by another."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("prometheus_client", reason="prometheus_client is not installed")

from ddtree.bench.metrics import ACCEPTED, HISTOGRAM, ROUNDS, parse

SCHEDULER = """
from ddtree.sglang.metrics import DDTreeMetrics
metrics = DDTreeMetrics(block_size=16, tree_nodes=32)
metrics.build_seconds.set(1e-05)
metrics.observe([3, 0, 15], nodes=32)
metrics.observe([1], nodes=15)
"""
SERVER = """
from prometheus_client import CollectorRegistry, generate_latest, multiprocess
registry = CollectorRegistry()
multiprocess.MultiProcessCollector(registry)
print(generate_latest(registry).decode())
"""


def test_bench_reads_acceptance_from_the_metrics_endpoint(tmp_path: Path) -> None:
    source = Path(__file__).resolve().parents[2] / "src"
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path), "PYTHONPATH": str(source)}
    subprocess.run([sys.executable, "-c", SCHEDULER], env=environment, check=True, timeout=60)
    served = subprocess.run(
        [sys.executable, "-c", SERVER], env=environment, check=True, timeout=60, capture_output=True, text=True
    )
    snapshot = parse(served.stdout)
    assert snapshot.first(ROUNDS) == 4
    assert snapshot.first(ACCEPTED) == 23
    assert snapshot.values["ddtree_tree_nodes"] == 15
    assert snapshot.values["ddtree_tree_build_seconds"] == 1e-05
    buckets = snapshot.buckets[HISTOGRAM]
    assert (buckets[1.0], buckets[2.0], buckets[4.0], buckets[16.0]) == (1, 2, 3, 4)
