"""Node tables cut into parts: rows go from imported order to each part's local order.

Tables are read from the first row to the last, if need be several times, and written in long runs (by_key.py). Gathering rows
where they lie would be random reading: fine while a file is in the page cache, ten times slower from a disk.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.errors import InputError
from starling.core.manifest import GraphManifest, Table
from starling.core.npy import NpyReader, save_array
from starling.core.progress import Progress
from starling.kernels.ranked_set import RankedSet
from starling.store.sharding.budget import Budget
from starling.store.sharding.by_key import readings, rows_by_key
from starling.store.sharding.node_order import NodeOrder
from starling.store.sharding.part_files import PartFiles
from starling.store.sharding.rows import Column, KeyedRows, RowSource
from starling.store.sharding.type_order import read_types
from starling.stream.ahead import read_ahead

_BLOCK_BYTES = 1 << 23


@dataclass(frozen=True)
class RowMap:
    """Row i of a table goes to row target[i] of all parts' rows laid end to end; part q's are bounds[q] … bounds[q + 1] − 1."""

    target: NDArray[Any]
    bounds: NDArray[np.int64]

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(self.target)


class NodeTableCutter:
    """Cuts the node tables of one graph into the shards' directories, one table after another."""

    def __init__(
        self,
        source: Path,
        manifest: GraphManifest,
        order: NodeOrder,
        shards: Sequence[Path],
        scratch: Path,
        *,
        budget: Budget,
        threads: int | None,
        progress: Progress,
    ) -> None:
        self._source, self._manifest, self._order, self._shards = source, manifest, order, shards
        self._scratch, self._budget, self._threads, self._progress = scratch, budget, threads, progress

    def cut(self, name: str, files: Sequence[str]) -> None:
        """Write one table's rows of each part; `files` are the names in a shard directory, in the order of the table's."""
        table = self._manifest.node_tables[name]
        rows = self._row_map(table)
        readers = [NpyReader(self._source / file) for file in table.files]
        if table.layout == "dense":
            self._cut_dense(name, readers[0], rows, files[0])
        else:
            self._cut_csr(name, readers, rows, files)

    def _row_map(self, table: Table) -> RowMap:
        if table.of_type is None:
            return RowMap(self._order.global_of_position, self._order.offsets)
        if table.of_type not in self._manifest.node_types:
            raise InputError(
                f"{self._source} has a table of node type '{table.of_type}', which it does not list. Import it again."
            )
        nodes = np.flatnonzero(read_types(self._source, self._manifest) == self._manifest.node_types.index(table.of_type))
        globals_ = self._order.global_of_position[nodes]
        of_type = RankedSet(self._order.nodes)
        of_type.add_all(globals_)
        of_type.rank()
        return RowMap(of_type.ranks(globals_), of_type.ranks(self._order.offsets))

    def _cut_dense(self, name: str, reader: NpyReader, rows: RowMap, file: str) -> None:
        column = Column(reader.dtype, reader.shape[1:])
        if column.bytes == 0:
            with self._part_files(file, rows.bounds, column) as writer:
                writer.append(np.zeros(reader.shape, reader.dtype))
            return

        def blocks() -> Iterator[KeyedRows]:
            step = max(1, _BLOCK_BYTES // column.bytes)
            for number, block in enumerate(read_ahead(reader.blocks(step))):
                yield KeyedRows(rows.target[number * step : number * step + len(block)], {file: block})

        source = RowSource({file: column}, blocks, rows.rows, max(1, rows.rows), ends=np.arange(rows.rows + 1))
        self._write(name, source, rows.bounds)

    def _cut_csr(self, name: str, readers: Sequence[NpyReader], rows: RowMap, files: Sequence[str]) -> None:
        offsets, contents = readers[0], dict(zip(files[1:], readers[1:], strict=True))

        def blocks() -> Iterator[KeyedRows]:
            at = 0
            for start, lengths in _row_lengths(offsets):
                stop = at + int(lengths.sum())
                keys = np.repeat(rows.target[start : start + len(lengths)], lengths)
                yield KeyedRows(keys, {file: reader.read(at, stop) for file, reader in contents.items()})
                at = stop

        ends = np.zeros(rows.rows + 1, np.int64)
        for start, lengths in _row_lengths(offsets):
            ends[rows.target[start : start + len(lengths)] + 1] = lengths
        np.cumsum(ends, out=ends)
        self._write_offsets(ends, rows.bounds, files[0], offsets.dtype)
        columns = {file: Column(reader.dtype) for file, reader in contents.items()}
        source = RowSource(columns, blocks, int(ends[-1]), max(1, rows.rows), ends=ends)
        self._write(name, source, ends[rows.bounds])

    def _write(self, name: str, source: RowSource, bounds: NDArray[np.int64]) -> None:
        """Write the columns of `source`, which bear the names of their files, in order of key."""
        with ExitStack() as stack:
            writers = {
                file: stack.enter_context(self._part_files(file, bounds, column)) for file, column in source.columns.items()
            }
            memory = self._budget.left()
            total = source.count * readings(source, memory)
            task = stack.enter_context(self._progress.task(f"Cutting table '{name}'", total, unit="rows"))
            sorted_rows = rows_by_key(source, scratch=self._scratch, memory=memory, threads=self._threads, task=task)
            for file, block in sorted_rows:
                writers[file].append(block)

    def _part_files(self, file: str, bounds: NDArray[np.int64], column: Column) -> PartFiles:
        return PartFiles([shard / file for shard in self._shards], bounds, column.dtype, column.shape)

    def _write_offsets(self, ends: NDArray[np.int64], bounds: NDArray[np.int64], file: str, dtype: np.dtype[Any]) -> None:
        for part, shard in enumerate(self._shards):
            mine = ends[bounds[part] : bounds[part + 1] + 1]
            save_array(shard / file, (mine - mine[0]).astype(dtype))


def _row_lengths(offsets: NpyReader) -> Iterator[tuple[int, NDArray[Any]]]:
    """The first row and the lengths of the rows of a sparse table, block by block, blocks having about as many values."""
    rows = offsets.rows - 1
    values = int(offsets.read(rows, rows + 1)[0])
    step = max(1, _BLOCK_BYTES // 8 * rows // max(rows + values, 1))
    for start in range(0, rows, step):
        yield start, np.diff(offsets.read(start, min(start + step, rows) + 1))
