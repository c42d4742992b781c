"""Edges from a node to itself, found in neighbour lists in which row i is source i."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.kernels.csr import Csr
from starling.kernels.parallel import parallel_for


def loop_entries(offsets: NDArray[Any], neighbours: NDArray[Any], threads: int | None = None) -> NDArray[np.int64]:
    """The entry of each row's first self-loop [rows], −1 for a row without one. One pass over the lists."""
    rows = len(offsets) - 1
    found = np.full(rows, -1, np.int64)
    parallel_for(rows, lambda start, stop: _find(offsets, neighbours, found, start, stop), threads, offsets=offsets)
    return found


def looped_rows(lists: Csr, rows: int) -> NDArray[np.bool_]:
    """Which of so many rows, those with lists being the first, have a self-loop among their in-edges."""
    looped = np.zeros(rows, np.bool_)
    looped[: lists.rows] = loop_entries(lists.offsets, lists.neighbours) >= 0
    return looped


@compiled
def _find(offsets: NDArray[Any], neighbours: NDArray[Any], found: NDArray[np.int64], start: int, stop: int) -> None:
    for row in range(start, stop):
        for entry in range(offsets[row], offsets[row + 1]):
            if neighbours[entry] == row:
                found[row] = entry
                break
