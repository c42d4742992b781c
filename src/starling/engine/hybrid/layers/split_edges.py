"""A layer's edges by who owns their source: own rows, and each other worker's mirrors.

Sums over own rows need no message, so they are made while messages fly; each worker's block is added when it has come.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.core.once import made_once
from starling.engine.hybrid.messages.traffic import Traffic
from starling.kernels.adjacency import Adjacency, Lists
from starling.kernels.mapped import MappedLists

SomeLists = TypeVar("SomeLists", bound=Lists)
"""Edges as lists of their own, or read from those of the whole graph (`planning/looked_up_edges.py`)."""


@dataclass(frozen=True, eq=False)
class PeerEdges(Generic[SomeLists]):
    """In-edges from one worker's mirrors. `rows` are the destinations that have such; mirrors are numbered from 0.

    `scale` makes up for edges that are left out: 1 / the probability that one is there, one number or one an edge. `turned` makes
    what `backward` gives, where lists are looked up.
    """

    rows: NDArray[np.int64]
    forward: SomeLists
    destinations: int
    scale: float | NDArray[np.float32] = 1.0
    turned: Callable[[], Lists] | None = None

    @made_once
    def backward(self) -> SomeLists:
        """From the destinations (all of them, not only `rows`) to the mirrors."""
        if self.turned is not None:
            return cast("SomeLists", self.turned())
        assert isinstance(self.forward, Adjacency)
        turned = self.forward.transpose()
        rows = self.rows.astype(np.int32)[turned.neighbours]
        back = Adjacency(turned.offsets, rows, self.destinations, turned.edges, turned.numbered)
        return cast("SomeLists", back)

    def some_rows(self, first: int, last: int) -> PeerEdges[SomeLists]:
        """The edges to the destinations from `first` to `last` − 1."""
        start, stop = (int(np.count_nonzero(self.rows < row)) for row in (first, last))
        assert isinstance(self.scale, float), "edges that make up for others are not cut"
        forward = cast("SomeLists", self.forward.some_rows(start, stop))
        back = self.backward if self.turned is not None else None
        assert back is None or isinstance(back, MappedLists), "some rows are asked for on a vertex-cut, which takes whole lists"
        turned = None if back is None else partial(back.from_columns, first, last)
        return PeerEdges(self.rows[start:stop] - first, forward, last - first, self.scale, turned)


@dataclass(frozen=True, eq=False)
class SplitEdges(Generic[SomeLists]):
    """All in-edges of a layer: those from own rows, and those from each worker's mirrors.

    Where parts leave out edges between them, `inner` are those within parts, and `between` those from own rows of other parts.
    """

    inner: SomeLists
    peers: dict[int, PeerEdges[SomeLists]]
    between: PeerEdges[SomeLists] | None = None

    def stands_for(self) -> NDArray[np.float32]:
        """How many edges those of each destination stand for together: what is left out is made up for by `scale`."""
        total = np.diff(self.inner.offsets).astype(np.float32)
        for edges in self.peers.values() if self.between is None else (self.between, *self.peers.values()):
            offsets, scale = edges.forward.offsets, edges.scale
            total[edges.rows] += np.diff(offsets) * scale if isinstance(scale, float) else sums_of_lists(scale, offsets)
        return total

    def cut(self, row: int) -> tuple[SplitEdges[SomeLists], SplitEdges[SomeLists]]:
        """The in-edges of the destinations before a row, and of those from it on, made once; no entry is copied.

        Every peer's `rows` have those before it first, as they do for own rows and mirrors.
        """
        kept: dict[int, tuple[SplitEdges[SomeLists], SplitEdges[SomeLists]]] = self.__dict__.setdefault("_cuts", {})
        if row not in kept:
            kept[row] = (self._some_rows(0, row), self._some_rows(row, self.inner.rows))
        return kept[row]

    def _some_rows(self, first: int, last: int) -> SplitEdges[SomeLists]:
        assert self.between is None
        peers = {peer: edges.some_rows(first, last) for peer, edges in self.peers.items()}
        inner = cast("SomeLists", self.inner.some_rows(first, last))
        return SplitEdges(inner, {peer: edges for peer, edges in peers.items() if len(edges.rows)})


def split_edges(
    offsets: NDArray[np.int64], neighbours: NDArray[Any], traffic: Traffic, *, numbered: bool = True
) -> SplitEdges[Adjacency]:
    """Split neighbour lists; lists keep their order, and entries their numbers if `numbered`: 4 bytes an edge, or 8."""
    bounds = np.array([0, *(traffic.owned + np.array(traffic.mirror_offsets))], np.int64)
    groups, destinations = len(bounds) - 1, len(offsets) - 1
    with_entries, entries = _count(offsets, neighbours, bounds)
    numbers = np.int32 if len(neighbours) < 2**31 else np.int64
    row_at, entry_at = _ends(with_entries), _ends(entries)
    rows, ends = np.empty(row_at[-1], np.int64), np.zeros(row_at[-1] + groups, np.int64)
    columns, edges = np.empty(entry_at[-1], np.int32), np.empty(entry_at[-1] if numbered else 0, numbers)
    _fill(offsets, neighbours, bounds, row_at, entry_at, rows, ends, columns, edges)
    found = []
    for group in range(groups):
        listed, mine = slice(*row_at[group : group + 2]), slice(*entry_at[group : group + 2])
        lists = Adjacency(
            ends[listed.start + group : listed.stop + group + 1],
            columns[mine],
            int(bounds[group + 1] - bounds[group]),
            edges[mine] if numbered else edges,
            numbered,
        )
        found.append((rows[listed], lists))
    (own_rows, own), others = found[0], found[1:]
    lengths = np.zeros(destinations, np.int64)
    lengths[own_rows] = np.diff(own.offsets)
    inner = Adjacency(_ends(lengths), own.neighbours, own.columns, own.edges, numbered)
    return SplitEdges(inner, {peer: PeerEdges(*edges, destinations) for peer, edges in enumerate(others) if len(edges[0])})


def split_within_parts(
    offsets: NDArray[np.int64], neighbours: NDArray[Any], traffic: Traffic, part: NDArray[np.int32]
) -> SplitEdges[Adjacency]:
    """`split_edges` without numbers, with edges from own rows of another part, by the `part` of own rows, apart."""
    split = split_edges(offsets, neighbours, traffic, numbered=False)
    own = split.inner
    destination = np.repeat(np.arange(own.rows, dtype=np.int32), np.diff(own.offsets))
    leaves = part[own.neighbours] != part[destination]
    lengths = np.bincount(destination[leaves], minlength=own.rows)
    rows = np.flatnonzero(lengths)
    forward = Adjacency(_ends(lengths[rows]), own.neighbours[leaves], own.columns, own.edges, numbered=False)
    inner = Adjacency(_ends(np.diff(own.offsets) - lengths), own.neighbours[~leaves], own.columns, own.edges, numbered=False)
    return SplitEdges(inner, split.peers, PeerEdges(rows, forward, own.rows) if len(rows) else None)


def _ends(lengths: NDArray[Any]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


@compiled
def _group_of(column: int, bounds: NDArray[np.int64]) -> int:
    """Whose a column is; most are own, the first group's."""
    return 0 if column < bounds[1] else int(np.searchsorted(bounds, column, side="right")) - 1


