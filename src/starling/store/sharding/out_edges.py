"""The transpose of a shard's in-edges, made in windows so that memory is bounded whatever the degree of a node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.core.environment import thread_count
from starling.core.npy import NpyReader, NpyWriter
from starling.kernels.csr import index_type
from starling.kernels.parallel import cut_ranges, parallel_for
from starling.store.shard_layout import IN_NEIGHBOURS, OUT_ENTRY, OUT_NEIGHBOURS, OUT_OFFSETS
from starling.store.sharding.entries import BLOCK_ENTRIES


def write_out_edges(
    directory: Path, in_offsets: NDArray[np.int64], columns: int, *, memory: int, threads: int | None = None
) -> None:
    """For every local node the rows it feeds, ascending, and for each the entry of the in-edges it comes from.

    One pass to count, then a pass for each window of the result that fits `memory`.
    """
    neighbours = NpyReader(directory / IN_NEIGHBOURS)
    offsets = np.zeros(columns + 1, np.int64)
    for block in neighbours.blocks(BLOCK_ENTRIES):
        _count(block, offsets[1:])
    np.cumsum(offsets, out=offsets)
    np.save(directory / OUT_OFFSETS, offsets)
    row_type, entry_type = index_type(len(in_offsets) - 1), index_type(neighbours.rows)
    room = max(1, memory // (np.dtype(row_type).itemsize + np.dtype(entry_type).itemsize))
    with (
        NpyWriter(directory / OUT_NEIGHBOURS, row_type) as rows_file,
        NpyWriter(directory / OUT_ENTRY, entry_type) as entry_file,
    ):
        for low in range(0, neighbours.rows, room):
            high = min(low + room, neighbours.rows)
            rows, entry = np.empty(high - low, row_type), np.empty(high - low, entry_type)
            _fill_window(neighbours, in_offsets, offsets, low, rows, entry, threads)
            rows_file.append(rows)
            entry_file.append(entry)


def _fill_window(
    neighbours: NpyReader,
    in_offsets: NDArray[np.int64],
    offsets: NDArray[np.int64],
    low: int,
    rows: NDArray[Any],
    entry: NDArray[Any],
    threads: int | None,
) -> None:
    """Fill places low … low + len(rows) − 1 of the transpose."""
    first = int(np.searchsorted(offsets, low, side="right")) - 1
    last = int(np.searchsorted(offsets, low + len(rows)))
    at = offsets[first:last] - low
    # Each thread reads every entry and places those of its own columns: no place has two writers.
    ranges = cut_ranges(last - first, threads or thread_count(), offsets[first : last + 1])
    start = 0
    for block in neighbours.blocks(BLOCK_ENTRIES):
        row = int(np.searchsorted(in_offsets, start, side="right")) - 1

        def place(begin: int, end: int, block: NDArray[Any] = block, start: int = start, row: int = row) -> None:
            for k in range(begin, end):
                _place(block, start, row, in_offsets, first, ranges[k], ranges[k + 1], at, rows, entry)

        parallel_for(len(ranges) - 1, place, threads)
        start += len(block)


@compiled
def _count(neighbours: NDArray[Any], counts: NDArray[np.int64]) -> None:
    for i in range(len(neighbours)):
        counts[neighbours[i]] += 1


@compiled
def _place(
    neighbours: NDArray[Any],
    start: int,
    row: int,
    in_offsets: NDArray[np.int64],
    first: int,
    begin: int,
    end: int,
    at: NDArray[np.int64],
    rows: NDArray[Any],
    entry: NDArray[Any],
) -> None:
    """Put entries start, start + 1, … whose column is in first + begin … first + end − 1 where they belong."""
    for i in range(len(neighbours)):
        while in_offsets[row + 1] <= start + i:
            row += 1
        column = neighbours[i] - first
        if begin <= column < end:
            place = at[column]
            at[column] = place + 1
            if 0 <= place < len(rows):
                rows[place] = row
                entry[place] = start + i
