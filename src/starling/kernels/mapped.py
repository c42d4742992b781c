"""Neighbour lists of some rows of a graph, read where they lie: lists are not copied, ids go through a map.

A row is a chosen list of the graph, and `place` tells which row stands for each of the graph's nodes, if any. Seen from the sources
it is the same on the graph's transposed lists, of which entries without a place are skipped.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.kernels.adjacency import NO_NUMBERS, NO_ROWS, Adjacency, Read, Work, adjacency
from starling.kernels.looked_up import Entries, LookedUpLists, ends_of, entries_of, followed, lengths_of, shifts


@dataclass(frozen=True, eq=False)
class SeenFrom:
    """The nodes `sources` are the columns of some lists, and ``row_of[n]`` is the row of node n, if it has one."""

    sources: NDArray[Any]
    row_of: NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class MappedLists(LookedUpLists):
    """Row i hears from the neighbours in list chosen[i] of a graph, those that have a place among `columns` rows.

    A row that hears from nobody has no list: −1. With a `shift` edges have numbers: those in the graph's lists plus ``shift[i]``,
    or by place ``shift[place]``, since edges of some rows are numbered on their own.
    """

    lists: Adjacency
    chosen: NDArray[Any]
    place: NDArray[np.int32]
    columns: int
    shift: NDArray[np.int64] | None = None
    by_place: bool = False
    seen_from: SeenFrom | None = None
    """What the same edges are seen from on the other side."""
    of_edges: bool = False
    """Rows hear from their edges, by number, and not from their neighbours."""
    first: int = 0

    @property
    def numbered(self) -> bool:
        """Whether edges have numbers."""
        return self.shift is not None

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """Where each row's entries would begin if the lists lay one after the other; entries without a place count."""
        return ends_of(lengths_of(self.lists.offsets, self.chosen))

    @cached_property
    def found_in(self) -> Entries:
        """In the graph's lists."""
        moved: NDArray[np.int64] = self.lists.offsets[self.chosen] - self.offsets[:-1]
        shift = NO_ROWS if self.shift is None else self.shift
        return Entries(self.lists.neighbours, NO_NUMBERS, self.lists.edges, moved, shift, self.by_place)

    @cached_property
    def transposed(self) -> MappedLists:
        """Read from the graph's lists as they are seen from their sources."""
        seen = self.seen_from
        assert seen is not None, "these lists were made to be read one way"
        turned = self.lists.transposed if self.numbered else self.lists.transposed_unnumbered
        return MappedLists(turned, seen.sources, seen.row_of, len(self.chosen), self.shift, by_place=True)

    def turned_for(self, edge_values: NDArray[Any]) -> MappedLists:
        """The transpose."""
        return self.transposed

    @cached_property
    def by_edge(self) -> MappedLists | Adjacency:
        """The same rows hearing from their edges. Where all entries have places their numbers follow one another."""
        if self.by_place:
            return replace(self, of_edges=True)
        return adjacency(self.offsets, np.arange(self.entries, dtype=self.lists.number_type), self.entries)

    @property
    def taken_from(self) -> NDArray[np.int64]:
        """Of each edge its entry in the graph's lists."""
        return entries_of(self.lists.offsets, self.chosen)

    def read(self, work: Work, start: int, stop: int, call: Read) -> None:
        """Neighbours, or edges."""
        if not self.of_edges:
            return super().read(work, start, stop, call)
        return super().read(
            work, start, stop, lambda begin, end, _, number, first, after: call(begin, end, number, number, first, after)
        )

    def excerpt(self, rows: NDArray[np.int64], sources: NDArray[np.int64]) -> MappedLists:
        """Some rows, and all that these hear from, in this order: the edges are numbered anew."""
        seen = self.seen_from
        assert seen is not None, "these lists were made to be read one way"
        place, row_of = followed(self.place, self.columns, sources), followed(seen.row_of, self.rows, rows)
        return map_lists(self.lists, self.chosen[rows], place, SeenFrom(seen.sources[sources], row_of))

    def some_rows(self, first: int, last: int) -> MappedLists:
        """The rows from `first` to `last` − 1; entries keep their numbers."""
        seen, shift = self.seen_from, self.shift
        return replace(
            self,
            chosen=self.chosen[first:last],
            shift=shift if shift is None or self.by_place else shift[first:last],
            seen_from=None if seen is None else SeenFrom(seen.sources, seen.row_of - np.int32(first)),
        )

    def from_columns(self, first: int, last: int) -> MappedLists:
        """The same rows hearing from the columns `first` to `last` − 1 alone; entries keep their numbers."""
        shift = self.shift[first:last] if self.by_place and self.shift is not None else self.shift
        return replace(self, first=self.first + first, columns=last - first, shift=shift)


def map_lists(lists: Adjacency, chosen: NDArray[Any], place: NDArray[np.int32], seen_from: SeenFrom) -> MappedLists:
    """The lists `chosen` of a graph, all of whose neighbours are among the sources; edges are numbered list by list."""
    return MappedLists(lists, chosen, place, len(seen_from.sources), shifts(lists.offsets, chosen), seen_from=seen_from)
