"""Run a row-range kernel on threads, each with the same number of edges.

Ranges are cut so that each holds about the same weight (edges), a few ranges per thread, and threads take them from a shared
counter. The calling thread works too, and waits only for ranges somebody has begun: so calls from many threads at once, or
from inside a pool thread, cannot deadlock.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from starling.core.environment import thread_count

RangeKernel = Callable[[int, int], object]

_RANGES_PER_THREAD = 4
_pool: ThreadPoolExecutor | None = None
_pool_lock = threading.Lock()


def parallel_for(
    n: int, kernel: RangeKernel, threads: int | None = None, *, offsets: NDArray[np.integer] | None = None
) -> None:
    """Call ``kernel(start, stop)`` over ranges that tile 0 … n − 1.

    `offsets` (n + 1 row offsets of a CSR) makes ranges equal in edges instead of rows. The first error raised by a range is
    raised here, after every range that had begun has ended.
    """
    threads = threads or thread_count()
    bounds = cut_ranges(n, threads * _RANGES_PER_THREAD if threads > 1 else 1, offsets)
    if len(bounds) <= 2:
        if n:
            kernel(0, n)
        return
    ranges = itertools.pairwise(bounds.tolist())
    lock = threading.Lock()

    def work() -> None:
        while True:
            with lock:
                bound = next(ranges, None)
            if bound is None:
                return
            kernel(*bound)

    helpers: list[Future[None]] = [_shared_pool().submit(work) for _ in range(threads - 1)]
    try:
        work()
    finally:
        begun = [helper for helper in helpers if not helper.cancel()]
        errors = [helper.exception() for helper in begun]
    for error in errors:
        if error is not None:
            raise error


def cut_ranges(n: int, count: int, offsets: NDArray[np.integer] | None = None) -> NDArray[np.int64]:
    """Bounds of at most `count` non-empty ranges of 0 … n − 1, equal in rows, or in edges and rows together.

    Weight counts a row as one more edge, so that a million isolated nodes are work too.
    """
    count = max(1, min(count, n))
    if offsets is None:
        return np.unique(np.linspace(0, n, count + 1).astype(np.int64))
    base = int(offsets[0])
    total = int(offsets[n]) - base + n
    bounds = np.empty(count + 1, np.int64)
    for k in range(count + 1):
        bounds[k] = _first_row_at(offsets, base, n, total * k // count)
    bounds[0], bounds[-1] = 0, n
    return np.unique(bounds)


def _first_row_at(offsets: NDArray[np.integer], base: int, n: int, weight: int) -> int:
    """The first row before which at least `weight` edges and rows stand (binary search, offsets are not copied)."""
    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        if int(offsets[middle]) - base + middle < weight:
            low = middle + 1
        else:
            high = middle
    return low


def _shared_pool() -> ThreadPoolExecutor:
    global _pool
    with _pool_lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(max(thread_count(), 2) * 2, thread_name_prefix="starling-kernel")
        return _pool
