"""Compressed sparse rows: each node's neighbours side by side, in the order of the edges.

Built by a stable counting sort in two levels, both on threads: split the edges by ranges of rows, then sort each range.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.kernels.degrees import COLUMN, Side, check_nodes
from starling.kernels.parallel import parallel_for, worthwhile_threads
from starling.kernels.split import bucket_bits, split_pairs

_ONE = np.uint64(1)


@dataclass(frozen=True)
class Csr:
    """Neighbour lists: that of row r is ``neighbours[offsets[r]:offsets[r + 1]]``.

    `offsets` is int64 [N + 1]. `neighbours` and `edge` are [E], int32 where that is enough, else int64. `edge` says where
    each entry stood in what the CSR was made from, so that edge tables can follow it.
    """

    offsets: NDArray[np.int64]
    neighbours: NDArray[Any]
    edge: NDArray[Any]

    @property
    def rows(self) -> int:
        """How many neighbour lists there are."""
        return len(self.offsets) - 1


def index_type(count: int) -> type[np.int32 | np.int64]:
    """The type for numbers in [0, count): int32 where that is enough, else int64."""
    return np.int32 if count <= 1 << 31 else np.int64


def csr_from_pairs(pairs: NDArray[Any], nodes: int, by: Side = "destination", *, threads: int | None = None) -> Csr:
    """The CSR of edges `pairs` [E, 2]: each node's in-neighbours, or its out-neighbours with ``by="source"``.

    Neighbour lists keep the order of the edges. Costs 14 bytes an edge beyond the result (26 with int64 numbers).
    """
    column = COLUMN[by]
    threads = worthwhile_threads(len(pairs), threads)
    check_nodes(pairs[:, 1 - column], nodes, threads)
    return _group(pairs[:, column], pairs[:, 1 - column], nodes, index_type(nodes), threads)


def transpose(csr: Csr, columns: int, *, threads: int | None = None) -> Csr:
    """The CSR of the reversed edges: row c lists the rows that have c as a neighbour, in ascending order.

    `edge` is the position of each entry in `csr`.
    """
    threads = worthwhile_threads(len(csr.neighbours) + csr.rows, threads)
    row = np.empty(len(csr.neighbours), index_type(csr.rows))
    parallel_for(csr.rows, lambda start, stop: _fill_rows(csr.offsets, row, start, stop), threads, offsets=csr.offsets)
    return _group(csr.neighbours, row, columns, index_type(csr.rows), threads)


def _group(key: NDArray[Any], value: NDArray[Any], rows: int, value_type: type[Any], threads: int) -> Csr:
    """The CSR whose row r holds the values with key r, in the order of the input."""
    check_nodes(key, rows, threads)
    entries = len(key)
    shift = max(0, max(rows - 1, 0).bit_length() - bucket_bits(entries))
    buckets = max(1, -(-rows >> shift))
    bucket = np.empty(entries, np.uint16)
    parallel_for(entries, lambda start, stop: _find_range(key, shift, bucket, start, stop), threads)
    split = split_pairs(key, value, bucket, buckets, threads)
    offsets = np.zeros(rows + 1, np.int64)
    values = np.empty(entries, value_type)
    edge = np.empty(entries, index_type(entries))

    def sort_ranges(begin: int, end: int) -> None:
        for b in range(begin, end):
            start, stop = split.bounds[b], split.bounds[b + 1]
            first, last = b << shift, min((b + 1) << shift, rows)
            ends = offsets[first + 1 : last + 1]
            sort_records(split.bucket(b), first, start, ends, values[start:stop], edge[start:stop])

    parallel_for(buckets, sort_ranges, threads, offsets=split.bounds)
    return Csr(offsets, values, edge)


@compiled
def sort_records(
    records: NDArray[Any], first: int, before: int, ends: NDArray[np.int64], values: NDArray[Any], edge: NDArray[Any]
) -> None:
    """Stable counting sort of records (row, value, edge) into `values` and `edge`.

    Rows are first … first + len(ends) − 1; `ends` gets the end of each in the whole CSR, with `before` entries ahead.
    """
    at = np.zeros(len(ends), np.uint64)  # unsigned: Numba would ask of every other index whether it counts from the end
    for i in range(len(records)):
        at[np.uint64(records[i, 0] - first)] += _ONE
    total = np.uint64(0)
    for r in range(len(ends)):
        count = at[r]
        at[r] = total
        total += count
        ends[r] = before + np.int64(total)
    for i in range(len(records)):
        row = np.uint64(records[i, 0] - first)
        place = at[row]
        at[row] = place + _ONE
        values[place] = records[i, 1]
        edge[place] = records[i, 2]


@compiled
def _find_range(key: NDArray[Any], shift: int, bucket: NDArray[np.uint16], start: int, stop: int) -> None:
    for i in range(start, stop):
        bucket[i] = key[i] >> shift


@compiled
def _fill_rows(offsets: NDArray[np.int64], row: NDArray[Any], start: int, stop: int) -> None:
    for r in range(start, stop):
        for i in range(offsets[r], offsets[r + 1]):
            row[i] = r
