"""Neighbour lists that are looked up as they are read: ids go through a map, and what is found is not kept.

Kernels take them as they take stored ones (`adjacency.Lists`): a stretch of rows at a time is looked up into a buffer that stays in
the cache, and the kernel goes over that. Whole lists of a graph are read so (`mapped.py`), and entries taken out of them
(`taken.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.kernels.adjacency import HUB_EDGES, Lists, Read, Work, hub_work, ordinary_work
from starling.kernels.machine import prefetch

_AT_ONCE = 1 << 13
"""Entries that are looked up before a kernel goes over them: with their numbers they stay in the second cache."""
_AHEAD = 16
"""Rows whose lists are asked for in advance."""
_LINE = 16
"""Entries of a list in a cache line."""
_TAKEN_AHEAD = 64
"""Entries that were taken whose places are asked for in advance, and whose neighbours twice as far ahead: they lie apart."""


@dataclass(frozen=True, eq=False)
class Entries:
    """Where entries lie: that which is number k by a row's `offsets` is k + moved[row], or k, in the lists.

    Its neighbour is neighbours[entry], or neighbours[through[entry]]. Its edge is edges[entry], or `entry`; numbered for these rows
    it is so much plus shift[row], or shift[place]. Empty arrays are absent.
    """

    neighbours: NDArray[Any]
    through: NDArray[Any]
    edges: NDArray[Any]
    moved: NDArray[np.int64]
    shift: NDArray[np.int64]
    by_place: bool = False


class LookedUpLists(ABC):
    """Rows hear from those neighbours of a graph that have a place among `columns` rows, ``place[n] - first`` for node n.

    Below zero, or from `columns` on, there is none.
    """

    place: NDArray[np.int32]
    columns: int
    first: int

    @property
    @abstractmethod
    def offsets(self) -> NDArray[np.int64]:
        """Where each row's entries would begin if the lists lay one after the other; entries without a place count."""

    @property
    @abstractmethod
    def numbered(self) -> bool:
        """Whether edges have numbers."""

    @property
    @abstractmethod
    def found_in(self) -> Entries:
        """Where the entries lie."""

    @property
    @abstractmethod
    def transposed(self) -> Lists:
        """The same edges seen from their sources."""

    @abstractmethod
    def turned_for(self, edge_values: NDArray[Any]) -> Lists:
        """The transpose, with edge numbers only where there are values to read by them."""

    @property
    @abstractmethod
    def by_edge(self) -> Lists:
        """The same rows hearing from their edges."""

    @abstractmethod
    def some_rows(self, first: int, last: int) -> Self:
        """The rows from `first` to `last` − 1; entries keep their numbers."""

    @property
    @abstractmethod
    def taken_from(self) -> NDArray[Any]:
        """Of each edge its entry in the graph's lists."""

    @abstractmethod
    def excerpt(self, rows: NDArray[np.int64], sources: NDArray[np.int64]) -> Self:
        """Some rows, and all that these hear from, in this order: the edges are numbered anew."""

    @property
    def scale(self) -> NDArray[np.float32] | None:
        """Of each edge, where edges make up for others that are left out."""
        return None

    @property
    def rows(self) -> int:
        """How many rows hear."""
        return len(self.offsets) - 1

    @property
    def entries(self) -> int:
        """Neighbours in the lists, with a place or without."""
        return int(self.offsets[-1])

    @property
    def number_type(self) -> np.dtype[Any]:
        """Of edges' numbers."""
        edges, through = self.found_in.edges, self.found_in.through
        count = max(len(self.found_in.neighbours), len(through))
        return edges.dtype if len(edges) else np.dtype(np.int32 if count < 2**31 else np.int64)

    @cached_property
    def ordinary(self) -> Work:
        """All rows but the hubs, one item a row."""
        return ordinary_work(self.offsets[:-1], self.offsets[1:], self.offsets, hubs=self.hubs is not None)

    @cached_property
    def hubs(self) -> Work | None:
        """The pieces of the hubs, in row order; None where there are none."""
        return hub_work(self.offsets[:-1], self.offsets[1:])

    def neighbours_at(self, entries: NDArray[np.int64] | slice) -> NDArray[np.int32]:
        """Through the map: below zero, or from `columns` on, for entries without a place."""
        lies, at = self.found_in, self._moved(entries)
        if len(lies.through):
            taken = lies.through[at]
            return _places_of(lies.neighbours, taken.reshape(-1), self.place, self.first).reshape(taken.shape)
        found: NDArray[np.int32] = self.place[lies.neighbours[at]]
        return found - np.int32(self.first) if self.first else found

    def _moved(self, entries: NDArray[np.int64] | slice) -> NDArray[np.int64] | slice:
        """Where entries lie, by their numbers in `offsets`."""
        moved = self.found_in.moved
        if not len(moved):
            return slice(*entries.indices(self.entries)) if isinstance(entries, slice) else entries
        if not isinstance(entries, slice):
            return entries + moved[np.searchsorted(self.offsets, entries, side="right") - 1]
        begin, end, _ = entries.indices(self.entries)
        top, bottom = int(np.searchsorted(self.offsets, begin, side="right")) - 1, int(np.searchsorted(self.offsets, end))
        return np.arange(begin, end) + np.repeat(moved[top:bottom], np.diff(self.offsets[top : bottom + 1].clip(begin, end)))

    def read(self, work: Work, start: int, stop: int, call: Read) -> None:
        """Look up a stretch of items and have `call` go over them, until all are done."""
        begin, end = np.empty(stop, np.int64), np.empty(stop, np.int64)  # what lies before `start` is never touched
        found = np.empty(_AT_ONCE + HUB_EDGES, np.int32)
        number = np.empty(len(found) if self.numbered else 0, self.number_type)
        lies = self.found_in
        graph = (lies.neighbours, lies.through, lies.edges, lies.moved, lies.shift, lies.by_place)
        place = (self.place, self.first, self.columns)
        at = start
        while at < stop:
            after = _look_up(work.begin, work.end, work.owner, work.limit, *graph, *place, at, stop, begin, end, found, number)
            call(begin, end, found, number, at, after)
            at = after


