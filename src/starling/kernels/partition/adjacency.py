"""Neighbour lists of a graph held in memory: filled in any order, then sorted, without duplicates, closed up."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled


@compiled
def fill_lists(pairs: NDArray[np.int32], both: bool, end: NDArray[np.int64], neighbour: NDArray[np.int32]) -> None:
    """Put each edge's destination into its source's list, and with `both` the reverse; self-loops are left out.

    ``end[v]`` is where v's list ends so far.
    """
    for i in range(len(pairs)):
        source, destination = pairs[i, 0], pairs[i, 1]
        if source == destination:
            continue
        neighbour[end[source]] = destination
        end[source] += 1
        if both:
            neighbour[end[destination]] = source
            end[destination] += 1


@compiled
def sort_lists(
    start: NDArray[np.integer], end: NDArray[np.integer], neighbour: NDArray[np.int32], first: int, last: int
) -> None:
    """Sort the lists of nodes first … last − 1 and drop their duplicates; moves their ends."""
    for v in range(first, last):
        if end[v] == start[v]:
            continue
        neighbour[start[v] : end[v]].sort()
        kept = start[v] + 1
        for k in range(start[v] + 1, end[v]):
            if neighbour[k] != neighbour[k - 1]:
                neighbour[kept] = neighbour[k]
                kept += 1
        end[v] = kept


@compiled
def close_gaps(start: NDArray[np.integer], end: NDArray[np.integer], neighbour: NDArray[np.int32]) -> int:
    """Move the lists together and set `start` anew; returns the number of entries."""
    at = 0
    for v in range(len(end)):
        first = start[v]
        start[v] = at
        for k in range(first, end[v]):
            neighbour[at] = neighbour[k]
            at += 1
    start[len(end)] = at
    return at
