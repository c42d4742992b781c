"""Which replica becomes the owner: counts of each node's edges in each part, and the choice among them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.core.keyed import draw_below


@compiled
def count_edges_by_part(pairs: NDArray[np.int32], placed: NDArray[np.uint16], base: int, counts: NDArray[np.int32]) -> None:
    """Add each edge to ``counts[node − base, part]`` of those of its ends that have a row; a self-loop counts once."""
    nodes = len(counts)
    for i in range(len(pairs)):
        source, destination = pairs[i, 0] - base, pairs[i, 1] - base
        if 0 <= source < nodes:
            counts[source, placed[i]] += 1
        if 0 <= destination < nodes and destination != source:
            counts[destination, placed[i]] += 1


@compiled
def own_where_most_edges(
    counts: NDArray[np.int32], base: int, room: int, load: NDArray[np.int64], owner: NDArray[np.int32]
) -> None:
    """In node order: the replica with most edges among parts with room, of equals the least loaded; −1 without edges.

    Where every replica's part is full, the least loaded of them.
    """
    for row in range(len(counts)):
        best, roomiest = -1, -1
        for q in range(len(load)):
            if counts[row, q] == 0:
                continue
            if roomiest < 0 or load[q] < load[roomiest]:
                roomiest = q
            if load[q] >= room:
                continue
            if best < 0 or counts[row, q] > counts[row, best] or (counts[row, q] == counts[row, best] and load[q] < load[best]):
                best = q
        if best < 0:
            best = roomiest
        owner[base + row] = best
        if best >= 0:
            load[best] += 1


@compiled
def own_at_random(
    counts: NDArray[np.int32], base: int, key: np.uint64, load: NDArray[np.int64], owner: NDArray[np.int32]
) -> None:
    """A replica drawn with equal chances; −1 without edges."""
    for row in range(len(counts)):
        replicas = 0
        for q in range(len(load)):
            replicas += counts[row, q] > 0
        owner[base + row] = -1
        if replicas == 0:
            continue
        chosen = np.int64(draw_below(key, base + row, 0, replicas))
        for q in range(len(load)):
            if counts[row, q] > 0:
                if chosen == 0:
                    owner[base + row] = q
                    load[q] += 1
                    break
                chosen -= 1


@compiled
def own_the_rest(load: NDArray[np.int64], owner: NDArray[np.int32]) -> None:
    """Nodes without edges, each to the least loaded part."""
    for node in range(len(owner)):
        if owner[node] < 0:
            part = np.argmin(load)
            owner[node] = part
            load[part] += 1
