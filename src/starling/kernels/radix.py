"""Stable sorting by whole-number keys: the order that sorts them, in two four-byte numbers a key.

Least-significant-digit radix sort: each pass is a stable counting sort by one digit, so several keys are sorted together by
sorting by the least important first. Digits are chosen small enough that their counters stay in the cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.kernels.csr import index_type

_DIGIT_BITS = 11


def stable_order(keys: NDArray[Any], largest: int, after: NDArray[Any] | None = None) -> NDArray[Any]:
    """The indices of `keys` in ascending order of key; equal keys keep their order, or the order given by `after`.

    Keys are whole numbers in [0, largest]. Passing the result of one call as `after` of the next sorts by several keys,
    the last call's key being the most important; `after` is overwritten. Costs a pass for each 11 bits of `largest`.
    """
    bits = int(largest).bit_length()
    order = np.arange(len(keys), dtype=index_type(len(keys))) if after is None else after
    if bits == 0:
        return order
    passes = -(-bits // _DIGIT_BITS)
    digit = -(-bits // passes)
    spare = np.empty_like(order)
    for shift in range(0, digit * passes, digit):
        _sort_by_digit(keys, shift, (1 << digit) - 1, order, spare)
        order, spare = spare, order
    return order


@compiled
def _sort_by_digit(keys: NDArray[Any], shift: int, mask: int, order: NDArray[Any], target: NDArray[Any]) -> None:
    at = np.zeros(mask + 2, np.int64)
    for i in range(len(keys)):
        at[((keys[i] >> shift) & mask) + 1] += 1
    for digit in range(mask):
        at[digit + 1] += at[digit]
    for i in range(len(order)):
        item = order[i]
        digit = (keys[item] >> shift) & mask
        target[at[digit]] = item
        at[digit] += 1


@compiled
def invert(order: NDArray[Any], inverse: NDArray[Any]) -> None:
    """Fill ``inverse[order[i]] = i``."""
    for i in range(len(order)):
        inverse[order[i]] = i
