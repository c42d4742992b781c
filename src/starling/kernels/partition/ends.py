"""First looks at a block of edges: are its ends nodes, which copies to keep, how many edges each node has."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled

_MOST = np.iinfo(np.int32).max


@compiled
def count_ends(pairs: NDArray[np.int32], both: bool, degree: NDArray[np.int32]) -> None:
    """Add one to the degree of each edge's source, and with `both` of its destination. Counts stop at 2³¹ − 1.

    One thread: dividing the nodes among threads costs a mispredicted branch an edge, more than the count itself.
    """
    for i in range(len(pairs)):
        source = pairs[i, 0]
        if degree[source] < _MOST:
            degree[source] += 1
        if both:
            destination = pairs[i, 1]
            if degree[destination] < _MOST:
                degree[destination] += 1


@compiled
def first_outside(pairs: NDArray[np.integer], nodes: int) -> int:
    """The first edge with an end outside 0 … nodes − 1, or −1."""
    for i in range(len(pairs)):
        if not (0 <= pairs[i, 0] < nodes and 0 <= pairs[i, 1] < nodes):
            return i
    return -1


@compiled
def keep_once(pairs: NDArray[np.int32], directed: bool, kept: NDArray[np.int32]) -> int:
    """Copy each connection once to the front of `kept`, self-loops left out; returns how many.

    An undirected graph has each in both directions: the one from the lower number to the higher is kept.
    """
    count = 0
    for i in range(len(pairs)):
        source, destination = pairs[i, 0], pairs[i, 1]
        kept[count, 0] = source
        kept[count, 1] = destination
        count += source < destination or (directed and source > destination)
    return count
