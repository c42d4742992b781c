"""The in-edges among a set of rows: what remains of their neighbour lists when everybody else is left out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.kernels.csr import Csr, index_type
from starling.kernels.parallel import parallel_for, worthwhile_threads
from starling.kernels.sampling import Taken

_USUAL_DEGREE = 16  # for a guess at the work, cheaper than adding up degrees


def take_within(lists: Csr, rows: NDArray[Any], places: NDArray[np.int32], threads: int | None = None) -> Taken:
    """In-edges of `rows` from rows that have a place; `neighbours` are those places, not rows of the graph.

    `places` has a number for every row of the graph, −1 for those left out. Lists are read twice, to count and to copy.
    """
    count = np.zeros(len(rows) + 1, np.int64)
    work = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(lists.offsets[rows + 1] - lists.offsets[rows], out=work[1:])
    threads = worthwhile_threads(int(work[-1]), threads)
    parallel_for(
        len(rows), lambda i, j: _count(lists.offsets, lists.neighbours, rows, places, count, i, j), threads, offsets=work
    )
    offsets = np.cumsum(count)
    neighbours = np.empty(int(offsets[-1]), np.int32)
    entry = np.empty(len(neighbours), index_type(len(lists.neighbours)))
    parallel_for(
        len(rows),
        lambda i, j: _copy(lists.offsets, lists.neighbours, rows, places, offsets, neighbours, entry, i, j),
        threads,
        offsets=work,
    )
    return Taken(offsets, neighbours, entry)


def count_within(
    lists: Csr, rows: NDArray[Any], places: NDArray[np.int32], counts: NDArray[np.int32], threads: int | None = None
) -> None:
    """Add one to the count of every entry that `take_within` would take; `counts` has one for each entry of the lists."""
    parallel_for(
        len(rows),
        lambda i, j: _add_one(lists.offsets, lists.neighbours, rows, places, counts, i, j),
        worthwhile_threads(len(rows) * _USUAL_DEGREE, threads),
    )


@compiled
def _count(
    offsets: NDArray[np.int64],
    neighbours: NDArray[Any],
    rows: NDArray[Any],
    places: NDArray[np.int32],
    count: NDArray[np.int64],
    start: int,
    stop: int,
) -> None:
    for i in range(start, stop):
        inside = 0
        for j in range(offsets[rows[i]], offsets[rows[i] + 1]):
            inside += places[np.uint64(neighbours[j])] >= 0
        count[i + 1] = inside


@compiled
def _copy(
    offsets: NDArray[np.int64],
    neighbours: NDArray[Any],
    rows: NDArray[Any],
    places: NDArray[np.int32],
    taken: NDArray[np.int64],
    out: NDArray[np.int32],
    entry: NDArray[Any],
    start: int,
    stop: int,
) -> None:
    for i in range(start, stop):
        at = taken[i]
        for j in range(offsets[rows[i]], offsets[rows[i] + 1]):
            place = places[np.uint64(neighbours[j])]
            if place >= 0:
                out[at], entry[at] = place, j
                at += 1


@compiled
def _add_one(
    offsets: NDArray[np.int64],
    neighbours: NDArray[Any],
    rows: NDArray[Any],
    places: NDArray[np.int32],
    counts: NDArray[np.int32],
    start: int,
    stop: int,
) -> None:
    for i in range(start, stop):
        for j in range(offsets[rows[i]], offsets[rows[i] + 1]):
            counts[j] += places[np.uint64(neighbours[j])] >= 0
