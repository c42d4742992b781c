"""A keyed order of 0 … n − 1 that needs no memory: where a number goes is computed, not looked up."""

from __future__ import annotations

import numpy as np

from starling.core.compile import compiled
from starling.core.keyed import mix64

_ROUNDS = 4
_ONE = np.uint64(1)


@compiled
def shuffled(key: np.uint64, number: int, n: int) -> int:
    """The place of `number` in a random order of 0 … n − 1; different numbers get different places.

    Four rounds of multiply, add and fold permute the smallest power of two that holds n; a place outside 0 … n − 1 is
    permuted again until it falls inside (cycle walking), fewer than two turns on average. The orders are well mixed but are
    only 2**64 of the n! there are.
    """
    bits = 1
    while n - 1 >> bits:
        bits += 1
    mask = (_ONE << np.uint64(bits)) - _ONE
    fold = np.uint64((bits + 1) // 2)
    place = np.uint64(number)
    while True:
        for turn in range(_ROUNDS):
            word = mix64(np.uint64(key) + np.uint64(turn))
            place = (place * (word | _ONE) + (word >> np.uint64(32))) & mask
            place ^= place >> fold
        if place < np.uint64(n):
            return int(place)
