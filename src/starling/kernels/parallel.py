"""Run a row-range kernel on threads, each with the same number of edges.

Ranges are cut so that each holds about the same weight (edges), a few ranges per thread, and threads take them from a shared
queue. The calling thread works too, and waits only for ranges somebody has begun: so calls from many threads at once, or
from inside a pool thread, cannot deadlock.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from starling.core.environment import thread_count

RangeKernel = Callable[[int, int], object]

_RANGES_PER_THREAD = 4
_ITEMS_WORTH_A_THREAD = 1 << 14
_pool: ThreadPoolExecutor | None = None
_pool_lock = threading.Lock()


def parallel_for(
    n: int, kernel: RangeKernel, threads: int | None = None, *, offsets: NDArray[np.integer] | None = None
) -> None:
    """Call ``kernel(start, stop)`` over ranges that tile 0 … n − 1.

    `offsets` (n + 1 row offsets of a CSR) makes ranges equal in edges instead of rows. After an error no further range is
    begun; it is raised here once the ranges under way have ended.
    """
    threads = threads or thread_count()
    bounds = cut_ranges(n, threads * _RANGES_PER_THREAD if threads > 1 else 1, offsets)
    if len(bounds) <= 2:
        if n:
            kernel(0, n)
        return
    waiting = deque(itertools.pairwise(bounds.tolist()))

    def work() -> None:
        while True:
            try:
                start, stop = waiting.popleft()
            except IndexError:
                return
            try:
                kernel(start, stop)
            except BaseException:
                waiting.clear()
                raise

    helpers: list[Future[None]] = [_shared_pool().submit(work) for _ in range(threads - 1)]
    try:
        work()
    finally:
        begun = [helper for helper in helpers if not helper.cancel()]
        errors = [helper.exception() for helper in begun]
    for error in errors:
        if error is not None:
            raise error


def worthwhile_threads(items: int, threads: int | None = None) -> int:
    """No more threads than have thousands of items each: waking one costs more than sorting a few edges."""
    return max(1, min(threads or thread_count(), items // _ITEMS_WORTH_A_THREAD))


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


def _forget_pool() -> None:
    """A forked child has none of its parent's threads, and perhaps its lock held: start anew."""
    global _pool, _pool_lock
    _pool, _pool_lock = None, threading.Lock()


os.register_at_fork(after_in_child=_forget_pool)