@compiled
def _count(offsets: NDArray[np.int64], neighbours: NDArray[Any], bounds: NDArray[np.int64]) -> Any:
    """Rows with entries, and entries, of each group of columns."""
    groups = len(bounds) - 1
    rows, entries = np.zeros(groups, np.int64), np.zeros(groups, np.int64)
    last = np.full(groups, -1, np.int64)
    for row in range(len(offsets) - 1):
        for k in range(offsets[row], offsets[row + 1]):
            group = _group_of(neighbours[k], bounds)
            entries[group] += 1
            if last[group] != row:
                last[group] = row
                rows[group] += 1
    return rows, entries


@compiled
def _fill(
    offsets: NDArray[np.int64],
    neighbours: NDArray[Any],
    bounds: NDArray[np.int64],
    row_at: NDArray[np.int64],
    entry_at: NDArray[np.int64],
    rows: NDArray[np.int64],
    ends: NDArray[np.int64],
    columns: NDArray[np.int32],
    edges: NDArray[Any],
) -> None:
    """Each group's entries by row, from `entry_at` on; only rows that have such are listed, from `row_at` on.

    A group's list ends are one more than its rows, the first of them zero.
    """
    groups = len(bounds) - 1
    number, count = np.zeros(groups, np.int64), np.zeros(groups, np.int64)
    last = np.full(groups, -1, np.int64)
    for row in range(len(offsets) - 1):
        for k in range(offsets[row], offsets[row + 1]):
            group = _group_of(neighbours[k], bounds)
            if last[group] != row:
                last[group] = row
                rows[row_at[group] + number[group]] = row
                number[group] += 1
            at = entry_at[group] + count[group]
            columns[at] = neighbours[k] - bounds[group]
            if len(edges):
                edges[at] = k
            count[group] += 1
            ends[row_at[group] + group + number[group]] = count[group]


def sums_of_lists(values: NDArray[np.float32], offsets: NDArray[np.int64]) -> NDArray[np.float32]:
    """The sum of each list's values, zero for an empty one."""
    row = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    return np.bincount(row, values, len(offsets) - 1).astype(np.float32)
