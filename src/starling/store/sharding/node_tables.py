"""Node tables cut into parts: rows go from imported order to each part's local order by an external sort.

A row is moved as bits, once to a bucket file and once to its place, always in long sequential reads and writes. (Gathering rows
where they lie is random reading: fine while the file is in the page cache, ten times slower from a disk.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.core.errors import InputError
from starling.core.manifest import GraphManifest, Table
from starling.core.npy import NpyReader
from starling.core.progress import Progress, Task
from starling.kernels.csr import index_type
from starling.kernels.ranked_set import RankedSet
from starling.store.shard_layout import TYPE_ROW
from starling.store.sharding.external_sort import Column, ExternalSort
from starling.store.sharding.node_order import NodeOrder
from starling.store.sharding.part_files import PartFiles

_BLOCK_BYTES = 1 << 23
_SAMPLE = 1 << 16


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
        memory: int,
        threads: int | None,
        progress: Progress,
    ) -> None:
        self._source, self._manifest, self._order, self._shards = source, manifest, order, shards
        self._scratch, self._memory, self._threads, self._progress = scratch, memory, threads, progress

    def cut(self, name: str, files: Sequence[str]) -> None:
        """Write one table's rows of each part; `files` are the names in a shard directory, in the order of the table's."""
        table = self._manifest.node_tables[name]
        rows = self._row_map(table)
        readers = [NpyReader(self._source / file) for file in table.files]
        with self._progress.task(f"Cutting table '{name}'", 2 * rows.rows, unit="nodes") as task:
            if table.layout == "dense":
                self._cut_dense(readers[0], rows, files[0], task)
            else:
                self._cut_csr(readers, rows, files, task)

    def write_type_rows(self) -> None:
        """For every owned node its row among the part's nodes of the same type, which is its row in tables of that type."""
        codes = self._type_codes()
        for part, shard in enumerate(self._shards):
            mine = codes[self._order.positions(part)]
            row = np.empty(len(mine), index_type(self._order.nodes))
            _rank_in_type(mine, np.zeros(int(codes.max(initial=0)) + 1, np.int64), row)
            np.save(shard / TYPE_ROW, row)

    def _row_map(self, table: Table) -> RowMap:
        if table.of_type is None:
            return RowMap(self._order.global_of_position, self._order.offsets)
        if table.of_type not in self._manifest.node_types:
            raise InputError(
                f"{self._source} has a table of node type '{table.of_type}', which it does not list. Import it again."
            )
        nodes = np.flatnonzero(self._type_codes() == self._manifest.node_types.index(table.of_type))
        globals_ = self._order.global_of_position[nodes]
        of_type = RankedSet(self._order.nodes)
        of_type.add_all(globals_)
        of_type.rank()
        return RowMap(of_type.ranks(globals_), of_type.ranks(self._order.offsets))

    def _type_codes(self) -> NDArray[Any]:
        if "type" not in self._manifest.node_tables:
            raise InputError(f"{self._source} has tables of one node type but no table 'type' of node types. Import it again.")
        reader = NpyReader(self._source / self._manifest.node_tables["type"].files[0])
        return reader.read(0, reader.rows)

    def _cut_dense(self, reader: NpyReader, rows: RowMap, file: str, task: Task) -> None:
        column = Column(reader.dtype, reader.shape[1:])
        step = max(1, _BLOCK_BYTES // max(column.bytes, 1))
        sample = np.linspace(0, rows.rows, _SAMPLE, endpoint=False).astype(np.int64)
        with PartFiles([shard / file for shard in self._shards], rows.bounds, column.dtype, column.shape) as writer:
            if column.bytes == 0:
                writer.append(np.zeros(reader.shape, reader.dtype))
                return
            with self._sort({"row": column}, sample, rows.rows, rows) as sorter:
                for start in range(0, rows.rows, step):
                    block = reader.read(start, min(start + step, rows.rows))
                    sorter.add(rows.target[start : start + step], {"row": block})
                    task.advance(len(block))
                for run in sorter.runs():
                    for block in run.blocks("row"):
                        writer.append(block)
                        task.advance(len(block))

    def _cut_csr(self, readers: Sequence[NpyReader], rows: RowMap, files: Sequence[str], task: Task) -> None:
        offsets, contents = readers[0], dict(zip(("columns", "values"), readers[1:], strict=True))
        ends = np.zeros(rows.rows + 1, np.int64)
        for start, lengths in _row_lengths(offsets):
            ends[rows.target[start : start + len(lengths)] + 1] = lengths
        np.cumsum(ends, out=ends)
        self._write_offsets(ends, rows.bounds, files[0], offsets.dtype)
        places = np.linspace(0, int(ends[-1]), _SAMPLE, endpoint=False).astype(np.int64)
        sample = np.searchsorted(ends, places, side="right") - 1
        columns = {name: Column(reader.dtype) for name, reader in contents.items()}
        with ExitStack() as stack:
            sorter = stack.enter_context(self._sort(columns, sample, int(ends[-1]), rows))
            at = 0
            for start, lengths in _row_lengths(offsets):
                stop = at + int(lengths.sum())
                keys = np.repeat(rows.target[start : start + len(lengths)], lengths)
                sorter.add(keys, {name: reader.read(at, stop) for name, reader in contents.items()})
                at = stop
                task.advance(len(lengths))
            writers = {}
            for name, file in zip(contents, files[1:], strict=True):
                paths = [shard / file for shard in self._shards]
                writers[name] = stack.enter_context(PartFiles(paths, ends[rows.bounds], columns[name].dtype))
            for run in sorter.runs():
                for name, writer in writers.items():
                    for block in run.blocks(name):
                        writer.append(block)
        task.advance(rows.rows)

    def _write_offsets(self, ends: NDArray[np.int64], bounds: NDArray[np.int64], file: str, dtype: np.dtype[Any]) -> None:
        for part, shard in enumerate(self._shards):
            mine = ends[bounds[part] : bounds[part + 1] + 1]
            np.save(shard / file, (mine - mine[0]).astype(dtype))

    def _sort(self, columns: dict[str, Column], sample: NDArray[Any], count: int, rows: RowMap) -> ExternalSort:
        return ExternalSort(
            self._scratch / "rows",
            columns,
            sample=sample,
            rows=count,
            limit=max(1, rows.rows),
            memory=self._memory,
            threads=self._threads,
        )


def _row_lengths(offsets: NpyReader) -> Iterator[tuple[int, NDArray[Any]]]:
    """The first row and the lengths of the rows of a sparse table, block by block, blocks having about as many values."""
    rows = offsets.rows - 1
    values = int(offsets.read(rows, rows + 1)[0])
    step = max(1, _BLOCK_BYTES // 8 * rows // max(rows + values, 1))
    for start in range(0, rows, step):
        yield start, np.diff(offsets.read(start, min(start + step, rows) + 1))


@compiled
def _rank_in_type(codes: NDArray[Any], seen: NDArray[np.int64], row: NDArray[Any]) -> None:
    for i in range(len(codes)):
        row[i] = seen[codes[i]]
        seen[codes[i]] += 1
