"""In-edges of a set of rows, the one message all compute kernels take, and how their work is cut for threads.

Threads take ranges of rows with equally many edges. A row with more than `HUB_EDGES` edges (a hub) is cut into pieces, so that
a million neighbours do not wait for one thread. Pieces depend on the graph alone and are combined in order: results have
the same bits for any number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.core.once import made_once
from starling.kernels.parallel import parallel_for

HUB_EDGES = 1 << 14
PIECE_EDGES = 1 << 13
SERIAL_WORK = 1 << 17
"""Numbers touched below which waking another thread costs more than it gains."""

NO_ROWS: NDArray[np.int64] = np.empty(0, np.int64)
NO_NUMBERS: NDArray[np.int32] = np.empty(0, np.int32)
NO_LIMIT = np.iinfo(np.int64).max


Read = Callable[[NDArray[np.int64], NDArray[np.int64], NDArray[Any], NDArray[Any], int, int], object]
"""Goes through items start … stop − 1, given ``(begin, end, neighbours, edges, start, stop)``: item i's entries are begin[i] …"""


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
    return _in_pieces(begin[hubs], end[hubs], -(-degree[hubs] // PIECE_EDGES), hubs)


def _in_pieces(begin: NDArray[np.int64], end: NDArray[np.int64], pieces: NDArray[np.int64], owner: NDArray[np.int64]) -> Work:
    """Every list in so many items, one after the other."""
    number = np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    first = np.repeat(begin, pieces) + number * PIECE_EDGES
    return Work(first, np.minimum(first + PIECE_EDGES, np.repeat(end, pieces)), np.repeat(owner, pieces), NO_LIMIT)


class Lists(Protocol):
    """Neighbour lists as kernels take them: stored (`Adjacency`), or read from those of a larger graph (`looked_up.py`).

    Row r hears from offsets[r + 1] − offsets[r] neighbours, rows of a matrix of `columns` rows (seen from their sources, lists that
    are read may have fewer). Where `numbered`, every entry has the number of its edge, by which values of edges are kept.
    """

    @property
    def rows(self) -> int:
        """How many rows hear."""

    @property
    def columns(self) -> int:
        """How many rows there are to hear from."""

    @property
    def entries(self) -> int:
        """How many edges there are."""

    @property
    def numbered(self) -> bool:
        """Whether entries have numbers."""

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Where each row's entries begin; the last is their number."""

    @property
    def ordinary(self) -> Work:
        """All rows but the hubs, one item a row."""

    @property
    def hubs(self) -> Work | None:
        """The pieces of the hubs, in row order; None where there are none."""

    @property
    def transposed(self) -> Lists:
        """The same edges seen from their sources."""

    def turned_for(self, edge_values: NDArray[Any]) -> Lists:
        """The transpose, with edge numbers only where there are values to read by them."""

    @property
    def by_edge(self) -> Lists:
        """The same rows hearing from their edges: neighbour k is edge number k, a row of a matrix with one row an edge."""

    def some_rows(self, first: int, last: int) -> Lists:
        """The rows from `first` to `last` − 1; entries keep their numbers, and are not copied."""

    def neighbours_at(self, entries: NDArray[np.int64] | slice) -> NDArray[Any]:
        """The neighbours of some entries, by their numbers in `offsets`."""

    def read(self, work: Work, start: int, stop: int, call: Read) -> None:
        """Have `call` go through some items of `work`, in one stretch or several."""


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

    @property
    def entries(self) -> int:
        """How many edges there are."""
        return len(self.neighbours)

    def some_rows(self, first: int, last: int) -> Adjacency:
        """A stretch of the lists."""
        ends = self.offsets[first : last + 1]
        entries = slice(ends[0], ends[-1])
        numbers = self.by_edge.neighbours[entries] if self.numbered else NO_NUMBERS
        return Adjacency(ends - ends[0] if ends[0] else ends, self.neighbours[entries], self.columns, numbers, self.numbered)

    def neighbours_at(self, entries: NDArray[np.int64] | slice) -> NDArray[Any]:
        """Out of the lists."""
        found: NDArray[Any] = self.neighbours[entries]
        return found

    def read(self, work: Work, start: int, stop: int, call: Read) -> None:
        """All at once: the lists are there."""
        call(work.begin, work.end, self.neighbours, self.edges, start, stop)

    @cached_property
    def ordinary(self) -> Work:
        """All rows but the hubs, one item a row."""
        return ordinary_work(self.offsets[:-1], self.offsets[1:], self.offsets, hubs=self.hubs is not None)

    @cached_property
    def hubs(self) -> Work | None:
        """The pieces of the hubs, in row order; None where there are none."""
        return hub_work(self.offsets[:-1], self.offsets[1:])

    @made_once
    def transposed(self) -> Adjacency:
        """The same edges seen from their sources, each list in edge order. Two passes over the edges, made once and kept."""
        return self.transpose() if self.numbered else self.transposed_unnumbered

    def transpose(self) -> Adjacency:
        """What `transposed` gives, not kept here: for those who make something else of it."""
        if not self.numbered:
            return self._turned(NO_NUMBERS)
        return self._turned(np.empty(len(self.neighbours), self.number_type))

    @made_once
    def transposed_unnumbered(self) -> Adjacency:
        """`transposed` for sums whose edges have no values of their own: 4 bytes an edge instead of 8."""
        if "transposed" in self.__dict__ and self.numbered:
            return self.transposed
        return self._turned(NO_NUMBERS)

    def turned_for(self, edge_values: NDArray[Any]) -> Adjacency:
        """The transpose, with edge numbers only where there are values to read by them."""
        return self.transposed if len(edge_values) else self.transposed_unnumbered

    @property
    def number_type(self) -> np.dtype[Any]:
        """Of edges' numbers, which may be those of longer lists that these are some of."""
        return self.edges.dtype if len(self.edges) else np.dtype(np.int32 if len(self.neighbours) < 2**31 else np.int64)

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
        numbers = self.edges if len(self.edges) else np.arange(entries, dtype=self.number_type)
        return Adjacency(self.offsets, numbers, entries, self.edges)


def adjacency(offsets: NDArray[np.int64], neighbours: NDArray[np.int32], columns: int) -> Adjacency:
    """An adjacency whose entry k is edge k."""
    return Adjacency(offsets, neighbours, columns, NO_NUMBERS)


def run(work: Work, width: int, threads: int | None, kernel: Callable[..., object], *arguments: object) -> None:
    """Call ``kernel(begin, end, owner, limit, *arguments, start, stop)`` over ranges of items that hold equally many edges.

    `width` is how many numbers one edge costs; little work is done by the calling thread alone.
    """

    def over(start: int, stop: int) -> None:
        kernel(work.begin, work.end, work.owner, work.limit, *arguments, start, stop)

    _share_out(work, width, threads, over)


def run_lists(
    lists: Lists, work: Work, width: int, threads: int | None, kernel: Callable[..., object], *arguments: object
) -> None:
    """`run` for kernels that read the lists: ``kernel(begin, end, owner, limit, neighbours, edges, *arguments, start, stop)``."""

    over_items = on_read(work, kernel, *arguments)
    _share_out(work, width, threads, lambda start, stop: lists.read(work, start, stop, over_items))


def on_read(work: Work, kernel: Callable[..., object], *arguments: object) -> Read:
    """A kernel as a call over items of `work` that were read."""

    def call(
        begin: NDArray[np.int64], end: NDArray[np.int64], neighbours: NDArray[Any], edges: NDArray[Any], start: int, stop: int
    ) -> None:
        kernel(begin, end, work.owner, work.limit, neighbours, edges, *arguments, start, stop)

    return call


def run_edges(lists: Lists, width: int, threads: int | None, kernel: Callable[..., object], *arguments: object) -> None:
    """`run_lists` over all edges, hubs' pieces included, for kernels that write a value an edge and combine nothing."""
    for work in works(lists):
        run_lists(lists, work, width, threads, kernel, *arguments)


def run_edges_of(
    lists: Lists, rows: NDArray[np.int64], width: int, threads: int | None, kernel: Callable[..., object], *arguments: object
) -> None:
    """`run_edges` over the lists of some rows alone."""
    begin, end = lists.offsets[rows], lists.offsets[1:][rows]
    pieces = np.maximum(1, -(-(end - begin) // PIECE_EDGES))
    run_lists(lists, _in_pieces(begin, end, pieces, rows), width, threads, kernel, *arguments)


def works(lists: Lists) -> tuple[Work, ...]:
    """All edges, hubs' pieces included."""
    return (lists.ordinary,) if lists.hubs is None else (lists.ordinary, lists.hubs)


def _share_out(work: Work, width: int, threads: int | None, over: Callable[[int, int], None]) -> None:
    items = len(work.begin)
    if items == 0:
        return
    entries = items * PIECE_EDGES if work.before is None else int(work.before[-1] - work.before[0])
    if (entries + items) * width < SERIAL_WORK:
        threads = 1
    parallel_for(items, over, threads, offsets=work.before)


@compiled
def number_of(edges: NDArray[Any], entry: Any) -> np.uint64:
    """The number of an entry's edge; entries without `edges` are numbered as they lie."""
    return np.uint64(edges[entry]) if len(edges) else np.uint64(entry)


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
