"""Embeddings of parts that train in turn: a part moves the rows of its own nodes, and sees all others as they were last shown.

A worker's table has the rows of all its parts. Besides, rows of all nodes lie in a file that all workers share, by global id: what
has been shown. Between two showings nothing in it changes, so what a part reads of its halo does not depend on which parts had
their turn before it, nor on who trains them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.engine.embeddings.features import MovingRows
from starling.engine.embeddings.table import EmbeddingTable
from starling.engine.features import Features
from starling.engine.row_table import RowTable
from starling.nn.inputs import LearntRows

SHOWN = "embeddings.rows"
"""The file of a scratch folder that has all rows as they were last shown."""


class ShownRows(Features):
    """Rows of all nodes by global id as their owners last showed them; nodes that have no learnt row are zero."""

    def __init__(self, count: int, width: int) -> None:
        self.count, self.width, self.showings = count, width, 0

    def begin(self, folder: Path) -> None:
        """Take the room for them in a folder that all workers see."""
        self._table = RowTable(self.count, self.width, memory=0, path=folder / SHOWN)

    def show(self, table: EmbeddingTable, nodes: NDArray[Any] | range) -> None:
        """Show a worker's rows as they are now, those of these nodes in order; nobody reads meanwhile, also of other workers."""
        for start, block in table.blocks():
            self._table.scatter(np.asarray(nodes[start : start + len(block)]), block)
        self.showings += 1

    def _rows(self, index: NDArray[Any]) -> NDArray[np.float32]:
        return self._table.rows(index)


class PartRows(MovingRows):
    """The learnt rows of one part, own ones first: rows `first`, `first` + 1, … of the worker's table, then its halo's as shown.

    `halo` are global ids. With `keep` its rows are read once a showing and held, else each time where they lie.
    """

    def __init__(self, table: EmbeddingTable, shown: ShownRows, own: range, halo: NDArray[np.int64], *, keep: bool) -> None:
        self.count, self.width = len(own) + len(halo), table.width
        self._table, self._shown, self._own, self._halo, self._keep = table, shown, own, halo, keep
        self._held, self._seen = np.empty((0, table.width), np.float32), -1

    def rows(self, index: NDArray[Any]) -> NDArray[np.float32]:
        """Own rows as they are now, the halo's as they were shown, in fresh memory."""
        out, own = np.empty((len(index), self.width), np.float32), index < len(self._own)
        out[own] = self._table.rows(self._own.start + index[own])
        out[~own] = self._of_halo(index[~own] - len(self._own))
        return out

    def all(self) -> NDArray[np.float32]:
        """All rows, in fresh memory."""
        return self.rows(np.arange(self.count))

    def reading(self, rows: LearntRows) -> None:
        """A step has read these rows: those of own nodes are to be moved when it ends."""
        self._table.reading(rows)

    def add(self, index: NDArray[Any], gradient: NDArray[np.float32]) -> None:
        """One step: move the own ones of these rows; what a step would do to the halo's is left to their owner's steps."""
        own = index < len(self._own)
        self._table.add(self._own.start + index[own], gradient[own])

    def _of_halo(self, index: NDArray[Any]) -> NDArray[np.float32]:
        if not self._keep:
            return self._shown.rows(self._halo[index])
        if self._seen != self._shown.showings:
            self._held, self._seen = self._shown.rows(self._halo), self._shown.showings
        rows: NDArray[np.float32] = self._held[index]
        return rows
