# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""Command-line options of DDTREE and their way into ServerArgs.

Budget and width have fields in ServerArgs already (verify rows and top-k), so ``Engine(**kwargs)`` needs no option of
ours: ``speculative_num_draft_tokens = budget + 1``, ``speculative_eagle_topk = width``.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, MutableMapping
from typing import Any

from ddtree.sglang import ALGORITHM
from ddtree.sglang.config import FORCE_SPINE_ENV, MAX_TREE_BATCH_ENV, ConfigError


def add_cli_args(_result: object, parser: argparse.ArgumentParser) -> None:
    """AFTER hook of ``ServerArgs.add_cli_args``."""
    group = parser.add_argument_group("DDTREE speculative decoding (plugin inferlab-ddtree)")
    group.add_argument(
        "--speculative-ddtree-budget",
        type=int,
        default=None,
        help="Draft-tree nodes without the root; the target verifies budget + 1 rows. At least the drafter's block size - 1.",
    )
    group.add_argument(
        "--speculative-ddtree-topk",
        type=int,
        default=None,
        help="Candidate tokens kept per draft position (tree width). 1 with budget = block size - 1 is DFLASH's chain.",
    )
    group.add_argument(
        "--speculative-ddtree-force-spine",
        action="store_true",
        help="Put the whole chain of best tokens into the tree before the rest is filled best-first.",
    )
    group.add_argument(
        "--speculative-ddtree-max-tree-batch",
        type=int,
        default=None,
        help="Largest batch that verifies trees; above it the chain is verified (dense attention targets).",
    )


def from_cli_args(original: Callable[..., Any], cls: type, args: argparse.Namespace) -> Any:
    """AROUND hook of ``ServerArgs.from_cli_args``."""
    apply_options(args, os.environ)
    return original(cls, args)


def apply_options(args: argparse.Namespace, environ: MutableMapping[str, str]) -> None:
    """Fold our options into the namespace and the environment; refuse them for any other algorithm."""
    budget = getattr(args, "speculative_ddtree_budget", None)
    topk = getattr(args, "speculative_ddtree_topk", None)
    force_spine = getattr(args, "speculative_ddtree_force_spine", False)
    max_tree_batch = getattr(args, "speculative_ddtree_max_tree_batch", None)
    if (getattr(args, "speculative_algorithm", None) or "").upper() != ALGORITHM:
        if budget is not None or topk is not None or force_spine or max_tree_batch is not None:
            raise ConfigError(
                f"--speculative-ddtree-* options need --speculative-algorithm {ALGORITHM}, "
                f"got {args.speculative_algorithm}."
            )
        return
    _set(args, "speculative_num_draft_tokens", None if budget is None else budget + 1, "--speculative-ddtree-budget")
    _set(args, "speculative_eagle_topk", topk, "--speculative-ddtree-topk")
    if force_spine:
        environ[FORCE_SPINE_ENV] = "1"
    if max_tree_batch is not None:
        environ[MAX_TREE_BATCH_ENV] = str(max_tree_batch)


def _set(args: argparse.Namespace, field: str, value: int | None, option: str) -> None:
    if value is None:
        return
    present = getattr(args, field, None)
    if present is not None and present != value:
        raise ConfigError(f"{option} asks for {field}={value}, but {field}={present} is given too. Give one of them.")
    setattr(args, field, value)
