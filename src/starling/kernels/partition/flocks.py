"""Small flocks: label propagation with a limit on size, then leaves of one hub together; and putting flocks in order.

Each node starts as a flock of its own. `weight` (of each neighbour entry) and `mass` (of each node) may be empty: all ones.
`strength` is scratch, one zero a flock, and is left as it was.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.core.keyed import draw, draw_below
from starling.kernels.machine import prefetch

_AHEAD = 8


@compiled
def propagate(
    low: int,
    start: NDArray[np.integer],
    neighbour: NDArray[np.int32],
    weight: NDArray[np.int32],
    mass: NDArray[np.integer],
    label: NDArray[np.int32],
    size: NDArray[np.integer],
    strength: NDArray[np.int32],
    limit: int,
    key: np.uint64,
) -> int:
    """Move each node of a window to the flock it is tied to most strongly of those with room; returns the moves.

    Ties are drawn. Nodes are visited in order, from a drawn one on: a random order was no better and misses the cache.
    """
    n = len(start) - 1
    longest = 0
    for i in range(n):
        longest = max(longest, start[i + 1] - start[i])
    seen = np.empty(longest, np.int32)
    i = draw_below(key, 0, 0, max(n, 1))
    moved = 0
    for _ in range(n):
        i = i + 1 if i + 1 < n else 0
        _ask_ahead(i, n, start, neighbour, label, strength)
        v = low + i
        a = label[v]
        own = mass[v] if len(mass) else 1
        found = 0
        for e in range(start[i], start[i + 1]):
            c = label[neighbour[e]]
            if strength[c] == 0:
                seen[found] = c
                found += 1
            strength[c] += weight[e] if len(weight) else 1
        best, most, tie = a, strength[a], np.uint64(0)
        for k in range(found):
            c = seen[k]
            tied = strength[c]
            strength[c] = 0
            if c == a or tied < most or size[c] + own > limit:
                continue
            drawn = draw(key, v, c)
            if tied > most or drawn > tie:
                best, most, tie = c, tied, drawn
        if best != a:
            size[a] -= own
            size[best] += own
            label[v] = best
            moved += 1
    return moved


@compiled
def _ask_ahead(
    i: int,
    n: int,
    start: NDArray[np.integer],
    neighbour: NDArray[np.int32],
    label: NDArray[np.int32],
    strength: NDArray[np.int32],
) -> None:
    """Ask for the labels of a row far ahead and, as they arrive, for what is counted under them."""
    far, near = min(i + 2 * _AHEAD, n - 1), min(i + _AHEAD, n - 1)
    for e in range(start[far], start[far + 1]):
        prefetch(label, neighbour[e])
    for e in range(start[near], start[near + 1]):
        prefetch(strength, label[neighbour[e]])


@compiled
def join_two_hops(
    low: int,
    start: NDArray[np.integer],
    neighbour: NDArray[np.int32],
    weight: NDArray[np.int32],
    mass: NDArray[np.integer],
    label: NDArray[np.int32],
    size: NDArray[np.integer],
    strength: NDArray[np.int32],
    waiting: NDArray[np.int32],
    limit: int,
) -> None:
    """A node left alone joins others left alone that favour the same flock; isolated nodes join each other.

    `waiting` [V + 1] starts at −1 and holds, for each flock, the flock of those that favour it and have room.
    """
    n = len(start) - 1
    for i in range(n):
        v = low + i
        a = label[v]
        own = mass[v] if len(mass) else 1
        if size[a] != own:
            continue
        favourite, most = len(label), 0
        for e in range(start[i], start[i + 1]):
            c = label[neighbour[e]]
            strength[c] += weight[e] if len(weight) else 1
            if strength[c] > most:
                favourite, most = c, strength[c]
        for e in range(start[i], start[i + 1]):
            strength[label[neighbour[e]]] = 0
        others = waiting[favourite]
        if others >= 0 and others != a and size[others] > 0 and size[others] + own <= limit:
            size[a] -= own
            size[others] += own
            label[v] = others
        else:
            waiting[favourite] = a


@compiled
def number_flocks(label: NDArray[np.int32], name: NDArray[np.int32]) -> int:
    """Number the flocks from 0 in order of their first node; `name` [V] is scratch. Returns how many there are."""
    name[:] = -1
    count = 0
    for v in range(len(label)):
        c = label[v]
        if name[c] < 0:
            name[c] = count
            count += 1
        label[v] = name[c]
    return count


@compiled
def place_by_flock(label: NDArray[np.int32], first: NDArray[np.int64], place: NDArray[np.int32]) -> None:
    """Give each node a place, so that flocks stand together; ``first[c]`` is the first place of flock c."""
    cursor = first[:-1].copy()
    for v in range(len(label)):
        place[v] = cursor[label[v]]
        cursor[label[v]] += 1
