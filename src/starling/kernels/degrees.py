"""How many edges each node has."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.core.errors import InputError
from starling.kernels.parallel import cut_ranges, parallel_for, worthwhile_threads

Side = Literal["source", "destination"]
COLUMN: dict[Side, int] = {"source": 0, "destination": 1}

_EDGES_WORTH_OWN_COUNTS = 4  # edges a node at which a thread's own counts, zeroed and added up, pay for themselves


def count_degrees(
    pairs: NDArray[Any],
    nodes: int,
    side: Side = "destination",
    *,
    into: NDArray[np.int64] | None = None,
    threads: int | None = None,
) -> NDArray[np.int64]:
    """The number of edges [N] that have each node as their source, or as their destination.

    `pairs` is [E, 2] of (source, destination). Give the result of one block as `into` of the next to count a whole stream;
    it is added to in place. Costs one pass, and 8N bytes for each thread that gets counts of its own.
    """
    return count_numbers(pairs[:, COLUMN[side]], nodes, into=into, threads=threads)


def count_numbers(
    ends: NDArray[Any], nodes: int, *, into: NDArray[np.int64] | None = None, threads: int | None = None
) -> NDArray[np.int64]:
    """How often each node is named [N] in a list of numbers: `count_degrees` of edges of which one end is looked at."""
    counts = np.zeros(nodes, np.int64) if into is None else into
    if len(counts) != nodes:
        raise ValueError(f"counts of {len(counts)} nodes given for a graph of {nodes}")
    threads = worthwhile_threads(len(ends), threads)
    check_nodes(ends, nodes, threads)
    counters = max(1, min(threads, len(ends) // (_EDGES_WORTH_OWN_COUNTS * max(nodes, 1))))
    if counters == 1:
        _count(ends, 0, len(ends), counts)
        return counts
    chunks = cut_ranges(len(ends), counters)
    partial = np.zeros((counters, nodes), np.int64)

    def count_chunks(first: int, last: int) -> None:
        for chunk in range(first, last):
            _count(ends, chunks[chunk], chunks[chunk + 1], partial[chunk])

    parallel_for(counters, count_chunks, threads)
    parallel_for(nodes, lambda start, stop: _add_up(partial, counts, start, stop), threads)
    return counts


def check_nodes(numbers: NDArray[Any], nodes: int, threads: int | None = None, *, before: int = 0) -> None:
    """Refuse numbers outside [0, N): kernels index arrays with them and look no further.

    `before` is how many stand ahead of them in a longer list, for the message.
    """
    outside: list[int] = []

    def look(start: int, stop: int) -> None:
        place = _first_outside(numbers, nodes, start, stop)
        if place >= 0:
            outside.append(place)

    parallel_for(len(numbers), look, threads)
    if outside:
        place = min(outside)
        raise InputError(f"Expected node numbers in [0, {nodes:,}), got {numbers[place]} at position {before + place:,}.")


@compiled
def _count(ends: NDArray[Any], start: int, stop: int, counts: NDArray[np.int64]) -> None:
    for i in range(start, stop):
        counts[np.uint64(ends[i])] += 1  # unsigned: Numba would ask of every other index whether it counts from the end


@compiled
def _add_up(partial: NDArray[np.int64], counts: NDArray[np.int64], start: int, stop: int) -> None:
    for k in range(len(partial)):
        for node in range(start, stop):
            counts[node] += partial[k, node]


@compiled
def _first_outside(numbers: NDArray[Any], nodes: int, start: int, stop: int) -> int:
    for i in range(start, stop):
        if numbers[i] < 0 or numbers[i] >= nodes:
            return i
    return -1
