"""Sets of node positions as bits: one for each node, 64 to a word."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled

_ONE, _2, _4, _56 = (np.uint64(value) for value in (1, 2, 4, 56))
_PAIRS, _NIBBLES = np.uint64(0x5555555555555555), np.uint64(0x3333333333333333)
_BYTES, _SUM = np.uint64(0x0F0F0F0F0F0F0F0F), np.uint64(0x0101010101010101)


def empty_bits(count: int) -> NDArray[np.uint64]:
    """An empty set that can hold positions 0 … count − 1."""
    return np.zeros(-(-count // 64), np.uint64)


def full_bits(count: int) -> NDArray[np.uint64]:
    """The set of all positions 0 … count − 1."""
    bits = ~empty_bits(count)
    if count % 64:
        bits[-1] = (1 << count % 64) - 1
    return bits


@compiled
def add_new(bits: NDArray[np.uint64], positions: NDArray[Any]) -> int:
    """Add positions up to the first that is in the set already; returns its index, or −1 when all were new."""
    for i in range(len(positions)):
        word, bit = positions[i] >> 6, _ONE << np.uint64(positions[i] & 63)
        if bits[word] & bit:
            return i
        bits[word] |= bit
    return -1


@compiled
def add_equal(bits: NDArray[np.uint64], values: NDArray[Any], wanted: int, first: int) -> None:
    """Add position ``first + i`` for each i with ``values[i] == wanted``."""
    for i in range(len(values)):
        if values[i] == wanted:
            bits[(first + i) >> 6] |= _ONE << np.uint64((first + i) & 63)


@compiled
def first_missing(bits: NDArray[np.uint64], wanted: NDArray[np.uint64]) -> int:
    """The smallest position of the set `wanted` that is not in this one, or −1."""
    for word in range(len(wanted)):
        missing = wanted[word] & ~bits[word]
        if missing:
            bit = 0
            while not (missing >> np.uint64(bit)) & _ONE:
                bit += 1
            return 64 * word + bit
    return -1


@compiled
def _ones(word: np.uint64) -> int:
    """How many bits of a word are set."""
    word = word - ((word >> _ONE) & _PAIRS)
    word = (word & _NIBBLES) + ((word >> _2) & _NIBBLES)
    return np.int64((((word + (word >> _4)) & _BYTES) * _SUM) >> _56)  # type: ignore[return-value]


@compiled
def ones_before(bits: NDArray[np.uint64], before: NDArray[np.int64]) -> int:
    """Write how many positions of the set stand in earlier words, for each word; returns the size of the set."""
    total = 0
    for word in range(len(bits)):
        before[word] = total
        total += _ones(bits[word])
    return total


@compiled
def ranks(bits: NDArray[np.uint64], before: NDArray[np.int64], positions: NDArray[Any], rank: NDArray[np.int64]) -> None:
    """The number of smaller positions in the set, for each position; −1 for those that are not in it."""
    for i in range(len(positions)):
        word, bit = positions[i] >> 6, _ONE << np.uint64(positions[i] & 63)
        rank[i] = before[word] + _ones(bits[word] & (bit - _ONE)) if bits[word] & bit else -1


@compiled
def size(bits: NDArray[np.uint64]) -> int:
    """How many positions are in the set."""
    total = 0
    for word in range(len(bits)):
        total += _ones(bits[word])
    return total