def entries_of(offsets: NDArray[np.int64], chosen: NDArray[Any]) -> NDArray[np.int64]:
    """The numbers of the edges in some lists, one list after the other."""
    lengths = lengths_of(offsets, chosen)
    entries: NDArray[np.int64] = np.repeat(-shifts(offsets, chosen), lengths) + np.arange(lengths.sum())
    return entries


def shifts(offsets: NDArray[np.int64], chosen: NDArray[Any]) -> NDArray[np.int64]:
    """What the numbers of edges in some lists change by, if these lists alone are numbered, one after the other."""
    lengths = lengths_of(offsets, chosen)
    shift: NDArray[np.int64] = np.cumsum(lengths) - lengths - offsets[chosen]
    return shift


def lengths_of(offsets: NDArray[np.int64], chosen: NDArray[Any]) -> NDArray[np.int64]:
    """How many entries the chosen lists have. −1 begins and ends where the last list ends, and so has none."""
    lengths: NDArray[np.int64] = offsets[1:][chosen] - offsets[chosen]
    return lengths


def ends_of(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where lists of these lengths would begin, one after the other; the last is where they end."""
    return np.concatenate([[0], np.cumsum(lengths)])


def followed(place: NDArray[np.int32], count: int, kept: NDArray[np.int64]) -> NDArray[np.int32]:
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
    through: NDArray[Any],
    edges: NDArray[Any],
    moved: NDArray[np.int64],
    shift: NDArray[np.int64],
    by_place: bool,
    place: NDArray[np.int32],
    first: int,
    columns: int,
    at: int,
    stop: int,
    found_begin: NDArray[np.int64],
    found_end: NDArray[np.int64],
    found: NDArray[np.int32],
    number: NDArray[Any],
) -> int:
    """Fill `found` with the places of some items' neighbours, and `number` with those of the edges; returns the next item."""
    item, count, last, last_taken = at, 0, len(begin) - 1, np.uint64(len(through) - 1)
    while item < stop and count < _AT_ONCE:
        row = owner[item] if len(owner) else item
        if not len(through):
            near = min(item + _AHEAD, last)
            ahead = begin[near] + (moved[owner[near] if len(owner) else near] if len(moved) else 0)
            prefetch(neighbours, ahead)
            prefetch(neighbours, ahead + _LINE)
        if end[item] - begin[item] > limit:  # kept as long as it is, so that the kernel sees that it is somebody else's
            found_begin[item], found_end[item] = 0, end[item] - begin[item]
            item += 1
            continue
        found_begin[item] = count
        move = moved[row] if len(moved) else 0
        for k in range(np.uint64(begin[item] + move), np.uint64(end[item] + move)):
            if len(through):
                prefetch(neighbours, through[min(k + np.uint64(2 * _TAKEN_AHEAD), last_taken)])
                prefetch(place, neighbours[np.uint64(through[min(k + np.uint64(_TAKEN_AHEAD), last_taken)])])
            entry = np.uint64(through[k] if len(through) else k)
            here = place[np.uint64(neighbours[entry])] - first
            found[count] = here
            there = 0 <= here < columns
            if len(number) and there:
                edge = np.int64(edges[k]) if len(edges) else np.int64(k)
                number[count] = edge + (shift[here if by_place else row] if len(shift) else 0)
            count += there
        found_end[item] = count
        item += 1
    return item


@compiled
def _places_of(neighbours: NDArray[Any], entries: NDArray[Any], place: NDArray[np.int32], first: int) -> NDArray[np.int32]:
    """The places of the neighbours in some entries."""
    found = np.empty(len(entries), np.int32)
    for k in range(np.uint64(len(entries))):
        prefetch(neighbours, entries[min(k + np.uint64(_TAKEN_AHEAD), np.uint64(len(entries) - 1))])
        found[k] = place[np.uint64(neighbours[np.uint64(entries[k])])] - first
    return found
