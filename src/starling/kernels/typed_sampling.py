"""Take in-edges of chosen rows by their type and time: so many of each type, and only those that are old enough for the row.

What a row takes is a pure function of the key, of the row's position in the imported graph, of its time limit and of its list.
Lists are read whole, once to count and once to choose; entries come in the order of the list (with replacement, in the order of the
draws, type by type).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.core.keyed import draw_below, draw_unit
from starling.kernels.csr import Csr
from starling.kernels.parallel import parallel_for, worthwhile_threads
from starling.kernels.sampling import Taken, empty_edges

ALL = -1
"""A fan-out that takes every edge of a type."""

_NO_TYPES: NDArray[np.int64] = np.empty(0, np.int64)
_NO_TIMES: NDArray[np.float64] = np.empty(0, np.float64)


@dataclass(frozen=True, eq=False)
class EdgeRules:
    """Which edges may be taken: `types` [E] are codes below len(fanouts), `times` [E]; either is None where it does not matter."""

    fanouts: NDArray[np.int64]
    types: NDArray[Any] | None = None
    times: NDArray[Any] | None = None


def take_by_rules(
    lists: Csr,
    rules: EdgeRules,
    rows: NDArray[Any],
    position: NDArray[Any],
    limits: NDArray[Any] | None,
    key: np.uint64,
    *,
    replace: bool = False,
    threads: int | None = None,
) -> Taken:
    """`fanouts[t]` in-edges of type t of each row, all equally likely, among those whose time is at most the row's limit [D].

    A type with no more such edges than its fan-out is taken whole, unless with replacement. `edge_scale` is edges / taken of the
    edge's row and type: sums over what was taken are unbiased for sums over what might have been.
    """
    types = _NO_TYPES if rules.types is None else rules.types
    times = _NO_TIMES if rules.times is None or limits is None else rules.times
    limits = _NO_TIMES if limits is None else limits
    count = np.zeros(len(rows) + 1, np.int64)
    listed = lists.offsets[rows + 1] - lists.offsets[rows] if len(rows) else np.zeros(0, np.int64)
    work = np.concatenate([[0], np.cumsum(listed)])
    threads = worthwhile_threads(int(work[-1]), threads)
    parallel_for(
        len(rows),
        lambda start, stop: _count(lists.offsets, types, times, rows, limits, rules.fanouts, replace, count, start, stop),
        threads,
        offsets=work,
    )
    offsets = np.cumsum(count)
    neighbours, entry = empty_edges(lists, int(offsets[-1]))
    scale = np.empty(len(entry), np.float32)
    kernel = _draw_again if replace else _draw_once
    parallel_for(
        len(rows),
        lambda start, stop: kernel(
            lists.offsets, lists.neighbours, types, times, rows, limits, position, rules.fanouts, key, offsets,
            neighbours, entry, scale, start, stop,
        ),
        threads,
        offsets=work,
    )  # fmt: skip
    return Taken(offsets, neighbours, entry, edge_scale=scale)


def count_past(
    lists: Csr, times: NDArray[Any], rows: NDArray[Any], limits: NDArray[Any], threads: int | None = None
) -> NDArray[np.int64]:
    """In-edges of each row whose time is at most the row's limit [D]: its in-degree at that time."""
    count = np.zeros(len(rows) + 1, np.int64)
    every = np.full(1, ALL, np.int64)
    parallel_for(
        len(rows),
        lambda start, stop: _count(lists.offsets, _NO_TYPES, times, rows, limits, every, False, count, start, stop),
        worthwhile_threads(len(rows), threads),
    )
    return count[1:]


@compiled
def _count_types(
    types: NDArray[Any], times: NDArray[Any], limit: float, first: int, last: int, found: NDArray[np.int64]
) -> None:
    """Add the edges of each type that are old enough to `found`."""
    for j in range(first, last):
        if len(times) == 0 or times[j] <= limit:
            found[types[j] if len(types) else 0] += 1


