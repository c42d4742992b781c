"""Take in-edges of chosen rows with chances that follow edge weights, and the scale that makes sums over them unbiased.

Without replacement it is a race (Efraimidis and Spirakis 2006): the edge in slot s arrives after an exponential time of rate w_s
drawn for (key, position, s), and the first k to arrive are taken. Given the time τ at which the next one arrives, each of them
would have been taken with probability 1 − exp(−w τ); one over that is its scale, which is exactly unbiased (rank conditioning,
Cohen and Kaplan 2007). With replacement the scale of a draw is W / (k w), W being the row's total weight.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.core.keyed import draw_unit
from starling.kernels.csr import Csr
from starling.kernels.parallel import parallel_for, worthwhile_threads
from starling.kernels.sampling import Taken, empty_edges

_HALF_STEP = 2.0**-54  # between two values of draw_unit: keeps a random number off 0


def take_weighted(
    lists: Csr,
    weight: NDArray[Any],
    rows: NDArray[Any],
    position: NDArray[Any],
    fanout: int,
    key: np.uint64,
    *,
    replace: bool = False,
    threads: int | None = None,
) -> Taken:
    """`fanout` in-edges of each row, likely as they are heavy; weights [E] are at least 0, and edges of weight 0 stay out.

    Lists with no more than `fanout` edges of some weight are taken whole, unless with replacement. Reads whole lists.
    """
    count = np.zeros(len(rows) + 1, np.int64)
    listed = lists.offsets[rows + 1] - lists.offsets[rows] if len(rows) else np.zeros(0, np.int64)
    work = np.concatenate([[0], np.cumsum(listed)])
    threads = worthwhile_threads(int(work[-1]), threads)
    parallel_for(
        len(rows),
        lambda start, stop: _count(lists.offsets, weight, rows, fanout, replace, count, start, stop),
        threads,
        offsets=work,
    )
    offsets = np.cumsum(count)
    neighbours, entry = empty_edges(lists, int(offsets[-1]))
    scale = np.empty(len(entry), np.float32)
    kernel = _draw_with_replacement if replace else _race
    parallel_for(
        len(rows),
        lambda start, stop: kernel(
            lists.offsets, lists.neighbours, weight, rows, position, key, fanout, offsets, neighbours, entry, scale, start, stop
        ),
        threads,
        offsets=work,
    )
    return Taken(offsets, neighbours, entry, edge_scale=scale)


@compiled
def _count(
    offsets: NDArray[np.int64],
    weight: NDArray[Any],
    rows: NDArray[Any],
    fanout: int,
    replace: bool,
    count: NDArray[np.int64],
    start: int,
    stop: int,
) -> None:
    for i in range(start, stop):
        positive = 0
        for j in range(offsets[rows[i]], offsets[rows[i] + 1]):
            positive += weight[j] > 0
        count[i + 1] = fanout if positive > fanout or (replace and positive > 0) else positive


@compiled
def _race(
    offsets: NDArray[np.int64],
    neighbours: NDArray[Any],
    weight: NDArray[Any],
    rows: NDArray[Any],
    position: NDArray[Any],
    key: np.uint64,
    fanout: int,
    taken: NDArray[np.int64],
    out: NDArray[Any],
    entry: NDArray[Any],
    scale: NDArray[np.float32],
    start: int,
    stop: int,
) -> None:
    soonest = np.empty(fanout + 1)  # a heap, the latest on top
    times = np.empty(64)
    for i in range(start, stop):
        first, degree = offsets[rows[i]], offsets[rows[i] + 1] - offsets[rows[i]]
        if degree > len(times):
            times = np.empty(2 * degree)
        arrived = 0
        for slot in range(degree):
            rate = weight[first + slot]
            times[slot] = math.inf
            if rate > 0:
                unit = draw_unit(key, position[i], slot) + _HALF_STEP
                if arrived <= fanout:
                    times[slot] = -math.log(unit) / rate
                    _rise(soonest, arrived, times[slot])
                    arrived += 1
                elif 1.0 - unit < soonest[0] * rate:  # else too late, since -log(u) ≥ 1 - u: most never need a logarithm
                    times[slot] = -math.log(unit) / rate
                    if times[slot] < soonest[0]:
                        _sink(soonest, times[slot])
        end = soonest[0] if arrived > fanout else math.inf  # when the first that is too late arrives
        at = taken[i]
        for slot in range(degree):
            if times[slot] < end and at < taken[i + 1]:
                out[at], entry[at] = neighbours[first + slot], first + slot
                scale[at] = 1.0 if end == math.inf else -1.0 / math.expm1(-weight[first + slot] * end)
                at += 1


@compiled
def _rise(heap: NDArray[np.float64], place: int, time: float) -> None:
    """Add a time to a heap of `place` times."""
    while place > 0 and heap[(place - 1) >> 1] < time:
        heap[place] = heap[(place - 1) >> 1]
        place = (place - 1) >> 1
    heap[place] = time


@compiled
def _sink(heap: NDArray[np.float64], time: float) -> None:
    """Put an earlier time in the place of the latest."""
    place, child = 0, 1
    while child < len(heap):
        if child + 1 < len(heap) and heap[child + 1] > heap[child]:
            child += 1
        if heap[child] <= time:
            break
        heap[place] = heap[child]
        place, child = child, 2 * child + 1
    heap[place] = time


@compiled
def _draw_with_replacement(
    offsets: NDArray[np.int64],
    neighbours: NDArray[Any],
    weight: NDArray[Any],
    rows: NDArray[Any],
    position: NDArray[Any],
    key: np.uint64,
    fanout: int,
    taken: NDArray[np.int64],
    out: NDArray[Any],
    entry: NDArray[Any],
    scale: NDArray[np.float32],
    start: int,
    stop: int,
) -> None:
    running = np.empty(64)
    for i in range(start, stop):
        if taken[i + 1] == taken[i]:
            continue
        first, last = offsets[rows[i]], offsets[rows[i] + 1]
        if last - first > len(running):
            running = np.empty(2 * (last - first))
        total, last_heavy = 0.0, 0
        for k in range(last - first):
            total += weight[first + k]
            running[k] = total
            if weight[first + k] > 0:
                last_heavy = k  # the last of some weight: where rounding would step past the end
        for slot in range(taken[i + 1] - taken[i]):
            mark = draw_unit(key, position[i], slot) * total
            place = first + min(_first_above(running, last - first, mark), last_heavy)
            at = taken[i] + slot
            out[at], entry[at] = neighbours[place], place
            scale[at] = total / (fanout * weight[place])


@compiled
def _first_above(running: NDArray[np.float64], count: int, mark: float) -> int:
    """The first of `count` ascending numbers that is larger than `mark`, by halving."""
    low, high = 0, count
    while low < high:
        middle = (low + high) >> 1
        if running[middle] > mark:
            high = middle
        else:
            low = middle + 1
    return low
