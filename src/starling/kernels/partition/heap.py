"""A binary min-heap of whole numbers in an array; an ascending array is one already.

Keys carry what is ranked in their high bits and who it is in their low bits, so that ties fall to the lowest number.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled


@compiled
def replace_smallest(heap: NDArray[np.int64], size: int, key: int) -> None:
    """Take the smallest key out, put `key` in."""
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= key:
            break
        heap[at] = heap[child]
        at = child
    heap[at] = key


@compiled
def drop_smallest(heap: NDArray[np.int64], size: int) -> int:
    """Take the smallest key out; returns the new size."""
    size -= 1
    replace_smallest(heap, size, heap[size])
    return size
