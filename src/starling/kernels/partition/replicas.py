"""Replica sets: which parts hold a copy of each node, as bits, 64 parts a word."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.kernels.machine import prefetch
from starling.kernels.partition.clustering import AHEAD

_ONE = np.uint64(1)


def empty_sets(nodes: int, parts: int) -> NDArray[np.uint64]:
    """No replicas yet: [V, ceil(parts / 64)] words of zero."""
    return np.zeros((nodes, (parts + 63) // 64), np.uint64)


@compiled
def holds(sets: NDArray[np.uint64], node: int, part: int | np.integer) -> bool:
    """Whether the part has a copy of the node."""
    return bool((sets[node, part >> 6] >> np.uint64(part & 63)) & _ONE)


@compiled
def add(sets: NDArray[np.uint64], node: int, part: int | np.integer) -> None:
    """Put a copy of the node into the part."""
    sets[node, part >> 6] |= _ONE << np.uint64(part & 63)


@compiled
def fetch_ends(pairs: NDArray[np.int32], i: int, state: NDArray[Any], width: int) -> None:
    """Ask for the rows, `width` numbers each, of the ends of an edge to come after edge i (see clustering.py)."""
    far = min(i + AHEAD, len(pairs) - 1)
    prefetch(state, np.int64(pairs[far, 0]) * width)
    prefetch(state, np.int64(pairs[far, 1]) * width)
