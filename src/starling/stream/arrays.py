"""Arrays as input: an edge reader and a table reader over what is already in memory (or memory-mapped).

Bridges from other libraries, generators and tests hand their arrays over through these two.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from starling.stream.edges import BLOCK_EDGES
from starling.stream.raw import CsrRows, EdgeReader, Ids, RawEdges, RawRows, TableReader

Pairs = NDArray[Any] | tuple[Any, Any]


class ArrayEdges(EdgeReader):
    """Edges held as an array [E, 2] of ids, or as two sequences (sources, destinations); ids are integers or strings.

    `columns` maps a role (EDGE_ROLES) to an array with a row an edge. Blocks are views; nothing is copied but ids that are
    not int64 yet, a block at a time.
    """

    def __init__(
        self, pairs: Pairs, columns: Mapping[str, Any] | None = None, *, block: int = BLOCK_EDGES, name: str | None = None
    ) -> None:
        source, destination = pairs if isinstance(pairs, tuple) else (pairs[:, 0], pairs[:, 1])
        self._source, self._destination = _as_ids(source), _as_ids(destination)
        self._columns = {role: _as_column(column) for role, column in (columns or {}).items()}
        self._block, self._name = block, name
        self.expected = len(self._source)
        self.id_kind = "string" if isinstance(self._source, pa.Array) else "integer"
        self.roles = tuple(self._columns)
        _check_lengths({"destinations": self._destination, **self._columns}, self.expected, "edges")

    def blocks(self) -> Iterator[RawEdges]:
        """The edges, a block at a time."""
        for start in range(0, len(self._source), self._block):
            stop = start + self._block
            yield RawEdges(
                _slice_ids(self._source, start, stop),
                _slice_ids(self._destination, start, stop),
                {role: slice_rows(column, start, stop) for role, column in self._columns.items()},
            )

    def place(self, edge: int) -> str:
        """Where an edge stands: its number, and in what."""
        return f"edge {edge} of {self._name}" if self._name else f"edge {edge}"


class ArrayTable(TableReader):
    """A node table held as arrays: `columns` maps a role (NODE_ROLES) or any other name to values with a row a node.

    A column is an array, a pyarrow array, a list of strings, or `CsrRows`. Without `ids`, row i is node i.
    """

    def __init__(
        self,
        name: str,
        columns: Mapping[str, Any],
        *,
        ids: Any = None,
        of_type: str | None = None,
        defines_nodes: bool = False,
        block: int = BLOCK_EDGES,
    ) -> None:
        self.name, self.of_type, self.defines_nodes = name, of_type, defines_nodes
        self._columns, self._block = {role: _as_column(column) for role, column in columns.items()}, block
        self._ids = None if ids is None else _as_ids(ids)
        self.id_kind = None if self._ids is None else "string" if isinstance(self._ids, pa.Array) else "integer"
        self.roles = tuple(self._columns)
        counted = self._columns if self._ids is None else {"ids": self._ids, **self._columns}
        self.expected = max((len(column) for column in counted.values()), default=0)
        _check_lengths(counted, self.expected, "rows")

    def blocks(self) -> Iterator[RawRows]:
        """The rows, a block at a time; of a table without rows, one block that tells what its columns would be."""
        for start in range(0, max(self.expected or 0, 1), self._block):
            stop = start + self._block
            ids = None if self._ids is None else _slice_ids(self._ids, start, stop)
            yield RawRows(ids, {role: slice_rows(column, start, stop) for role, column in self._columns.items()})


def slice_rows(column: Any, start: int, stop: int) -> Any:
    """Rows start … stop − 1 of a column of any kind."""
    if not isinstance(column, CsrRows):
        return column[start:stop]
    offsets = column.offsets[start : stop + 1]
    first, last = int(offsets[0]), int(offsets[-1])
    return CsrRows(offsets - first, column.columns[first:last], column.values[first:last], column.width)


def _as_ids(ids: Any) -> Ids:
    """Ids as the importer wants them: an integer array as it is, anything textual as a pyarrow string array."""
    if isinstance(ids, pa.ChunkedArray):
        ids = ids.combine_chunks()
    if isinstance(ids, pa.Array):
        return ids.to_numpy(zero_copy_only=False) if pa.types.is_integer(ids.type) else ids
    array = np.asarray(ids)
    if array.size == 0 and array.dtype.kind == "f":  # an empty list says nothing about its type
        return array.astype(np.int64)
    if array.dtype.kind in "iu":
        return array
    if array.dtype.kind not in "UOT":
        raise TypeError(f"ids must be integers or strings, got {array.dtype}")
    return pa.array(array.tolist() if array.dtype.kind != "O" else array, pa.string())


def _as_column(column: Any) -> Any:
    """A column as the importer wants it: names as a pyarrow string array, anything else as it is."""
    if isinstance(column, CsrRows | pa.Array):
        return column
    if isinstance(column, pa.ChunkedArray):
        return column.combine_chunks()
    array = np.asarray(column)
    return pa.array(array.tolist(), pa.string()) if array.dtype.kind in "UOT" else array


def _slice_ids(ids: Ids, start: int, stop: int) -> Ids:
    part: Sequence[Any] | Any = ids[start:stop]
    return part if isinstance(part, pa.Array) else np.asarray(part, np.int64)


def _check_lengths(columns: Mapping[str, Any], rows: int, noun: str) -> None:
    for name, column in columns.items():
        if len(column) != rows:
            raise ValueError(f"'{name}' has {len(column)} {noun}, expected {rows}")
