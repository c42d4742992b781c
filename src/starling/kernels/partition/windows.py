"""Neighbour lists of a range of nodes, filled as the edges stream by.

Nodes stand at *places* (an order that a method chose; `place` is empty where it is the imported order). The loops ask for
what later edges will need while they work on earlier ones, since on millions of nodes every look is a cache miss.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.kernels.machine import prefetch

_AHEAD = 16


@compiled
def to_places(pairs: NDArray[np.int32], place: NDArray[np.int32], placed: NDArray[np.int32]) -> None:
    """Fill `placed` with the places of the ends of every edge."""
    last = len(pairs) - 1
    for i in range(len(pairs)):
        ahead = min(i + 2 * _AHEAD, last)
        prefetch(place, pairs[ahead, 0])
        prefetch(place, pairs[ahead, 1])
        placed[i, 0] = place[pairs[i, 0]]
        placed[i, 1] = place[pairs[i, 1]]


@compiled
def gather_lists(
    pairs: NDArray[np.int32], both: bool, low: int, high: int, end: NDArray[np.int32], neighbour: NDArray[np.int32]
) -> None:
    """Put each edge's destination into its source's list, and with `both` the reverse, for sources low … high − 1.

    ``end[r]`` is where the list of place ``low + r`` ends so far. Self-loops are left out.
    """
    last = len(pairs) - 1
    for i in range(len(pairs)):
        far, near = min(i + 2 * _AHEAD, last), min(i + _AHEAD, last)
        for side in range(2 if both else 1):
            row = pairs[far, side] - low
            if 0 <= row < high - low:
                prefetch(end, row)
            row = pairs[near, side] - low
            if 0 <= row < high - low:
                prefetch(neighbour, end[row])
            row = pairs[i, side] - low
            if 0 <= row < high - low and pairs[i, 0] != pairs[i, 1]:
                neighbour[end[row]] = pairs[i, 1 - side]
                end[row] += 1


@compiled
def bucket_entries(
    pairs: NDArray[np.int32], both: bool, bounds: NDArray[np.int64], entries: NDArray[np.int32], bucket: NDArray[np.int32]
) -> int:
    """The directions of each edge as (place, neighbour) rows of `entries` with their windows; returns how many.

    Window w holds places ``bounds[w]`` … ``bounds[w + 1] − 1``.
    """
    count = 0
    for i in range(len(pairs)):
        if pairs[i, 0] == pairs[i, 1]:
            continue
        for side in range(2 if both else 1):
            entries[count, 0] = pairs[i, side]
            entries[count, 1] = pairs[i, 1 - side]
            bucket[count] = np.searchsorted(bounds, pairs[i, side], side="right") - 1
            count += 1
    return count


@compiled
def cut_windows(degree: NDArray[np.int32], unit: NDArray[np.int32], entries: int) -> list[int]:
    """Bounds of ranges of places with at most `entries` neighbours each, cut only where one flock ends and the next begins.

    `unit` is the flock of each place, ascending, or empty where any place may begin a window. A flock with more neighbours
    than `entries` still is a window of its own.
    """
    bounds = [0]
    held, cut, after_cut = 0, 0, 0
    for i in range(len(degree)):
        if len(unit) == 0 or i == 0 or unit[i] != unit[i - 1]:
            cut, after_cut = i, 0
        if held + degree[i] > entries and cut > bounds[-1]:
            bounds.append(cut)
            held = after_cut
        held += degree[i]
        after_cut += degree[i]
    bounds.append(len(degree))
    return bounds
