"""The batches of an epoch when they are fixed: cohesive ones in keyed random order, perhaps with clusters exchanged now and then.

A label is a cluster's number: batch · clusters a batch + cluster inside it. With `regroup_every` n, every n epochs some clusters of
each batch change places with as many of the batch numbered beside it, which is near in the graph (`find.py` numbers them so). The
exchange starts from the same batches each time, so an epoch's batches depend on nothing but the seed and the epoch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.errors import InputError
from starling.core.keyed import stream_key
from starling.kernels.keyed_order import keyed_order

_EXCHANGED = 4
"""One cluster in so many changes places."""


class CohesiveBatches:
    """Targets by fixed batches; `position` [T] is where each row stood in the imported graph, `label` [T] its cluster."""

    def __init__(
        self,
        position: NDArray[Any],
        rows: NDArray[Any],
        label: NDArray[Any],
        clusters_per_batch: int,
        *,
        seed: int,
        regroup_every: int = 0,
    ) -> None:
        if len(label) and int(label.min()) < 0:
            raise InputError("Expected every training node in a cohesive batch, got some without one.")
        order = np.lexsort((position, label))
        self._rows, self._label = rows[order], label[order]
        self._per, self._seed, self._every = clusters_per_batch, seed, regroup_every
        self._batches = np.unique(self._label // clusters_per_batch)

    @property
    def steps(self) -> int:
        """Batches that have targets."""
        return len(self._batches)

    def batch(self, epoch: int, step: int) -> NDArray[Any]:
        """The rows of one batch."""
        return self._rows_of(self.members(epoch)[self.number(epoch, step)])

    def number(self, epoch: int, step: int) -> int:
        """Which batch is a step's, from 0."""
        return int(keyed_order(stream_key(self._seed, "cohesive/order", epoch), self._batches)[step])

    def grouping(self, epoch: int) -> int:
        """How often clusters have changed places by then: batches of one grouping have the same targets."""
        return (epoch - 1) // self._every if self._every else 0

    def targets(self, number: int) -> NDArray[Any]:
        """The rows of a batch that never changes."""
        return self._rows_of(self.members(1)[number])

    def _rows_of(self, clusters: NDArray[np.int64]) -> NDArray[Any]:
        bounds = np.searchsorted(self._label, np.stack([np.sort(clusters), np.sort(clusters) + 1]))
        return np.concatenate([self._rows[start:end] for start, end in bounds.T])

    def members(self, epoch: int) -> NDArray[np.int64]:
        """Clusters [batches, clusters a batch] of every batch in an epoch, from 1."""
        clusters = self._batches[:, None].astype(np.int64) * self._per + np.arange(self._per)
        period = self.grouping(epoch)
        if period == 0 or self._per == 1:
            return clusters
        count = max(1, self._per // _EXCHANGED)
        for left in range((period + 1) % 2, len(clusters) - 1, 2):
            right = left + 1
            key = stream_key(self._seed, "cohesive/regroup", period, left)
            gives, takes = keyed_order(key, clusters[left])[:count], keyed_order(key, clusters[right])[:count]
            clusters[left, gives], clusters[right, takes] = clusters[right, takes], clusters[left, gives]
        return clusters
