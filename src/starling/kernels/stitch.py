"""Take rows apart by the range of ids they lie in, and put lists that were found range by range back in the rows' order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.kernels.sampling import Taken

_NO_IDS = np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class Grouped:
    """Places of rows by range: those of range r are order[bounds[r]] … order[bounds[r + 1] − 1], ascending."""

    order: NDArray[np.int64]
    bounds: NDArray[np.int64]

    def of(self, first: int, last: int) -> NDArray[np.int64]:
        """Places of the rows in ranges first … last − 1; of consecutive ranges, in the order of ranges."""
        return self.order[self.bounds[first] : self.bounds[last]]


def group_by_range(ids: NDArray[Any], offsets: NDArray[np.int64]) -> Grouped:
    """Group ids by the range offsets[r] … offsets[r + 1] − 1 they lie in; every id lies in one. One pass and a counting sort."""
    bounds = np.zeros(len(offsets), np.int64)
    order = np.empty(len(ids), np.int64)
    _group(ids, offsets, bounds, order)
    return Grouped(order, bounds)


@dataclass(frozen=True, eq=False)
class Piece:
    """Edges taken for the rows at `places`. `ids` are what `taken`'s neighbours are called in the whole (None: as they are).

    `first_entry` is added to entries.
    """

    places: NDArray[np.int64]
    taken: Taken
    ids: NDArray[Any] | None = None
    first_entry: int = 0


def stitch(rows: int, pieces: Sequence[Piece], dtype: Any, *, entries: bool) -> Taken:
    """One answer for `rows` rows out of pieces that have each row once; neighbours come as `dtype`.

    Without `entries` these are left out (an empty array). A piece without scales beside one that has some counts as scale 1.
    """
    offsets = np.zeros(rows + 1, np.int64)
    for piece in pieces:
        offsets[piece.places + 1] = np.diff(piece.taken.offsets)
    np.cumsum(offsets, out=offsets)
    edges = int(offsets[-1])
    neighbours = np.empty(edges, dtype)
    entry = np.empty(edges if entries else 0, np.int64)
    by_row = np.ones(rows, np.float32) if any(piece.taken.row_scale is not None for piece in pieces) else None
    by_edge = np.ones(edges, np.float32) if any(piece.taken.edge_scale is not None for piece in pieces) else None
    for piece in pieces:
        taken, places = piece.taken, piece.places
        ids = _NO_IDS if piece.ids is None else piece.ids
        _place(places, taken.offsets, taken.neighbours, ids, piece.ids is not None, 0, offsets, neighbours)
        if entries:
            _place(places, taken.offsets, taken.entry, _NO_IDS, False, piece.first_entry, offsets, entry)
        if by_row is not None and taken.row_scale is not None:
            by_row[places] = taken.row_scale
        if by_edge is not None and taken.edge_scale is not None:
            _place(places, taken.offsets, taken.edge_scale, _NO_IDS, False, 0, offsets, by_edge)
    return Taken(offsets, neighbours, entry, by_row, by_edge)


@compiled
def _group(ids: NDArray[Any], offsets: NDArray[np.int64], bounds: NDArray[np.int64], order: NDArray[np.int64]) -> None:
    ranges = len(offsets) - 1
    range_of = np.empty(len(ids), np.int32)
    for i in range(len(ids)):
        low, high = 0, ranges  # offsets[low] <= id < offsets[high]
        while high - low > 1:
            middle = (low + high) >> 1
            if ids[i] < offsets[middle]:
                high = middle
            else:
                low = middle
        range_of[i] = low
        bounds[low + 1] += 1
    for r in range(ranges):
        bounds[r + 1] += bounds[r]
    at = bounds[:-1].copy()
    for i in range(len(ids)):
        order[at[range_of[i]]] = i
        at[range_of[i]] += 1


@compiled
def _place(
    places: NDArray[np.int64],
    given: NDArray[np.int64],
    values: NDArray[Any],
    ids: NDArray[Any],
    translated: bool,
    added: int,
    offsets: NDArray[np.int64],
    out: NDArray[Any],
) -> None:
    """Copy lists to where they belong; values as they are plus `added`, or what `ids` calls them."""
    for i in range(len(places)):
        at = offsets[np.uint64(places[i])]
        first = given[i]
        for k in range(given[i + 1] - first):
            value = values[np.uint64(first + k)]
            if translated:
                out[np.uint64(at + k)] = ids[np.uint64(value)]
            else:
                out[np.uint64(at + k)] = value + added
