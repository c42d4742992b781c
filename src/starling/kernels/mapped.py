"""Weighted sums over neighbour lists of some rows of a graph, read where they lie: lists are not copied, ids go through a map.

The operator is that of `spmm.py`, R (A + L) C x, without weights of edges. A row of the result is a chosen list of the graph, and
`place` tells which row of x stands for each of the graph's nodes, if any. Seen from the sources it is the same kernel on the
graph's transposed lists, of which entries without a place are skipped.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled, compiled_multiply_add
from starling.kernels.adjacency import HUB_EDGES, Adjacency, Work, hub_work, ordinary_work, run
from starling.kernels.lanes import add_scattered
from starling.kernels.machine import prefetch
from starling.kernels.rows import Rows
from starling.kernels.spmm import Coefficients, combine_pieces, finish_row, weighted_sum

_U = np.uint64
_CHUNK = 32
_AT_ONCE = 1 << 11
"""Places that are looked up before their rows are read: so many stay in the first cache."""
_AHEAD = 16
"""Rows whose lists are asked for in advance."""
_LINE = 16
"""Entries of a list in a cache line."""


@dataclass(frozen=True, eq=False)
class MappedLists:
    """Row i hears from the neighbours in list chosen[i] of a graph, those that have a place among the `columns` rows of x.

    ``place[n]`` is the row of node n in x; below zero, or from `columns` on, there is none.
    """

    lists: Adjacency
    chosen: NDArray[Any]
    place: NDArray[np.int32]
    columns: int

    @property
    def rows(self) -> int:
        """How many rows hear."""
        return len(self.chosen)

    @property
    def entries(self) -> int:
        """Neighbours in the chosen lists, with a place or without."""
        return int(self._before[-1])

    @cached_property
    def ordinary(self) -> Work:
        """All rows but the hubs, one item a row."""
        return ordinary_work(self._begin, self._end, self._before, hubs=self.hubs is not None)

    @cached_property
    def hubs(self) -> Work | None:
        """The pieces of the hubs, in row order; None where there are none."""
        return hub_work(self._begin, self._end)

    @cached_property
    def _begin(self) -> NDArray[np.int64]:
        begin: NDArray[np.int64] = self.lists.offsets[self.chosen]
        return begin

    @cached_property
    def _end(self) -> NDArray[np.int64]:
        end: NDArray[np.int64] = self.lists.offsets[1:][self.chosen]
        return end

    @cached_property
    def _before(self) -> NDArray[np.int64]:
        before = np.zeros(len(self.chosen) + 1, np.int64)
        np.cumsum(self._end - self._begin, out=before[1:])
        return before


Lists = Adjacency | MappedLists


def sum_lists(lists: Lists, c: Coefficients, x: Rows, out: Rows, *, accumulate: bool = False) -> None:
    """Write (or add) R (W + L) C x into `out`, for either kind of lists."""
    if isinstance(lists, MappedLists):
        mapped_sum(lists, c, x, out, accumulate=accumulate)
    else:
        weighted_sum(lists, c, x, out, accumulate=accumulate)


def mapped_sum(
    mapped: MappedLists, c: Coefficients, x: Rows, out: Rows, *, accumulate: bool = False, threads: int | None = None
) -> None:
    """Write (or, with `accumulate`, add) R (A + L) C x into `out`."""
    if len(c.edge) or c.heads > 1:
        raise ValueError("edges that are read through a map have no weights")
    source = (mapped.lists.neighbours, mapped.place, mapped.columns, c.source)
    values, target = (x.flat, x.stride), (out.flat, out.stride, out.width, accumulate)
    run(mapped.ordinary, out.width, threads, _sum_rows, *source, c.row, c.own, *values, *target)
    hubs = mapped.hubs
    if hubs is not None:
        none, pieces = c.own[:0], np.empty((len(hubs.owner), out.width), c.own.dtype)
        into = (pieces.reshape(-1), out.width, out.width, False)
        run(hubs, out.width, threads, _sum_rows, *source, none, none, *values, *into)
        combine_pieces(hubs.owner, pieces, c, x, out, accumulate=accumulate)


@compiled_multiply_add
def _sum_rows(
    begin: NDArray[np.int64],
    end: NDArray[np.int64],
    owner: NDArray[np.int64],
    limit: int,
    neighbours: NDArray[np.int32],
    place: NDArray[np.int32],
    columns: int,
    source_scale: NDArray[Any],
    row_scale: NDArray[Any],
    own_weight: NDArray[Any],
    x: NDArray[Any],
    x_stride: int,
    out: NDArray[Any],
    out_stride: int,
    width: int,
    accumulate: bool,
    start: int,
    stop: int,
) -> None:
    scaled = len(source_scale) > 0
    total, weight = np.zeros(width, own_weight.dtype), np.ones(_CHUNK, own_weight.dtype)
    found, ends = np.zeros(_AT_ONCE + HUB_EDGES, np.int32), np.empty(_AT_ONCE + 1, np.int64)
    first = start
    while first < stop:
        after = _look_up(begin, end, limit, neighbours, place, columns, first, stop, found, ends)
        for row in range(first, after):
            if end[row] - begin[row] > limit:
                continue
            for f in range(width):
                total[f] = 0
            k, last = ends[row - first], ends[row - first + 1]
            while k < last:
                count = min(_CHUNK, last - k)
                if scaled:
                    for j in range(_U(count)):
                        weight[j] = source_scale[_U(found[_U(k) + j])]
                add_scattered(total, 0, x, 0, x_stride, found, k, count, weight, width)
                k += count
            finish_row(
                row, total, source_scale, row_scale, own_weight, 1, x, x_stride, 0, out, out_stride, 0, width, accumulate
            )
        first = after


@compiled
def _look_up(
    begin: NDArray[np.int64],
    end: NDArray[np.int64],
    limit: int,
    neighbours: NDArray[np.int32],
    place: NDArray[np.int32],
    columns: int,
    first: int,
    stop: int,
    found: NDArray[np.int32],
    ends: NDArray[np.int64],
) -> int:
    """Fill `found` with the places of some rows' neighbours, the i-th row's from ends[i] to ends[i + 1]; returns the next row."""
    row, count = first, 0
    ends[0] = 0
    while row < stop and count < _AT_ONCE and row - first < _AT_ONCE:
        ahead = begin[min(row + _AHEAD, stop - 1)]
        prefetch(neighbours, ahead)
        prefetch(neighbours, ahead + _LINE)
        if end[row] - begin[row] <= limit:
            for k in range(_U(begin[row]), _U(end[row])):
                at = place[_U(neighbours[k])]
                found[count] = at
                count += 0 <= at < columns
        row += 1
        ends[row - first] = count
    return row
