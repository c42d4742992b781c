"""Sweeps of exact moves over a table of counts [V, p], one byte a part: for few parts.

A count that reached 255 stays there ("many") until the rows are counted anew; all below are exact.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.core.keyed import draw_unit
from starling.kernels.machine import prefetch
from starling.kernels.partition.moves import Sweep, choose_part, rows_of_turn

_MANY = 255
_AHEAD = 3


@compiled
def count_rows(
    low: int,
    start: NDArray[np.integer],
    neighbour: NDArray[np.int32],
    part: NDArray[np.uint16],
    counts: NDArray[np.uint8],
    first: int,
    last: int,
) -> None:
    """Count anew the closed neighbourhoods of rows first … last − 1 of a window by part."""
    for i in range(first, last):
        row = counts[low + i]
        row[:] = 0
        row[part[low + i]] = 1
        for e in range(start[i], start[i + 1]):
            q = part[neighbour[e]]
            if row[q] < _MANY:
                row[q] += np.uint8(1)


@compiled
def count_copies(counts: NDArray[np.uint8]) -> int:
    """Copies of all nodes in all parts, owned ones included."""
    copies = 0
    for v in range(len(counts)):
        for q in range(counts.shape[1]):
            copies += counts[v, q] != 0
    return copies


@compiled
def sweep_rows(
    low: int,
    start: NDArray[np.integer],
    neighbour: NDArray[np.int32],
    part: NDArray[np.uint16],
    counts: NDArray[np.uint8],
    weight: NDArray[np.integer],
    load: NDArray[np.int64],
    sweep: Sweep,
    first: int,
    last: int,
) -> int:
    """Visit the chunks whose turn is first … last − 1 and move the nodes that choose to; returns the moves.

    `weight` [V] is the load of each place, empty where it is 1.
    """
    n, parts = len(start) - 1, counts.shape[1]
    count, present = np.zeros(parts, np.int32), np.zeros(parts, np.int32)
    few, chance, options = np.zeros(parts, np.uint8), np.zeros(parts), np.arange(parts)
    moved = 0
    for turn in range(first, last):
        begin, end = rows_of_turn(turn, n, sweep)
        for i in range(begin, end):
            ahead = min(i + _AHEAD, end - 1)
            for e in range(start[ahead], start[ahead + 1]):
                prefetch(counts, np.int64(neighbour[e]) * parts)
            v = low + i
            a = np.int64(part[v])
            if spread(v, counts, count) == 1 and load[a] <= sweep.cap:
                continue
            alone = look_around(v, a, neighbour[start[i] : start[i + 1]], counts, few, present)
            leave = alone - (start[i + 1] - start[i] + 1) - sweep.pull * (count[a] - 1)
            own = np.int64(weight[v]) if len(weight) else 1
            b = choose_part(a, own, options, count, present, leave, load, sweep, chance, draw_unit(sweep.key, v, 0))
            if b < 0:
                continue
            moved += 1
            part[v] = b
            load[a] -= own
            load[b] += own
            shift(v, a, b, counts)
            for e in range(start[i], start[i + 1]):
                shift(neighbour[e], a, b, counts)
    return moved


@compiled
def spread(v: int, counts: NDArray[np.uint8], count: NDArray[np.int32]) -> int:
    """Copy a row of counts; returns in how many parts the node has a copy."""
    copies = 0
    for q in range(counts.shape[1]):
        count[q] = counts[v, q]
        copies += counts[v, q] != 0
    return copies


@compiled
def look_around(
    v: int,
    a: int | np.integer,
    around: NDArray[np.int32],
    counts: NDArray[np.uint8],
    few: NDArray[np.uint8],
    present: NDArray[np.int32],
) -> int | np.integer:
    """Fill `present` with how many of v and its neighbours have a copy in each part; returns how many owe that in a to v alone.

    `few` sums a run of rows in bytes, so that a row is one vector operation, and is emptied before it can overflow.
    """
    alone = np.int64(counts[v, a] == 1)
    for q in range(counts.shape[1]):
        present[q] = counts[v, q] != 0
    for begin in range(0, len(around), _MANY):
        few[:] = 0
        for u in around[begin : begin + _MANY]:
            alone += counts[u, a] == 1
            for q in range(counts.shape[1]):
                few[q] += np.uint8(counts[u, q] != 0)
        for q in range(counts.shape[1]):
            present[q] += few[q]
    return alone


@compiled
def shift(u: int, a: int | np.integer, b: int, counts: NDArray[np.uint8]) -> None:
    """A node of u's closed neighbourhood goes from part a to part b."""
    if counts[u, a] < _MANY:
        counts[u, a] -= np.uint8(1)
    if counts[u, b] < _MANY:
        counts[u, b] += np.uint8(1)
