"""A layer's edges by who owns their source: own rows, and each other worker's mirrors.

Sums over own rows need no message, so they are made while messages fly; each worker's block is added when it has come.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.engine.hybrid.traffic import Traffic
from starling.kernels.adjacency import Adjacency


@dataclass(frozen=True, eq=False)
class PeerEdges:
    """In-edges from one worker's mirrors. `rows` are the destinations that have such; mirrors are numbered from 0.

    `scale` makes up for edges that are left out: 1 / the probability that one is there.
    """

    rows: NDArray[np.int64]
    forward: Adjacency
    destinations: int
    scale: float = 1.0

    @cached_property
    def backward(self) -> Adjacency:
        """From the destinations (all of them, not only `rows`) to the mirrors."""
        turned = self.forward.transposed
        rows = self.rows[turned.neighbours].astype(np.int32)
        return Adjacency(turned.offsets, rows, self.destinations, turned.edges, turned.numbered)


@dataclass(frozen=True, eq=False)
class SplitEdges:
    """All in-edges of a layer: those from own rows, and those from each worker's mirrors.

    Where parts leave out edges between them, `inner` are those within parts, and `between` those from own rows of other parts.
    """

    inner: Adjacency
    peers: dict[int, PeerEdges]
    between: PeerEdges | None = None


def split_edges(offsets: NDArray[np.int64], neighbours: NDArray[Any], traffic: Traffic, *, numbered: bool = True) -> SplitEdges:
    """Split neighbour lists; lists keep their order, and entries their numbers if `numbered`: 4 bytes an edge, or 8."""
    bounds = np.array([0, *(traffic.owned + np.array(traffic.mirror_offsets))], np.int64)
    groups, destinations = len(bounds) - 1, len(offsets) - 1
    with_entries, entries = _count(offsets, neighbours, bounds)
    numbers = np.int32 if len(neighbours) < 2**31 else np.int64
    found = []
    for group in range(groups):
        rows, ends = np.empty(with_entries[group], np.int64), np.zeros(with_entries[group] + 1, np.int64)
        columns, edges = np.empty(entries[group], np.int32), np.empty(entries[group] if numbered else 0, numbers)
        _fill(offsets, neighbours, int(bounds[group]), int(bounds[group + 1]), rows, ends, columns, edges)
        found.append((rows, Adjacency(ends, columns, int(bounds[group + 1] - bounds[group]), edges, numbered)))
    (own_rows, own), others = found[0], found[1:]
    lengths = np.zeros(destinations, np.int64)
    lengths[own_rows] = np.diff(own.offsets)
    inner = Adjacency(_ends(lengths), own.neighbours, own.columns, own.edges, numbered)
    return SplitEdges(inner, {peer: PeerEdges(*edges, destinations) for peer, edges in enumerate(others) if len(edges[0])})


def split_within_parts(
    offsets: NDArray[np.int64], neighbours: NDArray[Any], traffic: Traffic, part: NDArray[np.int32]
) -> SplitEdges:
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
def _count(offsets: NDArray[np.int64], neighbours: NDArray[Any], bounds: NDArray[np.int64]) -> Any:
    """Rows with entries, and entries, of each group of columns."""
    groups = len(bounds) - 1
    rows, entries = np.zeros(groups, np.int64), np.zeros(groups, np.int64)
    last = np.full(groups, -1, np.int64)
    for row in range(len(offsets) - 1):
        for k in range(offsets[row], offsets[row + 1]):
            group = 0 if neighbours[k] < bounds[1] else np.searchsorted(bounds, neighbours[k], side="right") - 1
            entries[group] += 1
            if last[group] != row:
                last[group] = row
                rows[group] += 1
    return rows, entries


@compiled
def _fill(
    offsets: NDArray[np.int64],
    neighbours: NDArray[Any],
    low: int,
    high: int,
    rows: NDArray[np.int64],
    ends: NDArray[np.int64],
    columns: NDArray[np.int32],
    edges: NDArray[Any],
) -> None:
    """Entries whose column is in [low, high), by row; only rows that have such are listed."""
    at, number = 0, 0
    for row in range(len(offsets) - 1):
        before = at
        for k in range(offsets[row], offsets[row + 1]):
            if low <= neighbours[k] < high:
                columns[at] = neighbours[k] - low
                if len(edges):
                    edges[at] = k
                at += 1
        if at > before:
            rows[number] = row
            number += 1
            ends[number] = at
