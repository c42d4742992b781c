"""Replica sets: which parts hold a copy of each node, as bits, 64 parts a word."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled

_ONE = np.uint64(1)
_MASK1, _MASK2, _MASK4 = np.uint64(0x5555555555555555), np.uint64(0x3333333333333333), np.uint64(0x0F0F0F0F0F0F0F0F)
_BYTES = np.uint64(0x0101010101010101)
_U1, _U2, _U4, _U56 = (np.uint64(bits) for bits in (1, 2, 4, 56))


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
def read_sets(pairs: NDArray[np.int32], first: int, last: int, sets: NDArray[np.uint64]) -> np.uint64:
    """Read the sets of the ends of edges first … last − 1, for the cache (kernels/partition/clustering.py says why)."""
    total = np.uint64(0)
    for i in range(first, last):
        total ^= sets[pairs[i, 0], 0] ^ sets[pairs[i, 1], 0]
    return total


@compiled
def count_bits(word: np.uint64) -> int:
    """How many of the 64 bits are set."""
    word = word - ((word >> _U1) & _MASK1)
    word = (word & _MASK2) + ((word >> _U2) & _MASK2)
    word = (word + (word >> _U4)) & _MASK4
    return int((word * _BYTES) >> _U56)
