# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""DDTREE's counters, exported through SGLang's own metrics endpoint.

SGLang collects prometheus_client metrics of all its processes through PROMETHEUS_MULTIPROC_DIR, which is set before
schedulers start; so metrics made in a scheduler appear on the server's ``/metrics``. Names are those of the project's
stand-alone server.
"""

from __future__ import annotations

from collections.abc import Sequence


class DDTreeMetrics:
    """Written from the host after a round's accept lengths arrived there, one round late: nothing waits for them."""

    def __init__(self, block_size: int, tree_nodes: int) -> None:
        # Import here: prometheus_client must see PROMETHEUS_MULTIPROC_DIR.
        from prometheus_client import Counter, Gauge, Histogram

        self.rounds = Counter("ddtree_verify_rounds_total", "Verify rounds, one per request and target step.")
        self.tokens = Counter("ddtree_accepted_tokens_total", "Tokens emitted by verify rounds, bonus included.")
        self.accept_length = Histogram(
            "ddtree_accept_length",
            "Tokens emitted by a verify round, bonus included.",
            buckets=[float(n) for n in range(1, block_size + 1)],
        )
        self.nodes = Gauge(
            "ddtree_tree_nodes", "Draft nodes a verify round checks, root excluded.", multiprocess_mode="mostrecent"
        )
        self.build_seconds = Gauge(
            "ddtree_tree_build_seconds",
            "GPU time of building one batch's trees from candidate log-probabilities, measured at start.",
            multiprocess_mode="mostrecent",
        )
        self.nodes.set(tree_nodes)

    def observe(self, num_correct_drafts: Sequence[int], nodes: int) -> None:
        """One verify step: correct drafts per request (bonus excluded) and nodes verified per request."""
        self.rounds.inc(len(num_correct_drafts))
        self.tokens.inc(sum(num_correct_drafts) + len(num_correct_drafts))
        self.nodes.set(nodes)
        for correct in num_correct_drafts:
            self.accept_length.observe(correct + 1)
