"""A keyed random order of nodes: everyone draws a number by its own position, and the smallest goes first."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.core.keyed import draw


def keyed_order(key: np.uint64, positions: NDArray[Any]) -> NDArray[np.int64]:
    """Indices into `positions` in random order; which of two nodes is first depends on the key and those two alone."""
    return np.argsort(keyed_bits(key, positions), kind="stable")


def keyed_bits(key: np.uint64, positions: NDArray[Any], slot: int = 0) -> NDArray[np.uint64]:
    """64 random bits for each position."""
    bits = np.empty(len(positions), np.uint64)
    _draw_each(key, positions, slot, bits)
    return bits


@compiled
def _draw_each(key: np.uint64, positions: NDArray[Any], slot: int, bits: NDArray[np.uint64]) -> None:
    for i in range(len(positions)):
        bits[i] = draw(key, positions[i], slot)
