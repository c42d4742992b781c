"""A graph's edges and nodes as tables of named columns, a block of rows at a time, written as CSV or Parquet.

CSV spreads a matrix over columns ``x_0, x_1, …``; Parquet keeps it as one column of lists. Types and classes go by name where
they have names that cannot be taken for numbers; a node without a label has an empty cell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from starling.core.manifest import Table
from starling.core.npy import NpyReader
from starling.core.progress import Progress
from starling.store.graph import EDGES, Graph

Columns = dict[str, Any]
"""Name → a NumPy array (a matrix too) or a pyarrow array, all of the same length."""

_EDGE_ORDER = ("weight", "type", "time", "split", "attr")
_NODE_ORDER = ("type", "time", "y", "train", "val", "test", "x")
_BLOCK_BYTES = 1 << 23


@dataclass(frozen=True)
class ExportTable:
    """What to write to one file, the suffix apart."""

    name: str
    rows: int
    blocks: Callable[[], Iterator[Columns]]


def edge_table(graph: Graph) -> ExportTable:
    """All edges between the user's ids, in imported order, with their columns. Memory: one id a node and a block."""
    edges = NpyReader(graph.path / EDGES)
    tables = [(name, graph.manifest.edge_tables[name]) for name in _EDGE_ORDER if name in graph.manifest.edge_tables]
    readers = [_Reader(graph, name, table, graph.manifest.edge_types) for name, table in tables]

    def blocks() -> Iterator[Columns]:
        ids = None if graph.manifest.ids == "position" else graph.ids.user_ids(0, graph.nodes)
        for start, stop in _ranges(edges.rows, [edges.dtype.itemsize * 2 + 16, *(reader.row_bytes for reader in readers)]):
            pairs = edges.read(start, stop)
            ends = [pairs[:, side].astype(np.int64) for side in (0, 1)]
            source, destination = ends if ids is None else [ids.take(end) for end in ends]
            columns = {reader.name: reader.read(start, stop) for reader in readers}
            yield {"source": source, "destination": destination, **columns}

    return ExportTable("edges", edges.rows, blocks)


def node_table(graph: Graph, name: str, wanted: tuple[str, ...] = _NODE_ORDER) -> ExportTable:
    """The user's ids in the order of positions, and those of the `wanted` tables that there are, dense, for all nodes."""
    entries = graph.manifest.node_tables
    tables = [(name, entries[name]) for name in wanted if name in entries and entries[name].layout == "dense"]
    readers = [_Reader(graph, name, table, graph.manifest.node_types) for name, table in tables]

    def blocks() -> Iterator[Columns]:
        for start, stop in _ranges(graph.nodes, [32, *(reader.row_bytes for reader in readers)]):
            columns = {reader.name: reader.read(start, stop) for reader in readers}
            yield {"id": graph.ids.user_ids(start, stop), **columns}

    return ExportTable(name, graph.nodes, blocks)


class _Reader:
    """Reads rows of one table as a column."""

    def __init__(self, graph: Graph, name: str, table: Table, type_names: tuple[str, ...]) -> None:
        self.name = name
        self._file = NpyReader(graph.path / table.files[0])
        class_names = graph.manifest.labels.names if graph.manifest.labels else ()
        self._type_names = type_names if name == "type" and _are_words(type_names) else ()
        self._class_names = class_names if name == "y" and _are_words(class_names) else ()
        self.row_bytes = self._file.dtype.itemsize * int(np.prod(self._file.shape[1:], dtype=np.int64))

    def read(self, start: int, stop: int) -> Any:
        values = self._file.read(start, stop)
        if self._type_names:
            return pa.array(self._type_names).take(values.astype(np.int64))
        if self.name != "y" or values.ndim > 1:
            return values
        missing = np.isnan(values) if values.dtype.kind == "f" else values < 0
        if self._class_names:
            return pa.array(self._class_names).take(pa.array(values, pa.int64(), mask=missing))
        return pa.array(values, mask=missing)


def _are_words(names: tuple[str, ...]) -> bool:
    """Whether a reader of text will not take any of the names for a number."""
    for name in names:
        try:
            float(name)
        except ValueError:
            continue
        return False
    return True


def _ranges(rows: int, row_bytes: list[int]) -> Iterator[tuple[int, int]]:
    size = max(1, _BLOCK_BYTES // max(1, sum(row_bytes)))
    for start in range(0, max(rows, 1), size):  # a block of no rows names the columns
        yield start, min(start + size, rows)


def write_csv(table: ExportTable, directory: Path, progress: Progress) -> Path:
    """Write a table as ``name.csv`` with a header; numbers in the fewest digits that read back the same."""
    import pyarrow.csv as pacsv

    path = directory / f"{table.name}.csv"
    _write(table, _spread, lambda schema: pacsv.CSVWriter(path, schema), progress)
    return path


def write_parquet(table: ExportTable, directory: Path, progress: Progress) -> Path:
    """Write a table as ``name.parquet``, a row group a block."""
    import pyarrow.parquet as pq

    path = directory / f"{table.name}.parquet"
    _write(table, _listed, lambda schema: pq.ParquetWriter(path, schema), progress)
    return path


def _write(table: ExportTable, arrange: Callable[[Columns], Columns], open_file: Any, progress: Progress) -> None:
    writer = None
    try:
        with progress.task(f"writing {table.name}", table.rows, "rows") as task:
            for columns in table.blocks():
                batch = pa.RecordBatch.from_pydict({name: pa.array(value) for name, value in arrange(columns).items()})
                writer = writer or open_file(batch.schema)
                writer.write_batch(batch)
                task.advance(len(batch))
    finally:
        if writer is not None:
            writer.close()


def _spread(columns: Columns) -> Columns:
    """Matrices as a column for each of theirs; labels that are real numbers so that they cannot be taken for class numbers."""
    spread: Columns = {}
    for name, values in columns.items():
        if _is_matrix(values):
            spread |= {f"{name}_{place}": np.ascontiguousarray(values[:, place]) for place in range(values.shape[1])}
        else:
            spread[name] = values
    return {name: _with_point(values) if name == "y" or name.startswith("y_") else values for name, values in spread.items()}


def _with_point(values: NDArray[Any] | pa.Array) -> NDArray[Any] | pa.Array:
    """Real numbers as text in which whole ones have a decimal point too; anything else as it is."""
    numbers = pa.array(values)
    if not pa.types.is_floating(numbers.type):
        return values
    texts = numbers.cast(pa.string())
    whole = pc.match_substring_regex(texts, "^-?[0-9]+$")
    return pc.if_else(whole, pc.binary_join_element_wise(texts, "0", "."), texts)


def _listed(columns: Columns) -> Columns:
    """Matrices as a column of lists."""
    return {
        name: pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), values.shape[1]) if _is_matrix(values) else values
        for name, values in columns.items()
    }


def _is_matrix(values: NDArray[Any] | pa.Array) -> bool:
    return isinstance(values, np.ndarray) and values.ndim == 2
