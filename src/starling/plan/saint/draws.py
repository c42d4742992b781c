"""GraphSAINT's three ways to draw the nodes of a sub-graph (Zeng et al. 2020, §3.4).

Chances are laid out in the imported order of nodes and edges, so that a draw means the same node however rows are numbered.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from starling.core.keyed import units
from starling.kernels.sampling import take_all
from starling.kernels.walks import random_walks
from starling.plan.source import NeighbourSource

Draws = Literal["node", "edge", "walk"]


class NodeDraws(ABC):
    """Draws the rows that a sub-graph is made of; a row may come more than once."""

    @abstractmethod
    def rows(self, key: np.uint64) -> NDArray[Any]:
        """The rows drawn with this key."""


class ByNode(NodeDraws):
    """`count` nodes, likely as the squared norm of their column in the row-normalised adjacency with self-loops."""

    def __init__(self, graph: NeighbourSource, count: int, threads: int | None = None) -> None:
        self._order, self._count = graph.in_imported_order, count
        every = take_all(graph.incoming, self._order, threads)
        degree = np.diff(every.offsets)
        share = (degree + 1.0) ** -2
        chance = np.bincount(every.neighbours, np.repeat(share, degree), minlength=graph.rows)
        self._running = np.cumsum(chance[self._order] + share)

    def rows(self, key: np.uint64) -> NDArray[Any]:
        """Independent draws."""
        return self._order[_draw(self._running, key, self._count)]


class ByEdge(NodeDraws):
    """Both ends of `count` edges, the edge u → v likely as 1 / degree(u) + 1 / degree(v); holds 16 bytes an edge."""

    def __init__(self, graph: NeighbourSource, count: int, threads: int | None = None) -> None:
        self._order, self._count = graph.in_imported_order, count
        every = take_all(graph.incoming, self._order, threads)
        self._source, self._offsets = every.neighbours, every.offsets
        share = 1.0 / np.maximum(graph.in_degree, 1)
        self._running = np.cumsum(share[self._source] + np.repeat(share[self._order], np.diff(every.offsets)))

    def rows(self, key: np.uint64) -> NDArray[Any]:
        """Independent draws of edges; source and destination of the first, then of the second, …"""
        edge = _draw(self._running, key, self._count)
        destination = self._order[np.searchsorted(self._offsets, edge, side="right") - 1]
        return np.stack([self._source[edge], destination], 1).reshape(-1)


class ByWalk(NodeDraws):
    """All nodes of `count` random walks of `length` steps along in-edges, from roots that are equally likely."""

    def __init__(self, graph: NeighbourSource, count: int, length: int, threads: int | None = None) -> None:
        self._graph, self._count, self._length, self._threads = graph, count, length, threads

    def rows(self, key: np.uint64) -> NDArray[Any]:
        """Walk by walk, each from its root on."""
        order = self._graph.in_imported_order
        roots = order[(units(key, 0, self._count, slot=self._length) * len(order)).astype(np.int64)]
        return random_walks(self._graph.incoming, roots, self._length, key, self._threads).reshape(-1)


def _draw(running: NDArray[np.float64], key: np.uint64, count: int) -> NDArray[np.int64]:
    """`count` independent draws from chances given by their running sum."""
    marks = units(key, 0, count) * running[-1]
    drawn: NDArray[np.int64] = np.minimum(np.searchsorted(running, marks, side="right"), len(running) - 1)
    return drawn
