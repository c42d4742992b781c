"""How many edges of its own relation each edge's row has."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.kernels.parallel import parallel_for, worthwhile_threads


def relation_totals(
    offsets: NDArray[np.int64],
    kinds: NDArray[Any],
    relations: int,
    weight: NDArray[np.float32],
    threads: int | None = None,
) -> tuple[NDArray[np.float32], int]:
    """For every edge the edges of its row and relation [E], or with `weight` [E] their sum; and how many such pairs there are.

    `kinds` [E] are relations in [0, R), weights are above zero. One pass over the edges, and R numbers a thread.
    """
    totals, pairs = np.empty(len(kinds), np.float32), list[int]()
    parallel_for(
        len(offsets) - 1,
        lambda start, stop: pairs.append(_totals(offsets, kinds, relations, weight, totals, start, stop)),
        worthwhile_threads(len(kinds), threads),
        offsets=offsets,
    )
    return totals, sum(pairs)


@compiled
def _totals(
    offsets: NDArray[np.int64],
    kinds: NDArray[Any],
    relations: int,
    weight: NDArray[np.float32],
    totals: NDArray[np.float32],
    start: int,
    stop: int,
) -> int:
    seen, pairs = np.zeros(relations, np.float32), 0
    for row in range(start, stop):
        first, last = offsets[row], offsets[row + 1]
        for edge in range(first, last):
            if seen[kinds[edge]] == 0:
                pairs += 1
            seen[kinds[edge]] += weight[edge] if len(weight) else np.float32(1)
        for edge in range(first, last):
            totals[edge] = seen[kinds[edge]]
        for edge in range(first, last):
            seen[kinds[edge]] = 0
    return pairs
