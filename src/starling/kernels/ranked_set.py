"""A set of nodes that says, for each member, how many members are smaller: a bit a node and a running count every 64.

Numbering the halo of a part this way costs V / 8 + V / 16 bytes instead of an array of V numbers, stays in the cache, and gives
members their numbers in ascending order of node.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.kernels.csr import index_type

_ONE, _WORD_MASK = np.uint64(1), np.uint64(63)
_PAIRS, _QUADS, _BYTES = (np.uint64(bits) for bits in (0x5555555555555555, 0x3333333333333333, 0x0F0F0F0F0F0F0F0F))
_SUM_BYTES = np.uint64(0x0101010101010101)
_U1, _U2, _U4, _U56 = (np.uint64(bits) for bits in (1, 2, 4, 56))


class RankedSet:
    """Numbers in [0, limit): fill it with `add` (below) or `add_all`, then `rank` it before asking for ranks."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.words = np.zeros((limit >> 6) + 1, np.uint64)
        self.before: NDArray[Any] = np.zeros(0, index_type(limit))
        self.count = 0

    def add_all(self, numbers: NDArray[Any]) -> None:
        """Add every one of `numbers`."""
        _add_all(self.words, numbers)

    def rank(self) -> None:
        """Count the members, so that `ranks` and `members` can be asked for."""
        self.before = np.empty(len(self.words), index_type(self.limit))
        self.count = int(_count_before(self.words, self.before))

    def ranks(self, numbers: NDArray[Any]) -> NDArray[np.int64]:
        """How many members are smaller than each of `numbers`, which may be non-members and `limit` itself."""
        out = np.empty(len(numbers), np.int64)
        _ranks(self.words, self.before, numbers, out)
        return out

    def members(self) -> NDArray[Any]:
        """All members, ascending."""
        out = np.empty(self.count, index_type(self.limit))
        _members(self.words, out)
        return out


@compiled
def add(words: NDArray[np.uint64], number: int) -> None:
    """Put a number into the set."""
    words[number >> 6] |= _ONE << (np.uint64(number) & _WORD_MASK)


@compiled
def contains(words: NDArray[np.uint64], number: int) -> bool:
    """Whether the number is in the set."""
    return bool((words[number >> 6] >> (np.uint64(number) & _WORD_MASK)) & _ONE)


@compiled
def rank_of(words: NDArray[np.uint64], before: NDArray[Any], number: int) -> int:
    """How many members are smaller than the number."""
    below = (_ONE << (np.uint64(number) & _WORD_MASK)) - _ONE
    return int(before[number >> 6]) + int(_ones(words[number >> 6] & below))


@compiled
def _ones(word: np.uint64) -> np.uint64:
    """The number of bits set, summed in pairs, quads and bytes side by side."""
    word = word - ((word >> _U1) & _PAIRS)
    word = (word & _QUADS) + ((word >> _U2) & _QUADS)
    word = (word + (word >> _U4)) & _BYTES
    return (word * _SUM_BYTES) >> _U56


@compiled
def _add_all(words: NDArray[np.uint64], numbers: NDArray[Any]) -> None:
    for i in range(len(numbers)):
        add(words, numbers[i])


@compiled
def _count_before(words: NDArray[np.uint64], before: NDArray[Any]) -> int:
    total = 0
    for w in range(len(words)):
        before[w] = total
        total += int(_ones(words[w]))
    return total


@compiled
def _ranks(words: NDArray[np.uint64], before: NDArray[Any], numbers: NDArray[Any], out: NDArray[np.int64]) -> None:
    for i in range(len(numbers)):
        out[i] = rank_of(words, before, numbers[i])


@compiled
def _members(words: NDArray[np.uint64], out: NDArray[Any]) -> None:
    found = 0
    for w in range(len(words)):
        word = words[w]
        while word != 0:
            lowest = word & (~word + _ONE)
            out[found] = (w << 6) + int(_ones(lowest - _ONE))
            found += 1
            word ^= lowest
