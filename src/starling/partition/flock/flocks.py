"""Phase 1, flocks: many tight little groups of nodes, none larger than a limit, each to be moved as one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from starling.core.keyed import stream_key
from starling.kernels.partition.flocks import join_two_hops, number_flocks, place_by_flock, propagate
from starling.partition.flock.windows import Window

ONES = np.zeros(0, np.int32)
"""An empty array of weights: they are all 1."""

_ROUNDS = 3


@dataclass(frozen=True)
class Flocks:
    """`label` [V] is the flock of each node, numbered from 0 to `count` − 1 by first node."""

    label: NDArray[np.int32]
    count: int

    def order(self) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """A place [V] for each node, flocks together, and the first place of each flock [count + 1]."""
        first = np.zeros(self.count + 1, np.int64)
        np.cumsum(np.bincount(self.label, minlength=self.count), out=first[1:])
        place = np.empty(len(self.label), np.int32)
        place_by_flock(self.label, first, place)
        return place, first


def find_flocks(
    windows: Iterable[Window],
    nodes: int,
    limit: int,
    seed: int,
    weight: NDArray[np.int32] = ONES,
    mass: NDArray[np.integer] = ONES,
) -> Flocks:
    """Label propagation with a limit on size, then the lonely ones two by two hops; each window is looked at once.

    A flock's size is the sum of its nodes' `mass`. `weight` belongs to the neighbours of the only window. Holds 16 bytes a
    node.
    """
    label = np.arange(nodes, dtype=np.int32)
    size = mass.copy() if len(mass) else np.ones(nodes, np.int32)
    strength, waiting = np.zeros(nodes, np.int32), np.full(nodes + 1, -1, np.int32)
    for window in windows:
        for round_ in range(_ROUNDS):
            key = stream_key(seed, "partition/flocks", window.low, round_)
            propagate(window.low, window.start, window.neighbour, weight, mass, label, size, strength, limit, key)
        join_two_hops(window.low, window.start, window.neighbour, weight, mass, label, size, strength, waiting, limit)
        del window
    return Flocks(label, number_flocks(label, strength))
