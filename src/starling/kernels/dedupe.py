"""Which edges are the first of their kind."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.kernels.equal_pairs import first_equal, split_by_hash
from starling.kernels.parallel import parallel_for


def dedupe_pairs(pairs: NDArray[Any], *, threads: int | None = None) -> NDArray[np.bool_]:
    """True for each edge of `pairs` [E, 2] that no earlier edge equals: ``pairs[dedupe_pairs(pairs)]`` has every edge once.

    Costs 15 bytes an edge, 27 with int64 ids.
    """
    split = split_by_hash(pairs, both_ways=False, threads=threads)
    first = np.empty(len(pairs), np.bool_)

    def mark(begin: int, end: int) -> None:
        for number in range(begin, end):
            _mark_first(split.bucket(number), first)

    parallel_for(len(split.bounds) - 1, mark, threads, offsets=split.bounds)
    return first


@compiled
def _mark_first(records: NDArray[Any], is_first: NDArray[np.bool_]) -> None:
    first = np.empty(len(records), np.int64)
    first_equal(records, False, first)
    for i in range(len(records)):
        is_first[records[i, 2]] = first[i] == i
