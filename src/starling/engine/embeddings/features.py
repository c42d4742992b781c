"""Features with embeddings: learnt columns beside every node's features, or learnt rows for the nodes that have none.

Whatever reads features row by row (evaluation, inference) reads the rows as they are now; a step of training gets `OwnRows`, which
gather gradients and move the rows afterwards.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from starling.engine.features import Features
from starling.nn.inputs import LearntRows


class MovingRows(Protocol):
    """Learnt rows that a step reads and moves: a table, or what one part of several sees of it."""

    count: int
    width: int

    def rows(self, index: NDArray[Any], /) -> NDArray[np.float32]:
        """Rows as they are now, in fresh memory."""

    def all(self) -> NDArray[np.float32]:
        """All rows: where they are in memory maybe the table itself, which the next update changes."""

    def reading(self, rows: LearntRows, /) -> None:
        """A step has read these rows: they are to be moved when it ends."""

    def add(self, index: NDArray[Any], gradient: NDArray[np.float32], /) -> None:
        """One step: move these rows, each named once, by their gradients."""


class OwnRows(LearntRows):
    """Rows of a table in this process: of one process's nodes, or those of a worker that owns them.

    `index` None are all rows; where the table is in memory, these are read and moved in place. With `repeats` a node
    that a step sees at several times (plan/timed.py) is named as often: its row is moved once, by the sum of their gradients.
    """

    def __init__(
        self, table: MovingRows, index: NDArray[Any] | None, places: Tensor | None = None, *, repeats: bool = False
    ) -> None:
        super().__init__()
        self._table, self._index, self.places = table, index, places
        self._copy_of: NDArray[np.int64] | None = None
        if index is not None and repeats:
            self._index, self._copy_of = np.unique(index, return_inverse=True)

    def _read(self) -> Tensor:
        self._table.reading(self)
        rows = torch.from_numpy(self._table.all() if self._index is None else self._table.rows(self._index))
        return rows if self._copy_of is None else rows[torch.from_numpy(self._copy_of)]

    def _update(self, gradient: Tensor) -> None:
        index = np.arange(self._table.count) if self._index is None else self._index
        if self._copy_of is not None:
            gradient = gradient.new_zeros(len(index), gradient.shape[1]).index_add_(
                0, torch.from_numpy(self._copy_of), gradient
            )
        self._table.add(index, gradient.numpy())


class EmbeddedFeatures(Features):
    """Fixed features and learnt rows. Without `row_of` every node has both, side by side, the learnt columns last.

    With `row_of` [V], the row of the table that stands in for a node's features, −1 for nodes that have their own: a learnt row
    fills the first columns of a row of zeros.
    """

    learnt = True

    def __init__(self, fixed: Features, table: MovingRows, row_of: NDArray[np.int64] | None = None) -> None:
        if row_of is not None and fixed.width < table.width:
            raise ValueError(f"embeddings of {table.width} columns do not fit into {fixed.width} of features")
        self.fixed, self.table, self.row_of = fixed, table, row_of
        self.count, self.width = fixed.count, fixed.width + (table.width if row_of is None else 0)
        self.type_widths = tuple(width or table.width for width in fixed.type_widths)

    def step_rows(self, index: NDArray[Any] | None, *, repeats: bool = False) -> tuple[NDArray[np.float32], LearntRows | None]:
        """Fixed features, and the learnt rows to be read when the step begins."""
        fixed = self.fixed.all() if index is None else self.fixed.rows(index)
        if self.row_of is None:
            return fixed, OwnRows(self.table, index, repeats=repeats)
        row = self.row_of if index is None else self.row_of[index]
        places = np.flatnonzero(row >= 0)
        return fixed, OwnRows(self.table, row[places], torch.from_numpy(places), repeats=repeats)

    def all(self) -> NDArray[np.float32]:
        """Every row as it is now; the table itself where there is nothing else."""
        return self.table.all() if self.row_of is None and self.fixed.width == 0 else super().all()

    def _rows(self, index: NDArray[Any]) -> NDArray[np.float32]:
        if self.row_of is None:
            learnt = self.table.rows(index)
            return learnt if self.fixed.width == 0 else np.concatenate([self.fixed.rows(index), learnt], axis=1)
        rows, row = self.fixed.rows(index), self.row_of[index]
        mine = np.flatnonzero(row >= 0)
        rows[mine, : self.table.width] = self.table.rows(row[mine])
        return rows


class Beside(Features):
    """Columns of two sets of features, side by side."""

    def __init__(self, left: Features, right: Features) -> None:
        if left.count != right.count:
            raise ValueError(f"features of {left.count} nodes beside those of {right.count}")
        self.count, self.width, self._left, self._right = left.count, left.width + right.width, left, right

    def _rows(self, index: NDArray[Any]) -> NDArray[np.float32]:
        return np.concatenate([self._left.rows(index), self._right.rows(index)], axis=1)


class InPlace(Features):
    """Features in which some nodes' first columns are rows of another table, one for every node."""

    def __init__(self, fixed: Features, rows: Features, nodes: NDArray[Any]) -> None:
        self.count, self.width, self._fixed, self._table = fixed.count, fixed.width, fixed, rows
        self.type_widths = tuple(width or rows.width for width in fixed.type_widths)
        self._replaced = np.zeros(fixed.count, np.bool_)
        self._replaced[nodes] = True

    def _rows(self, index: NDArray[Any]) -> NDArray[np.float32]:
        rows, mine = self._fixed.rows(index), np.flatnonzero(self._replaced[index])
        rows[mine, : self._table.width] = self._table.rows(index[mine])
        return rows