@compiled
def _count(
    offsets: NDArray[np.int64],
    types: NDArray[Any],
    times: NDArray[Any],
    rows: NDArray[Any],
    limits: NDArray[Any],
    fanouts: NDArray[np.int64],
    replace: bool,
    count: NDArray[np.int64],
    start: int,
    stop: int,
) -> None:
    found = np.zeros(len(fanouts), np.int64)
    for i in range(start, stop):
        found[:] = 0
        limit = limits[i] if len(times) else 0
        _count_types(types, times, limit, offsets[rows[i]], offsets[rows[i] + 1], found)
        total = 0
        for t in range(len(fanouts)):
            some = fanouts[t] >= 0 and (found[t] > fanouts[t] or (replace and found[t] > 0))
            total += fanouts[t] if some else found[t]
        count[i + 1] = total


@compiled
def _draw_once(
    offsets: NDArray[np.int64],
    neighbours: NDArray[Any],
    types: NDArray[Any],
    times: NDArray[Any],
    rows: NDArray[Any],
    limits: NDArray[Any],
    position: NDArray[Any],
    fanouts: NDArray[np.int64],
    key: np.uint64,
    taken: NDArray[np.int64],
    out: NDArray[Any],
    entry: NDArray[Any],
    scale: NDArray[np.float32],
    start: int,
    stop: int,
) -> None:
    """Selection sampling: an edge is taken with chance (still wanted of its type) / (still to come of its type)."""
    left = np.zeros(len(fanouts), np.int64)
    wanted = np.zeros(len(fanouts), np.int64)
    share = np.ones(len(fanouts))
    for i in range(start, stop):
        left[:] = 0
        first, last = offsets[rows[i]], offsets[rows[i] + 1]
        limit = limits[i] if len(times) else 0
        _count_types(types, times, limit, first, last, left)
        for t in range(len(fanouts)):
            whole = fanouts[t] < 0 or left[t] <= fanouts[t]
            wanted[t] = left[t] if whole else fanouts[t]
            share[t] = 1.0 if whole or fanouts[t] == 0 else left[t] / fanouts[t]
        at, number = taken[i], -1
        for j in range(first, last):
            if len(times) and times[j] > limit:
                continue
            number += 1  # younger edges do not count: the sample is that of a graph without them
            t = types[j] if len(types) else 0
            if wanted[t] > 0 and (wanted[t] == left[t] or draw_unit(key, position[i], number) * left[t] < wanted[t]):
                out[at], entry[at], scale[at] = neighbours[j], j, share[t]
                wanted[t] -= 1
                at += 1
            left[t] -= 1


@compiled
def _draw_again(
    offsets: NDArray[np.int64],
    neighbours: NDArray[Any],
    types: NDArray[Any],
    times: NDArray[Any],
    rows: NDArray[Any],
    limits: NDArray[Any],
    position: NDArray[Any],
    fanouts: NDArray[np.int64],
    key: np.uint64,
    taken: NDArray[np.int64],
    out: NDArray[Any],
    entry: NDArray[Any],
    scale: NDArray[np.float32],
    start: int,
    stop: int,
) -> None:
    """With replacement: a row's edges are laid out type by type, and drawn from by number."""
    found = np.zeros(len(fanouts), np.int64)
    begin = np.zeros(len(fanouts) + 1, np.int64)
    places = np.empty(64, np.int64)
    for i in range(start, stop):
        found[:] = 0
        first, last = offsets[rows[i]], offsets[rows[i] + 1]
        if last - first > len(places):
            places = np.empty(2 * (last - first), np.int64)
        limit = limits[i] if len(times) else 0
        _count_types(types, times, limit, first, last, found)
        for t in range(len(fanouts)):
            begin[t + 1] = begin[t] + found[t]
        found[:] = 0
        for j in range(first, last):
            if len(times) == 0 or times[j] <= limit:
                t = types[j] if len(types) else 0
                places[begin[t] + found[t]] = j
                found[t] += 1
        at, slot = taken[i], 0
        for t in range(len(fanouts)):
            drawn = found[t] if fanouts[t] < 0 else fanouts[t] if found[t] > 0 else 0
            for k in range(drawn):
                number = k if fanouts[t] < 0 else draw_below(key, position[i], slot + k, found[t])
                place = places[begin[t] + number]
                out[at], entry[at] = neighbours[place], place
                scale[at] = 1.0 if fanouts[t] < 0 else found[t] / fanouts[t]
                at += 1
            slot += drawn
