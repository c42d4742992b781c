"""Neighbour lists of some rows of a graph, read where they lie: lists are not copied, ids go through a map.

Kernels take them as they take stored ones (`adjacency.Lists`): a stretch of rows at a time is looked up into a buffer that stays in
the cache, and the kernel goes over that. A row is a chosen list of the graph, and `place` tells which row stands for each of the
graph's nodes, if any. Seen from the sources it is the same on the graph's transposed lists, of which entries without a place are
skipped.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.kernels.adjacency import HUB_EDGES, NO_ROWS, Adjacency, Read, Work, adjacency, hub_work, ordinary_work
from starling.kernels.machine import prefetch

_AT_ONCE = 1 << 13
"""Entries that are looked up before a kernel goes over them: with their numbers they stay in the second cache."""
_AHEAD = 16
"""Rows whose lists are asked for in advance."""
_LINE = 16
"""Entries of a list in a cache line."""


@dataclass(frozen=True, eq=False)
class SeenFrom:
    """The nodes `sources` are the columns of some lists, and ``row_of[n]`` is the row of node n, if it has one."""

    sources: NDArray[Any]
    row_of: NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class MappedLists:
    """Row i hears from the neighbours in list chosen[i] of a graph, those that have a place among `columns` rows.

    A row that hears from nobody has no list: −1. ``place[n]`` is the row of node n; below zero, or from `columns` on, there is
    none. With a `shift` edges have numbers: those in the graph's lists plus ``shift[i]``, or by place ``shift[place]``, since edges
    of some rows are numbered on their own.
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

    @property
    def rows(self) -> int:
        """How many rows hear."""
        return len(self.chosen)

    @property
    def numbered(self) -> bool:
        """Whether edges have numbers."""
        return self.shift is not None

    @property
    def entries(self) -> int:
        """Neighbours in the chosen lists, with a place or without."""
        return int(self.offsets[-1])

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """Where each row's entries would begin if the lists lay one after the other; entries without a place count."""
        return np.concatenate([[0], np.cumsum(_lengths(self.lists.offsets, self.chosen))])

    @cached_property
    def ordinary(self) -> Work:
        """All rows but the hubs, one item a row."""
        return ordinary_work(self.offsets[:-1], self.offsets[1:], self.offsets, hubs=self.hubs is not None)

    @cached_property
    def hubs(self) -> Work | None:
        """The pieces of the hubs, in row order; None where there are none."""
        return hub_work(self.offsets[:-1], self.offsets[1:])

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

    def neighbours_at(self, entries: NDArray[np.int64] | slice) -> NDArray[np.int32]:
        """Through the map: below zero, or from `columns` on, for entries without a place."""
        if isinstance(entries, slice):
            first, last, _ = entries.indices(self.entries)
            rows = slice(np.searchsorted(self.offsets, first, side="right") - 1, np.searchsorted(self.offsets, last))
            lengths = np.diff(self.offsets[rows.start : rows.stop + 1].clip(first, last))
            entries, moved = np.arange(first, last), np.repeat(self._moved[rows], lengths)
        else:
            moved = self._moved[np.searchsorted(self.offsets, entries, side="right") - 1]
        found: NDArray[np.int32] = self.place[self.lists.neighbours[entries + moved]]
        return found

    def read(self, work: Work, start: int, stop: int, call: Read) -> None:
        """Look up a stretch of items and have `call` go over them, until all are done."""
        begin, end = np.empty(stop, np.int64), np.empty(stop, np.int64)  # what lies before `start` is never touched
        found = np.empty(_AT_ONCE + HUB_EDGES, np.int32)
        number = np.empty(len(found) if self.numbered else 0, self.lists.number_type)
        shift = NO_ROWS if self.shift is None else self.shift
        graph = (self.lists.neighbours, self.lists.edges, self._moved, self.place, self.columns, shift, self.by_place)
        first = start
        while first < stop:
            after = _look_up(
                work.begin, work.end, work.owner, work.limit, *graph, first, stop, begin, end, found, number
            )  # fmt: skip
            call(begin, end, number if self.of_edges else found, number, first, after)
            first = after

    def excerpt(self, rows: NDArray[np.int64], sources: NDArray[np.int64]) -> MappedLists:
        """Some rows, and all that these hear from, in this order: the edges are numbered anew."""
        seen = self.seen_from
        assert seen is not None, "these lists were made to be read one way"
        place, row_of = _followed(self.place, self.columns, sources), _followed(seen.row_of, self.rows, rows)
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
        return replace(self, place=self.place - np.int32(first), columns=last - first, shift=shift)

    @cached_property
    def _moved(self) -> NDArray[np.int64]:
        """How far each row's list begins after its place in `offsets`."""
        moved: NDArray[np.int64] = self.lists.offsets[self.chosen] - self.offsets[:-1]
        return moved


