"""Loops over edges inside parts, seen as ties between little groups of nodes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.core.keyed import draw_unit


@compiled
def number_groups(order: NDArray[np.int32], owner: NDArray[np.int32], mark: NDArray[np.int32], group: NDArray[np.int32]) -> int:
    """Number runs of nodes, in `order`, that have one owner and one mark; returns how many there are."""
    count = -1
    for i in range(len(order)):
        node = order[i]
        if i == 0 or owner[node] != owner[order[i - 1]] or mark[node] != mark[order[i - 1]]:
            count += 1
        group[node] = count
    return count + 1


@compiled
def weigh_nodes(pairs: NDArray[np.int32], owner: NDArray[np.int32], mass: NDArray[np.int32], inner: NDArray[np.int64]) -> None:
    """Count each edge in the mass of its destination, and those inside a part in `inner` [p]."""
    for i in range(len(pairs)):
        source, destination = pairs[i, 0], pairs[i, 1]
        mass[destination] += 1
        if owner[source] == owner[destination]:
            inner[owner[source]] += 1


@compiled
def inner_ties(
    pairs: NDArray[np.int32],
    start: int,
    owner: NDArray[np.int32],
    group: NDArray[np.int32],
    first_part: int,
    last_part: int,
    share: NDArray[np.float64],
    key: np.uint64,
    ties: NDArray[np.int32],
) -> int:
    """The groups at the ends of edges inside parts first … last − 1, a random `share` [p] of them; returns how many."""
    count = 0
    for i in range(len(pairs)):
        source, destination = pairs[i, 0], pairs[i, 1]
        part = owner[source]
        if part != owner[destination] or part < first_part or part >= last_part or group[source] == group[destination]:
            continue
        if share[part] < 1.0 and draw_unit(key, start + i, 0) >= share[part]:
            continue
        ties[count, 0], ties[count, 1] = group[source], group[destination]
        count += 1
    return count
