# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""What a DDTREE server is configured to do: pure decisions on plain numbers, no sglang and no torch.

A refusal is a :class:`ConfigError` whose text names the value, the reason and the nearest setting that works.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass

DEFAULT_BUDGET = 16
DEFAULT_TOPK = 16
MAX_ROWS = 128
"""Rows (root included) of the largest tree: the tree builder keeps one lane of one warp register file per row."""

FORCE_SPINE_ENV = "SGLANG_DDTREE_FORCE_SPINE"
MAX_TREE_BATCH_ENV = "SGLANG_DDTREE_MAX_TREE_BATCH"
"""Options without a field in ServerArgs travel to the scheduler processes in the environment."""

EAGER_COMMIT_ENV = "SGLANG_DDTREE_EAGER_COMMIT"
"""Set to 1, the commit of greedy rounds stays out of the verify graphs: for debugging and for comparison."""


class ConfigError(ValueError):
    """An option or a combination of options that DDTREE does not serve."""


@dataclass(frozen=True)
class DDTreeConfig:
    """Shape of the draft tree. ``rows`` counts the root; ``topk`` is the number of candidates kept per position."""

    block_size: int
    rows: int
    topk: int
    force_spine: bool = False
    max_tree_batch: int | None = None

    @property
    def budget(self) -> int:
        """Tree nodes without the root: the paper's B."""
        return self.rows - 1

    @property
    def is_chain(self) -> bool:
        """Width 1: the tree is DFLASH's chain, verified without a mask."""
        return self.topk == 1


def resolve(
    *,
    block_size: int,
    num_draft_tokens: int | None,
    topk: int | None,
    force_spine: bool = False,
    max_tree_batch: int | None = None,
) -> DDTreeConfig:
    """Defaults and limits of the tree shape.

    ``num_draft_tokens`` are verify rows (budget + 1), SGLang's ``--speculative-num-draft-tokens``.
    """
    if block_size < 2:
        raise ConfigError(f"DDTREE needs a drafter block of at least 2 positions, got {block_size}.")
    least = block_size - 1
    rows = max(DEFAULT_BUDGET + 1, block_size) if num_draft_tokens is None else int(num_draft_tokens)
    if rows < block_size:
        raise ConfigError(
            f"DDTREE budget {rows - 1} is below the drafter's block: the draft step writes {block_size} slots of the "
            f"verify window. Use --speculative-ddtree-budget {least} or more (block size {block_size})."
        )
    if rows > MAX_ROWS:
        raise ConfigError(
            f"DDTREE budget {rows - 1} is above the largest supported tree. "
            f"Use --speculative-ddtree-budget {MAX_ROWS - 1} or less."
        )
    width = min(DEFAULT_TOPK, rows - 1) if topk is None else int(topk)
    if width < 1 or width > 64:
        raise ConfigError(f"DDTREE top-k width {width} is outside 1..64. Use --speculative-ddtree-topk {DEFAULT_TOPK}.")
    if width == 1 and rows != block_size:
        raise ConfigError(
            f"DDTREE with width 1 is a chain of {least} nodes, but the budget is {rows - 1}. Use "
            f"--speculative-ddtree-budget {least}, or a width of 2 or more."
        )
    if max_tree_batch is not None and max_tree_batch < 0:
        raise ConfigError(f"DDTREE largest tree batch {max_tree_batch} is negative. Use 0 (always the chain) or more.")
    return DDTreeConfig(block_size, rows, width, force_spine, max_tree_batch)


def options_from_environment(environ: Mapping[str, str] | None = None) -> tuple[bool, int | None]:
    """``(force_spine, max_tree_batch)`` as the command-line hook left them."""
    environ = os.environ if environ is None else environ
    raw = environ.get(MAX_TREE_BATCH_ENV, "")
    return environ.get(FORCE_SPINE_ENV, "") == "1", int(raw) if raw else None


@dataclass(frozen=True)
class MemoryPlan:
    """Running requests that fit, and the bytes behind the number."""

    max_running_requests: int
    state_bytes_per_request: int
    available_bytes: int


def plan_memory(
    *,
    rows: int,
    state_bytes: int,
    row_bytes: Callable[[int], int],
    available_bytes: int,
    requested: int | None,
    default: int = 48,
    state_slots_per_request: int = 3,
    kv_share: float = 0.2,
    largest_rows: int = MAX_ROWS,
    least_rows: int = 2,
) -> MemoryPlan:
    """How many requests a hybrid (recurrent-state) target can run with ``rows`` verify rows.

    During verification every row of a tree of n keeps ``row_bytes(n)`` per request, plus the pool's persistent slots of
    ``state_bytes``, plus one padding request. ``available_bytes`` is what weights leave of the static memory;
    ``kv_share`` of it stays for attention KV. Raises :class:`ConfigError` when not even one request, or fewer than
    ``requested``, fit, naming the largest budget that does.
    """
    usable = int(available_bytes * (1.0 - kv_share))
    a_row = row_bytes(rows)

    def fits(count: int, tree_rows: int) -> bool:
        return (count + 1) * tree_rows * row_bytes(tree_rows) + (
            count * state_slots_per_request + 1
        ) * state_bytes <= usable

    wanted = 1 if requested is None else requested
    if not fits(wanted, rows):
        best = next((n for n in range(min(rows, largest_rows), least_rows - 1, -1) if fits(wanted, n)), None)
        way_out = (
            f"Use --speculative-ddtree-budget {best - 1} or fewer running requests (--max-running-requests)."
            if best is not None
            else "No tree fits: use --speculative-algorithm DFLASH, or a GPU with more memory."
        )
        raise ConfigError(
            f"DDTREE budget {rows - 1} needs {(wanted + 1) * rows * a_row / 2**30:.1f} GiB of recurrent state for "
            f"{wanted} running request(s) ({a_row / 2**20:.0f} MiB a row), but {usable / 2**30:.1f} GiB are left. "
            + way_out
        )
    if requested is not None:
        return MemoryPlan(requested, rows * a_row, available_bytes)
    count = 1
    while count < default and fits(count + 1, rows):
        count += 1
    return MemoryPlan(count, rows * a_row, available_bytes)