def map_lists(lists: Adjacency, chosen: NDArray[Any], place: NDArray[np.int32], seen_from: SeenFrom) -> MappedLists:
    """The lists `chosen` of a graph, all of whose neighbours are among the sources; edges are numbered list by list."""
    return MappedLists(lists, chosen, place, len(seen_from.sources), shifts(lists.offsets, chosen), seen_from=seen_from)


def shifts(offsets: NDArray[np.int64], chosen: NDArray[Any]) -> NDArray[np.int64]:
    """What the numbers of edges in some lists change by, if these lists alone are numbered, one after the other."""
    lengths = _lengths(offsets, chosen)
    shift: NDArray[np.int64] = np.cumsum(lengths) - lengths - offsets[chosen]
    return shift


def entries_of(offsets: NDArray[np.int64], chosen: NDArray[Any]) -> NDArray[np.int64]:
    """The numbers of the edges in some lists, one list after the other."""
    lengths = _lengths(offsets, chosen)
    entries: NDArray[np.int64] = np.repeat(-shifts(offsets, chosen), lengths) + np.arange(lengths.sum())
    return entries


def _lengths(offsets: NDArray[np.int64], chosen: NDArray[Any]) -> NDArray[np.int64]:
    """How many entries the chosen lists have. −1 begins and ends where the last list ends, and so has none."""
    lengths: NDArray[np.int64] = offsets[1:][chosen] - offsets[chosen]
    return lengths


def _followed(place: NDArray[np.int32], count: int, kept: NDArray[np.int64]) -> NDArray[np.int32]:
    """Places among `count` rows, as places among those of them that are kept, in the order of these."""
    number = np.full(count + 1, -1, np.int32)  # the last for nodes without a place
    number[kept] = np.arange(len(kept), dtype=np.int32)
    return number[np.where((place >= 0) & (place < count), place, count)]


@compiled
def _look_up(
    begin: NDArray[np.int64],
    end: NDArray[np.int64],
    owner: NDArray[np.int64],
    limit: int,
    neighbours: NDArray[np.int32],
    edges: NDArray[Any],
    moved: NDArray[np.int64],
    place: NDArray[np.int32],
    columns: int,
    shift: NDArray[np.int64],
    by_place: bool,
    first: int,
    stop: int,
    found_begin: NDArray[np.int64],
    found_end: NDArray[np.int64],
    found: NDArray[np.int32],
    number: NDArray[Any],
) -> int:
    """Fill `found` with the places of some items' neighbours, and `number` with those of the edges; returns the next item."""
    item, count, last = first, 0, len(begin) - 1
    while item < stop and count < _AT_ONCE:
        row = owner[item] if len(owner) else item
        near = min(item + _AHEAD, last)
        ahead = begin[near] + moved[owner[near] if len(owner) else near]
        prefetch(neighbours, ahead)
        prefetch(neighbours, ahead + _LINE)
        if end[item] - begin[item] > limit:  # kept as long as it is, so that the kernel sees that it is somebody else's
            found_begin[item], found_end[item] = 0, end[item] - begin[item]
            item += 1
            continue
        found_begin[item] = count
        for k in range(np.uint64(begin[item] + moved[row]), np.uint64(end[item] + moved[row])):
            at = place[np.uint64(neighbours[k])]
            found[count] = at
            there = 0 <= at < columns
            if len(number) and there:
                edge = np.int64(edges[k]) if len(edges) else np.int64(k)
                number[count] = edge + shift[at if by_place else row]
            count += there
        found_end[item] = count
        item += 1
    return item
