# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""Key-value storage for requests of different lengths that advance by different amounts.

Every layer holds one buffer `[b, heads, capacity, head_dim]` for keys and one for values. Row `r`'s committed tokens lie in
columns `0 .. lengths[r] - 1`; columns up to `front` (the longest row) hold old, unused but finite values and are hidden
by the attention mask. A forward pass appends its rows at `front` for all requests alike; `commit` then keeps some of them,
moved next to each request's committed columns, and forgets the rest. Requests join and leave by `extend` and `select`.
"""

from __future__ import annotations

import torch

from ddtree.verify import compaction_indices


class RaggedKV:
    """Keys and values of `layers` attention layers for a changing batch of requests."""

    def __init__(self, layers: int, device: torch.device) -> None:
        self.layers = layers
        self.lengths = torch.zeros(0, dtype=torch.int64, device=device)
        self.front = 0
        self._keys: list[torch.Tensor] = []
        self._values: list[torch.Tensor] = []

    @classmethod
    def empty(cls, layers: int, batch: int, device: torch.device) -> RaggedKV:
        """Storage for `batch` requests without any token yet."""
        cache = cls(layers, device)
        cache.lengths = torch.zeros(batch, dtype=torch.int64, device=device)
        return cache

    def append(self, layer: int, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Write `[b, heads, n, head_dim]` at `front` and return keys and values of columns `0 .. front + n - 1`.

        Nothing is committed: the next pass overwrites what `commit` has not kept.
        """
        if layer == len(self._keys):
            self._keys.append(keys.new_zeros(*keys.shape[:2], 0, keys.shape[3]))
            self._values.append(values.new_zeros(*values.shape[:2], 0, values.shape[3]))
        end = self.front + keys.shape[2]
        for buffers, new in ((self._keys, keys), (self._values, values)):
            if buffers[layer].shape[2] < end:
                buffers[layer] = _grown(buffers[layer], max(end, 2 * buffers[layer].shape[2]))
            buffers[layer][:, :, self.front : end] = new
        return self._keys[layer][:, :, :end], self._values[layer][:, :, :end]

    def commit(self, path: torch.Tensor, counts: torch.Tensor) -> None:
        """Keep the rows `path[r, :counts[r]]` (int64 `[b, P]`, counted from `front`) of the last pass, in this order."""
        requests, sources, targets = compaction_indices(path, counts, self.lengths, self.front)
        for buffer in (*self._keys, *self._values):
            # Indexing copies, so every source is read before any target is written.
            buffer[requests, :, targets] = buffer[requests, :, sources]
        self.lengths = self.lengths + counts
        self.front = int(self.lengths.max())

    def prefix_mask(self) -> torch.Tensor:
        """Committed columns of each request, bool `[b, front]`."""
        return torch.arange(self.front, device=self.lengths.device)[None, :] < self.lengths[:, None]

    def select(self, rows: list[int]) -> None:
        """Keep only these requests, in this order."""
        index = torch.tensor(rows, dtype=torch.int64, device=self.lengths.device)
        self.lengths = self.lengths[index]
        self._keys = [buffer[index] for buffer in self._keys]
        self._values = [buffer[index] for buffer in self._values]
        self.front = int(self.lengths.max()) if rows else 0

    def extend(self, other: RaggedKV) -> None:
        """Take over the requests of `other` behind the present ones."""
        if not len(self.lengths):
            self._keys, self._values = other._keys, other._values
        else:
            for mine, theirs in ((self._keys, other._keys), (self._values, other._values)):
                for layer in range(self.layers):
                    capacity = max(mine[layer].shape[2], theirs[layer].shape[2])
                    mine[layer] = torch.cat([_grown(mine[layer], capacity), _grown(theirs[layer], capacity)])
        self.lengths = torch.cat([self.lengths, other.lengths])
        self.front = int(self.lengths.max())


def _grown(buffer: torch.Tensor, capacity: int) -> torch.Tensor:
    """The buffer with at least `capacity` columns. New columns are zero, never uninitialised: a masked column has weight
    zero, but zero times an uninitialised NaN is NaN."""
    missing = capacity - buffer.shape[2]
    return torch.nn.functional.pad(buffer, (0, 0, 0, missing)) if missing > 0 else buffer
