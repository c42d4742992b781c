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
    """In-edges from one worker's mirrors. `rows` are the destinations that have such; mirrors are numbered from 0."""

    rows: NDArray[np.int64]
    forward: Adjacency
    destinations: int

    @cached_property
    def backward(self) -> Adjacency:
        """From the destinations (all of them, not only `rows`) to the mirrors."""
        turned = self.forward.transposed
        return Adjacency(turned.offsets, self.rows[turned.neighbours].astype(np.int32), self.destinations, turned.edges)


@dataclass(frozen=True, eq=False)
class SplitEdges:
    """All in-edges of a layer: those from own rows, and those from each worker's mirrors."""

    inner: Adjacency
    peers: dict[int, PeerEdges]


def split_edges(offsets: NDArray[np.int64], neighbours: NDArray[Any], traffic: Traffic) -> SplitEdges:
    """Split neighbour lists; lists keep their order, and entries their numbers. Two passes over the edges."""
    bounds = np.array([0, *(traffic.owned + np.array(traffic.mirror_offsets))], np.int64)
    groups, destinations = len(bounds) - 1, len(offsets) - 1
    with_entries, entries = _count(offsets, neighbours, bounds)
    numbers = np.int32 if len(neighbours) < 2**31 else np.int64
    found = []
    for group in range(groups):
        rows, ends = np.empty(with_entries[group], np.int64), np.zeros(with_entries[group] + 1, np.int64)
        columns, edges = np.empty(entries[group], np.int32), np.empty(entries[group], numbers)
        _fill(offsets, neighbours, int(bounds[group]), int(bounds[group + 1]), rows, ends, columns, edges)
        found.append((rows, Adjacency(ends, columns, int(bounds[group + 1] - bounds[group]), edges)))
    (own_rows, own), others = found[0], found[1:]
    lengths = np.zeros(destinations + 1, np.int64)
    lengths[own_rows + 1] = np.diff(own.offsets)
    inner = Adjacency(np.cumsum(lengths), own.neighbours, own.columns, own.edges)
    return SplitEdges(inner, {peer: PeerEdges(*edges, destinations) for peer, edges in enumerate(others) if len(edges[0])})


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
                edges[at] = k
                at += 1
        if at > before:
            rows[number] = row
            number += 1
            ends[number] = at
