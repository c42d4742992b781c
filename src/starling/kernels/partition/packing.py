"""Packing groups of nodes into parts: the largest first, each into the part with the least in it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.kernels.partition.heap import replace_smallest

_PART_BITS = 16


@compiled
def pack_in_order(order: NDArray[np.integer], weight: NDArray[np.integer], parts: int, part: NDArray[np.int32]) -> None:
    """Give each group of `order`, in turn, to the least occupied part (the lowest of equals), in O(log parts)."""
    heap = np.arange(parts, dtype=np.int64)  # occupancy << 16 | part
    for group in order:
        smallest = heap[0]
        part[group] = smallest & ((1 << _PART_BITS) - 1)
        replace_smallest(heap, parts, smallest + (np.int64(weight[group]) << _PART_BITS))
