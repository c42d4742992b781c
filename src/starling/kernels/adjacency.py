"""In-edges of a set of rows, the one message all compute kernels take, and how their work is cut for threads.

Threads take ranges of rows with equally many edges. A row with more than `HUB_EDGES` edges (a hub) is cut into pieces, so that
a million neighbours do not wait for one thread. Pieces depend on the graph alone and are combined in order: results have
the same bits for any number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.kernels.parallel import parallel_for

HUB_EDGES = 1 << 14
PIECE_EDGES = 1 << 13
SERIAL_WORK = 1 << 17
"""Numbers touched below which waking another thread costs more than it gains."""

NO_ROWS: NDArray[np.int64] = np.empty(0, np.int64)
NO_NUMBERS: NDArray[np.int32] = np.empty(0, np.int32)
NO_LIMIT = np.iinfo(np.int64).max


@dataclass(frozen=True, eq=False)
class Work:
    """Ranges of edges to go through: item i covers entries begin[i] … end[i] − 1 of row owner[i], or of row i without `owner`.

    Items with more than `limit` entries are skipped: somebody else does them. `before` counts the entries before each item, and all
    of them last; without it items are taken for equally long.
    """

    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    owner: NDArray[np.int64]
    limit: int
    before: NDArray[np.int64] | None = None


def ordinary_work(begin: NDArray[np.int64], end: NDArray[np.int64], before: NDArray[np.int64], *, hubs: bool) -> Work:
    """One item a row, all rows or all but the hubs."""
    return Work(begin, end, NO_ROWS, HUB_EDGES if hubs else NO_LIMIT, before)


def hub_work(begin: NDArray[np.int64], end: NDArray[np.int64]) -> Work | None:
    """The pieces of rows with many entries, in row order; None where there are none."""
    degree = end - begin
    hubs = np.flatnonzero(degree > HUB_EDGES)
    if len(hubs) == 0:
        return None
    pieces = -(-degree[hubs] // PIECE_EDGES)
    owner = np.repeat(hubs, pieces)
    number = np.arange(len(owner)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    first = begin[owner] + number * PIECE_EDGES
    return Work(first, np.minimum(first + PIECE_EDGES, end[owner]), owner, NO_LIMIT)


@dataclass(frozen=True, eq=False)
class Adjacency:
    """Row r hears from ``neighbours[offsets[r]] … neighbours[offsets[r + 1] − 1]``, rows of a matrix of `columns` rows.

    Entry k is edge number ``edges[k]``, or edge k where `edges` is empty; per-edge values are always kept by edge number. Where
    edges have no values of their own, their numbers need not be kept: `numbered` is false, and nothing can be read by them.
    """

    offsets: NDArray[np.int64]
    neighbours: NDArray[Any]
    columns: int
    edges: NDArray[Any]
    numbered: bool = True

    @property
    def rows(self) -> int:
        """How many rows hear."""
        return len(self.offsets) - 1

    @cached_property
    def ordinary(self) -> Work:
        """All rows but the hubs, one item a row."""
        return ordinary_work(self.offsets[:-1], self.offsets[1:], self.offsets, hubs=self.hubs is not None)

    @cached_property
    def hubs(self) -> Work | None:
        """The pieces of the hubs, in row order; None where there are none."""
        return hub_work(self.offsets[:-1], self.offsets[1:])

    @cached_property
    def transposed(self) -> Adjacency:
        """The same edges seen from their sources, each list in edge order. Two passes over the edges, made once and kept."""
        return self.transpose() if self.numbered else self.transposed_unnumbered

    def transpose(self) -> Adjacency:
        """What `transposed` gives, not kept here: for those who make something else of it."""
        if not self.numbered:
            return self._turned(NO_NUMBERS)
        return self._turned(np.empty(len(self.neighbours), np.int32 if len(self.neighbours) < 2**31 else np.int64))

    @cached_property
    def transposed_unnumbered(self) -> Adjacency:
        """`transposed` for sums whose edges have no values of their own: 4 bytes an edge instead of 8."""
        if "transposed" in self.__dict__ and self.numbered:
            return self.transposed
        return self._turned(NO_NUMBERS)

    def turned_for(self, edge_values: NDArray[Any]) -> Adjacency:
        """The transpose, with edge numbers only where there are values to read by them."""
        return self.transposed if len(edge_values) else self.transposed_unnumbered

    def _turned(self, edges: NDArray[Any]) -> Adjacency:
        """The transpose; `edges` is filled with numbers, unless it is empty."""
        offsets = np.zeros(self.columns + 1, np.int64)
        rows = np.empty(len(self.neighbours), np.int32)
        _transpose(self.offsets, self.neighbours, self.edges, offsets, rows, edges)
        return Adjacency(offsets, rows, self.rows, edges, numbered=len(edges) == len(rows))

    @cached_property
    def by_edge(self) -> Adjacency:
        """The same rows hearing from their edges: neighbour k is edge number k, a row of a matrix with one row an edge."""
        entries = len(self.neighbours)
        kind = np.int32 if entries < 2**31 else np.int64
        numbers = self.edges if len(self.edges) else np.arange(entries, dtype=kind)
        return Adjacency(self.offsets, numbers, entries, self.edges)


def adjacency(offsets: NDArray[np.int64], neighbours: NDArray[np.int32], columns: int) -> Adjacency:
    """An adjacency whose entry k is edge k."""
    return Adjacency(offsets, neighbours, columns, NO_NUMBERS)


def run(work: Work, width: int, threads: int | None, kernel: Callable[..., object], *arguments: object) -> None:
    """Call ``kernel(begin, end, owner, limit, *arguments, start, stop)`` over ranges of items that hold equally many edges.

    `width` is how many numbers one edge costs; little work is done by the calling thread alone.
    """
    items = len(work.begin)
    if items == 0:
        return
    entries = items * PIECE_EDGES if work.before is None else int(work.before[-1] - work.before[0])
    if (entries + items) * width < SERIAL_WORK:
        threads = 1
    parallel_for(
        items,
        lambda start, stop: kernel(work.begin, work.end, work.owner, work.limit, *arguments, start, stop),
        threads,
        offsets=work.before,
    )


def run_edges(adjacency: Adjacency, width: int, threads: int | None, kernel: Callable[..., object], *arguments: object) -> None:
    """`run` over all edges, hubs' pieces included, for kernels that write a value an edge and combine nothing."""
    run(adjacency.ordinary, width, threads, kernel, *arguments)
    if adjacency.hubs is not None:
        run(adjacency.hubs, width, threads, kernel, *arguments)


@compiled
def _transpose(
    offsets: NDArray[np.int64],
    neighbours: NDArray[np.int32],
    numbers: NDArray[Any],
    out_offsets: NDArray[np.int64],
    out_rows: NDArray[np.int32],
    out_edges: NDArray[Any],
) -> None:
    """Stable counting sort of the entries by neighbour. `out_offsets` comes in as zeros; an empty `out_edges` is left alone."""
    columns = len(out_offsets) - 1
    for k in range(len(neighbours)):
        out_offsets[neighbours[k] + 1] += 1
    for c in range(columns):
        out_offsets[c + 1] += out_offsets[c]
    at = out_offsets[:columns].copy()
    for row in range(len(offsets) - 1):
        for k in range(offsets[row], offsets[row + 1]):
            place = at[neighbours[k]]
            at[neighbours[k]] += 1
            out_rows[place] = row
            if len(out_edges):
                out_edges[place] = numbers[k] if len(numbers) else k
