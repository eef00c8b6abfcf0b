# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from ansible_collections.inferlab.dflash.plugins.module_utils._instance import metrics

BEFORE = """# HELP ddtree_verify_rounds_total rounds
ddtree_verify_rounds_total{model="a"} 10.0
ddtree_accepted_tokens_total{model="a"} 20.0
ddtree_accept_length_bucket{model="a",le="1.0"} 4.0
ddtree_accept_length_bucket{model="a",le="2.0"} 8.0
ddtree_accept_length_bucket{model="a",le="4.0"} 10.0
ddtree_accept_length_bucket{model="a",le="+Inf"} 10.0
"""
AFTER = """ddtree_verify_rounds_total{model="a"} 14.0
ddtree_accepted_tokens_total{model="a"} 30.0
ddtree_accept_length_bucket{model="a",le="1.0"} 5.0
ddtree_accept_length_bucket{model="a",le="2.0"} 10.0
ddtree_accept_length_bucket{model="a",le="4.0"} 14.0
ddtree_accept_length_bucket{model="a",le="+Inf"} 14.0
not a sample
"""


def test_differences_give_length_and_histogram():
    assert metrics.acceptance(BEFORE, AFTER) == {"rounds": 4, "length": 2.5, "histogram": [1, 1, 0, 2]}


def test_other_labels_are_summed():
    both = AFTER + AFTER.replace('"a"', '"b"')
    assert metrics.acceptance("", both)["rounds"] == 28


def test_without_rounds_there_is_no_length():
    assert metrics.acceptance(BEFORE, BEFORE) == {"rounds": 0, "length": None, "histogram": []}
    assert metrics.acceptance("", "") == {"rounds": 0, "length": None, "histogram": []}
