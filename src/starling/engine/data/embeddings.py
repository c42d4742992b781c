"""Embeddings of a data-parallel step: rows pulled from their owners when it begins, gradients pushed to them when it ends.

Which rows a step reads is known as soon as it is sampled, so the requests are exchanged in the background, ahead of training. The
rows themselves are sent in the step, when all updates of the step before it are made: every worker answers in the same thread
that moves its rows. So results are those of one process, and repeat bit for bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from starling.engine.data.kv import KeyValueStore
from starling.engine.embeddings.table import EmbeddingTable
from starling.engine.hybrid.messages.calls import Calls
from starling.nn.inputs import LearntRows

EMBEDDING = "embedding"
"""The name of the table in the store."""


class SomeRows:
    """A table with rows for some of a worker's own nodes, as the store sees it: node i has row `row_of[i]`."""

    def __init__(self, table: EmbeddingTable, row_of: NDArray[np.int64]) -> None:
        self._table, self._row_of = table, row_of
        self.dtype, self.row_shape = table.dtype, table.row_shape

    def rows(self, index: NDArray[Any]) -> NDArray[np.float32]:
        """Rows of own nodes."""
        return self._table.rows(self._row_of[index])

    def add(self, index: NDArray[Any], values: NDArray[np.float32]) -> None:
        """Move rows of own nodes by their gradients."""
        self._table.add(self._row_of[index], values)


class PulledRows(LearntRows):
    """Rows of nodes that any worker may own. Every worker makes one in every step, also without nodes.

    `places` are the nodes' places among the step's inputs, where not all of these have such rows.
    """

    def __init__(
        self, store: KeyValueStore, table: EmbeddingTable, nodes: NDArray[Any], calls: Calls, places: NDArray[Any] | None = None
    ) -> None:
        super().__init__()
        self._table, self._calls = table, calls
        self.places = None if places is None else torch.from_numpy(places)
        self._pull = store.begin_pull(EMBEDDING, nodes, self._calls)
        self._pull.hear()

    @property
    def nbytes(self) -> int:
        """The places, and what the rows will take."""
        return super().nbytes + self._pull.nbytes

    def _read(self) -> Tensor:
        self._table.reading(self)
        return torch.from_numpy(self._pull.rows())

    def _update(self, gradient: Tensor) -> None:
        self._pull.push(gradient.numpy(), self._calls)
