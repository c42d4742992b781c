"""A growing list of rows, each once, that renumbers neighbours by their place in it: the sources of one block after another.

It is the map of `relabel.py` kept from hop to hop. The rows of a hop stay where they are and new neighbours follow, so that the
destinations of a block are always the first of its sources, and no row is looked up again that is known already.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.kernels.csr import Csr
from starling.kernels.machine import prefetch
from starling.kernels.relabel import relabel_map

_U = np.uint64
_AHEAD, _LINES, _LINE = 8, 2, 16
"""Rows whose lists are asked for in advance, how much of each, and the entries in a cache line."""


class Frontier:
    """Rows in order of first appearance. It borrows a map of all rows (`relabel_map`) until it is cleared."""

    def __init__(self, places: NDArray[np.int32], rows: NDArray[Any]) -> None:
        self._places = places
        self.rows = rows[:0]
        self.extend(rows)

    def __len__(self) -> int:
        return len(self.rows)

    def extend(self, rows: NDArray[Any]) -> NDArray[np.int32]:
        """Add the rows that are new, and give the place of each."""
        known = len(self.rows)
        grown = np.empty(known + len(rows), self.rows.dtype)
        grown[:known] = self.rows
        places = np.empty(len(rows), np.int32)
        count = _extend(rows, self._places, known, grown, places)
        self.rows = grown[:count]
        return places

    def extend_from(self, lists: Csr, rows: NDArray[Any]) -> int:
        """Add the neighbours of rows that are new, read where their lists lie; gives how many entries these have."""
        known = len(self.rows)
        grown = np.empty(known + len(self._places), self.rows.dtype)
        grown[:known] = self.rows
        count, entries = _extend_from(lists.offsets, lists.neighbours, rows, self._places, known, grown)
        self.rows = grown[:count].copy()
        return int(entries)

    @property
    def places(self) -> NDArray[np.int32]:
        """The place of every row of the graph, −1 for those that are not here; to be read before `clear`."""
        return self._places

    def clear(self) -> None:
        """Forget all rows; the map is free again."""
        _free(self.rows, self._places)
        self.rows = self.rows[:0]


class FrontierPool:
    """Maps for as many frontiers as are in use at once: one a thread that makes batches, 4 bytes a row each."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._free: deque[NDArray[np.int32]] = deque()

    @contextmanager
    def frontier(self, rows: NDArray[Any]) -> Iterator[Frontier]:
        """A frontier that begins with `rows`; its map returns to the pool afterwards."""
        try:
            places = self._free.pop()
        except IndexError:
            places = relabel_map(self._rows)
        frontier = Frontier(places, rows)
        yield frontier
        frontier.clear()
        self._free.append(places)  # not after an error: a map in doubt is dropped


@compiled
def _extend(rows: NDArray[Any], map_: NDArray[np.int32], known: int, grown: NDArray[Any], places: NDArray[np.int32]) -> int:
    count = known
    for i in range(len(rows)):
        row = np.uint64(rows[i])
        place = map_[row]
        if place < 0:
            place = np.int32(count)
            map_[row] = place
            grown[count] = rows[i]
            count += 1
        places[i] = place
    return count


@compiled
def _extend_from(
    offsets: NDArray[np.int64],
    neighbours: NDArray[Any],
    rows: NDArray[Any],
    map_: NDArray[np.int32],
    known: int,
    grown: NDArray[Any],
) -> tuple[int, int]:
    count, entries = known, 0
    for i in range(len(rows)):
        ahead = offsets[_U(rows[min(i + _AHEAD, len(rows) - 1)])]
        for line in range(_LINES):
            prefetch(neighbours, ahead + line * _LINE)
        begin, end = offsets[_U(rows[i])], offsets[_U(rows[i]) + _U(1)]
        entries += end - begin
        for k in range(_U(begin), _U(end)):
            row = _U(neighbours[k])
            if map_[row] < 0:
                map_[row] = count
                grown[count] = neighbours[k]
                count += 1
    return count, entries


@compiled
def _free(rows: NDArray[Any], map_: NDArray[np.int32]) -> None:
    for i in range(len(rows)):
        map_[np.uint64(rows[i])] = -1


def cut_by_sources(offsets: NDArray[np.int64], neighbours: NDArray[Any], sources: int, edges: int) -> NDArray[np.int64]:
    """Bounds of ranges of rows, each as long as its rows and their neighbours, every one counted once, are at most `sources`.

    Nor has a range more than `edges` edges; a row that is too much by itself is a range by itself. One pass over the edges.
    """
    rows = len(offsets) - 1
    bounds = np.empty(rows + 1, np.int64)
    seen = np.full(max(rows, int(neighbours.max(initial=-1)) + 1), -1, np.int32)
    return bounds[: 1 + _cut_by_sources(offsets, neighbours, sources, edges, seen, bounds)].copy()


@compiled
def _cut_by_sources(
    offsets: NDArray[np.int64],
    neighbours: NDArray[Any],
    sources: int,
    edges: int,
    seen: NDArray[np.int32],
    bounds: NDArray[np.int64],
) -> int:
    """Fill the bounds; returns how many ranges there are. `seen` is the last range that a row was a source of."""
    rows = len(offsets) - 1
    bounds[0] = 0
    count = start = members = row = 0
    while row < rows:
        if seen[row] != count:
            seen[row] = count
            members += 1
        for k in range(offsets[row], offsets[row + 1]):
            node = np.uint64(neighbours[k])
            if seen[node] != count:
                seen[node] = count
                members += 1
        too_much = members > sources or offsets[row + 1] - offsets[start] > edges
        if too_much and row > start:  # this row begins the next range, and is looked at again there
            count += 1
            bounds[count] = start = row
            members = 0
        else:
            row += 1
    if rows:
        count += 1
        bounds[count] = rows
    return count
