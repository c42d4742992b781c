"""The training nodes of an epoch in keyed random order, cut into batches.

The order is that of a random number for each node's position in the imported graph, so that relabelling, or another number of
workers, deals out the same batches.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.errors import InputError
from starling.core.keyed import stream_key
from starling.kernels.keyed_order import keyed_order

DEFAULT_BATCH = 1024


def check_batch(size: int | None, train: int) -> None:
    """Refuse a batch of more nodes than train."""
    if size is not None and size > train:
        raise InputError(f"Expected a batch of at most the {train:,} training nodes, got {size:,}. Lower --batch-size.")


class TargetBatches:
    """Batches of `size` training rows, the last maybe smaller; `position` [T] is where each row stood in the imported graph.

    Without `size`: 1024, or all where there are fewer.
    """

    def __init__(
        self, position: NDArray[Any], train_rows: NDArray[Any], size: int | None, *, seed: int, shuffle: bool = True
    ) -> None:
        check_batch(size, len(train_rows))
        self.size = min(DEFAULT_BATCH, len(train_rows)) if size is None else size
        self.steps = -(-len(train_rows) // self.size)
        by_position = np.argsort(position, kind="stable")
        self._rows, self._positions = train_rows[by_position], np.ascontiguousarray(position[by_position])
        self._seed, self._shuffle = seed, shuffle
        self._order: tuple[int, NDArray[Any]] | None = None

    def batch(self, epoch: int, step: int) -> NDArray[Any]:
        """The rows of one batch."""
        return self._epoch_order(epoch)[step * self.size : (step + 1) * self.size]

    def _epoch_order(self, epoch: int) -> NDArray[Any]:
        if not self._shuffle:
            return self._rows
        kept = self._order  # read once: another thread may be a step into the next epoch
        if kept is None or kept[0] != epoch:
            kept = (epoch, self._rows[keyed_order(stream_key(self._seed, "targets", epoch), self._positions)])
            self._order = kept
        return kept[1]
