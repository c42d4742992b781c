"""Pairs of any two nodes that are no edge: what held-out edges are told from in AUC and average precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.core.errors import InputError
from starling.core.keyed import draw_below
from starling.plan.links.splits import Total

AreEdges = Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.bool_]]
"""Whether there is an edge from each source to each destination, given as positions; with several workers all ask together."""

_ROUNDS = 32


def random_pairs(
    number: NDArray[Any], slots: int, nodes: int, key: np.uint64, are_edges: AreEdges, total: Total
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """`slots` pairs [P, slots] for each held-out edge, keyed by its number, both ends uniform; edges are drawn again.

    Every worker asks as often as the one that needs it most. Refuses a graph that is all but complete, where 32 rounds do not do.
    """
    source, destination = np.empty((2, len(number), slots), np.int64)
    numbers = np.repeat(np.asarray(number, np.int64), slots)
    slot = np.tile(np.arange(slots), len(number))
    wrong = np.arange(len(numbers))
    for attempt in range(_ROUNDS):
        _draw_pairs(numbers[wrong], slot[wrong], attempt, slots, nodes, key, wrong, source.reshape(-1), destination.reshape(-1))
        s, d = source.reshape(-1)[wrong], destination.reshape(-1)[wrong]
        wrong = wrong[(s == d) | are_edges(s, d)]
        if not int(total(np.array([len(wrong)]))[0]):
            return source, destination
    raise InputError(
        f"Nearly every pair of the {nodes:,} nodes is an edge: {_ROUNDS} draws found none that is not, to tell edges from. Link "
        "prediction needs a graph that is not complete; or pass --metric mrr."
    )


@compiled
def _draw_pairs(
    number: NDArray[np.int64],
    slot: NDArray[np.int64],
    attempt: int,
    slots: int,
    nodes: int,
    key: np.uint64,
    place: NDArray[np.int64],
    source: NDArray[np.int64],
    destination: NDArray[np.int64],
) -> None:
    for i in range(len(place)):
        turn = 2 * (attempt * slots + slot[i])
        source[place[i]] = draw_below(key, number[i], turn, nodes)
        destination[place[i]] = draw_below(key, number[i], turn + 1, nodes)
