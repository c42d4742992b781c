"""Deal out pieces of work one after another, each to whoever has least so far."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled


def to_least_loaded(cost: NDArray[np.float64], holder: NDArray[Any], workers: int, slack: float) -> NDArray[np.int64]:
    """The worker of each piece, in order: who has the least cost so far, or the piece's holder if that has at most `slack` more.

    Loads then differ by at most slack + the largest cost.
    """
    given = np.empty(len(cost), np.int64)
    _deal(np.asarray(cost, np.float64), np.asarray(holder, np.int64), np.zeros(workers), float(slack), given)
    return given


@compiled
def _deal(
    cost: NDArray[np.float64], holder: NDArray[np.int64], load: NDArray[np.float64], slack: float, given: NDArray[np.int64]
) -> None:
    for i in range(len(cost)):
        least = 0
        for worker in range(1, len(load)):
            if load[worker] < load[least]:
                least = worker
        worker = holder[i] if load[holder[i]] <= load[least] + slack else least
        load[worker] += cost[i]
        given[i] = worker
