"""The transpose of a shard's in-edges: for every local node the rows it feeds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.core.npy import NpyReader, NpyWriter, save_array
from starling.kernels.csr import index_type
from starling.store.shard_layout import IN_NEIGHBOURS, OUT_ENTRY, OUT_NEIGHBOURS, OUT_OFFSETS
from starling.store.sharding.budget import Budget
from starling.store.sharding.by_key import rows_by_key
from starling.store.sharding.entries import BLOCK_ENTRIES
from starling.store.sharding.rows import Column, KeyedRows, RowSource
from starling.stream.ahead import blocks_ahead

_ROW, _ENTRY = "row", "entry"


def write_out_edges(
    directory: Path,
    in_offsets: NDArray[np.int64],
    columns: int,
    *,
    scratch: Path,
    budget: Budget,
    threads: int | None = None,
) -> None:
    """Write for every local node the rows it feeds, ascending, and for each the entry of the in-edges it comes from."""
    neighbours = NpyReader(directory / IN_NEIGHBOURS)
    kinds = {
        _ROW: Column(np.dtype(index_type(len(in_offsets) - 1))),
        _ENTRY: Column(np.dtype(index_type(neighbours.rows))),
    }

    def blocks() -> Iterator[KeyedRows]:
        start = 0
        for block in blocks_ahead(neighbours, BLOCK_ENTRIES):
            rows = np.empty(len(block), kinds[_ROW].dtype)
            _fill_rows(in_offsets, int(np.searchsorted(in_offsets, start, side="right")) - 1, start, rows)
            yield KeyedRows(block, {_ROW: rows, _ENTRY: np.arange(start, start + len(block), dtype=kinds[_ENTRY].dtype)})
            start += len(block)

    offsets = np.zeros(columns + 1, np.int64)
    for block in neighbours.blocks(BLOCK_ENTRIES):
        _count(block, offsets[1:])
    np.cumsum(offsets, out=offsets)
    save_array(directory / OUT_OFFSETS, offsets)
    source = RowSource(kinds, blocks, neighbours.rows, columns, ends=offsets)
    with (
        NpyWriter(directory / OUT_NEIGHBOURS, kinds[_ROW].dtype) as row_file,
        NpyWriter(directory / OUT_ENTRY, kinds[_ENTRY].dtype) as entry_file,
    ):
        writers = {_ROW: row_file, _ENTRY: entry_file}
        for name, values in rows_by_key(source, scratch=scratch, memory=budget.left(), threads=threads):
            writers[name].append(values)


@compiled
def _count(neighbours: NDArray[Any], counts: NDArray[np.int64]) -> None:
    for i in range(len(neighbours)):
        counts[neighbours[i]] += 1


@compiled
def _fill_rows(offsets: NDArray[np.int64], row: int, start: int, rows: NDArray[Any]) -> None:
    """The row of entries start, start + 1, …, the first of which is in `row`."""
    for i in range(len(rows)):
        while offsets[row + 1] <= start + i:
            row += 1
        rows[i] = row
