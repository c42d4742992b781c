"""Make a directed graph undirected: put the reverse of an edge behind it where the graph lacks it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.kernels.equal_pairs import first_equal, split_by_hash
from starling.kernels.parallel import parallel_for, worthwhile_threads


def symmetrise(pairs: NDArray[Any], *, threads: int | None = None) -> NDArray[Any]:
    """The edges `pairs` [E, 2] in their order, each followed by its reverse where `reverse_missing` says so.

    An edge table follows with ``numpy.repeat(table, 1 + reverse_missing(pairs), axis=0)``.
    """
    missing = reverse_missing(pairs, threads=threads)
    place = np.zeros(len(pairs) + 1, np.int64)
    np.cumsum(1 + missing, out=place[1:])
    both = np.empty((place[-1], 2), pairs.dtype)
    threads = worthwhile_threads(len(pairs), threads)
    parallel_for(len(pairs), lambda start, stop: _lay_out(pairs, place, both, start, stop), threads)
    return both


def reverse_missing(pairs: NDArray[Any], *, threads: int | None = None) -> NDArray[np.bool_]:
    """True for each edge that has no reverse to go with it.

    Copies pair off one by one: the k-th copy of an edge lacks its reverse when there are fewer than k copies of the reverse.
    So adding the missing ones makes both directions occur equally often. A self-loop is its own reverse.
    """
    split = split_by_hash(pairs, both_ways=True, threads=threads)
    missing = np.empty(len(pairs), np.bool_)

    def mark(begin: int, end: int) -> None:
        for number in range(begin, end):
            _mark_missing(split.bucket(number), missing)

    parallel_for(len(split.bounds) - 1, mark, threads, offsets=split.bounds)
    return missing


@compiled
def _mark_missing(records: NDArray[Any], missing: NDArray[np.bool_]) -> None:
    first = np.empty(len(records), np.int64)
    first_equal(records, True, first)
    copies = np.zeros((len(records), 2), np.int64)  # of the pair with this first record: forward, backward
    for i in range(len(records)):
        copies[first[i], np.int64(records[i, 0] > records[i, 1])] += 1
    passed = np.zeros((len(records), 2), np.int64)
    for i in range(len(records)):
        backward = np.int64(records[i, 0] > records[i, 1])
        passed[first[i], backward] += 1
        loop = records[i, 0] == records[i, 1]
        missing[records[i, 2]] = not loop and passed[first[i], backward] > copies[first[i], 1 - backward]


@compiled
def _lay_out(pairs: NDArray[Any], place: NDArray[np.int64], both: NDArray[Any], start: int, stop: int) -> None:
    for i in range(start, stop):
        at = place[i]
        both[at, 0], both[at, 1] = pairs[i, 0], pairs[i, 1]
        if place[i + 1] - at == 2:
            both[at + 1, 0], both[at + 1, 1] = pairs[i, 1], pairs[i, 0]
