"""Copies of rows that other hosts own and batches will often ask for; filled once, when a run begins.

Which rows these are says `inclusion.py`. Rows never change, so neither does any result: a row from here is the row itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.engine.data.tables import words_of
from starling.kernels.ranked_set import RankedSet, contains, rank_of


class StaticCache:
    """Rows of the ids given, which are ascending and different. Costs the rows and 3 bits for every node of the graph."""

    def __init__(self, ids: NDArray[Any], rows: NDArray[Any], nodes: int) -> None:
        if len(ids) != len(rows) or (len(ids) > 1 and not (np.diff(ids) > 0).all()):
            raise ValueError("a cache wants ascending ids and a row for each")
        self._set = RankedSet(nodes)
        self._set.add_all(ids)
        self._set.rank()
        self.words = words_of(rows)

    def __len__(self) -> int:
        return self._set.count

    @property
    def nbytes(self) -> int:
        """What the rows take."""
        return self.words.nbytes

    def find(self, ids: NDArray[Any]) -> NDArray[np.int64]:
        """The row of each id here, or −1."""
        rows = np.empty(len(ids), np.int64)
        _find(self._set.words, self._set.before, ids, rows)
        return rows


@compiled
def _find(words: NDArray[np.uint64], before: NDArray[Any], ids: NDArray[Any], rows: NDArray[np.int64]) -> None:
    for i in range(len(ids)):
        rows[i] = rank_of(words, before, ids[i]) if contains(words, ids[i]) else -1
