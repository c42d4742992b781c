"""A graph as the in-memory partitioners want it: symmetric, without self-loops or duplicates.

They crash, silently or not, on anything else, so every graph goes through here first, however odd.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from starling.kernels.parallel import parallel_for
from starling.kernels.partition.adjacency import close_gaps, fill_lists, sort_lists
from starling.partition.contract import PartitionTask
from starling.partition.passes import count_connections, edge_blocks


@dataclass(frozen=True)
class Adjacency:
    """The neighbours of node v, ascending, are ``neighbour[start[v] : start[v + 1]]``; each connection stands in both lists."""

    start: NDArray[np.int64]
    neighbour: NDArray[np.int32]

    @property
    def nodes(self) -> int:
        """How many nodes there are."""
        return len(self.start) - 1

    def pairs(self) -> NDArray[np.int32]:
        """Each connection once, as rows (lower, higher)."""
        source = np.repeat(np.arange(self.nodes, dtype=np.int32), np.diff(self.start))
        ascending = source < self.neighbour
        return np.stack([source[ascending], self.neighbour[ascending]], axis=1)


def read_adjacency(task: PartitionTask) -> Adjacency:
    """Read the whole graph, in two passes and 4 bytes a stored direction (twice that for a directed graph)."""
    edges = task.edges
    degree = count_connections(edges, task.progress)
    start = np.zeros(edges.nodes + 1, np.int64)
    np.cumsum(degree, out=start[1:])
    neighbour, end = np.empty(start[-1], np.int32), start[:-1].copy()
    for pairs in edge_blocks(edges, "reading the graph", task.progress):
        fill_lists(pairs, edges.directed, end, neighbour)
    parallel_for(edges.nodes, lambda first, last: sort_lists(start, end, neighbour, first, last), task.threads, offsets=start)
    return Adjacency(start, neighbour[: close_gaps(start, end, neighbour)])
