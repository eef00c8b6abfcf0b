# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""Prometheus metrics of the stand-alone server. The SGLang plugin exports the `ddtree_*` names with the same meaning."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from ddtree.generate import Round
from ddtree.scheduler import Scheduler


class Metrics:
    """One registry per server. A round counts once for every request in it."""

    def __init__(self, block_size: int, scheduler: Scheduler) -> None:
        self.registry = CollectorRegistry()
        self.rounds = Counter(
            "ddtree_verify_rounds_total", "Verify rounds, one per request and target step.", registry=self.registry
        )
        self.tokens = Counter(
            "ddtree_accepted_tokens_total", "Tokens emitted by verify rounds, bonus included.", registry=self.registry
        )
        self.accept_length = Histogram(
            "ddtree_accept_length",
            "Tokens emitted by a verify round, bonus included.",
            buckets=[float(length) for length in range(1, block_size + 1)],
            registry=self.registry,
        )
        self.tree_nodes = Gauge(
            "ddtree_tree_nodes",
            "Draft nodes of one request in the last verify round, root excluded.",
            registry=self.registry,
        )
        self.tree_build_seconds = Gauge(
            "ddtree_tree_build_seconds",
            "Building the trees of the last verify round from the drafter's logits.",
            registry=self.registry,
        )
        self.requests = Counter(
            "ddtree_requests_total", "Requests by how they ended.", ["outcome"], registry=self.registry
        )
        waiting = Gauge("ddtree_requests_waiting", "Requests in the queue.", registry=self.registry)
        waiting.set_function(lambda: scheduler.waiting)
        running = Gauge("ddtree_requests_running", "Requests being generated.", registry=self.registry)
        running.set_function(lambda: scheduler.running)

    def observe(self, done: Round) -> None:
        """Count one verify round."""
        self.rounds.inc(len(done.accepted))
        self.tokens.inc(sum(done.accepted))
        for accepted in done.accepted:
            self.accept_length.observe(accepted)
        self.tree_nodes.set(max(done.nodes))
        self.tree_build_seconds.set(done.build_seconds)
