"""PowerGraph's greedy placement: four rules, most edges go where both ends are already."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.kernels.partition.replicas import add, fetch_ends, holds


@compiled
def place_greedily(
    pairs: NDArray[np.int32],
    unplaced: NDArray[np.int32],
    sets: NDArray[np.uint64],
    load: NDArray[np.int64],
    room: int,
    placed: NDArray[np.uint16],
) -> None:
    """One block of the stream; `unplaced` counts the edges each node has yet to come, `room` is the most a part may hold."""
    for i in range(len(pairs)):
        fetch_ends(pairs, i, sets, sets.shape[1])
        fetch_ends(pairs, i, unplaced, 1)
        u, v = pairs[i, 0], pairs[i, 1]
        part = _choose(u, v, unplaced, sets, load, room)
        placed[i] = part
        load[part] += 1
        add(sets, u, part)
        add(sets, v, part)
        unplaced[u] -= 1
        unplaced[v] -= 1


@compiled
def _choose(u: int, v: int, unplaced: NDArray[np.int32], sets: NDArray[np.uint64], load: NDArray[np.int64], room: int) -> int:
    both, at_u, at_v, anywhere = -1, -1, -1, 0  # the least loaded part with room that holds both ends, u, v, anything
    for q in range(len(load)):
        if load[q] < load[anywhere]:
            anywhere = q
        if load[q] >= room:
            continue
        has_u, has_v = holds(sets, u, q), holds(sets, v, q)
        if has_u and has_v and (both < 0 or load[q] < load[both]):
            both = q
        if has_u and (at_u < 0 or load[q] < load[at_u]):
            at_u = q
        if has_v and (at_v < 0 or load[q] < load[at_v]):
            at_v = q
    if both >= 0:  # rule 1: some part has both
        return both
    if at_u >= 0 and at_v >= 0:  # rule 2: each is somewhere; go to the one with more edges to come
        return at_u if unplaced[u] >= unplaced[v] else at_v
    if at_u >= 0 or at_v >= 0:  # rule 3: one of them is somewhere
        return max(at_u, at_v)
    return anywhere  # rule 4: neither is
