"""What a reader gives, put together: for comparing with what was written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from starling.stream.raw import CsrRows, EdgeReader, RawGraph, TableReader
from starling.stream.readers import open_inputs

MEMORY = 1 << 30


def open_graph(*files: object, **options: Any) -> RawGraph:
    """Open files as a graph with the memory of a test."""
    return open_inputs([str(file) for file in files], **({"memory": MEMORY} | options))


@dataclass(frozen=True)
class Edges:
    """All edges of a reader."""

    source: list[Any]
    destination: list[Any]
    columns: dict[str, Any]
    blocks: int

    @property
    def pairs(self) -> list[tuple[Any, Any]]:
        """The edges as pairs."""
        return list(zip(self.source, self.destination, strict=True))


def edges_of(reader: EdgeReader) -> Edges:
    """Read all edges."""
    blocks = list(reader.blocks())
    for block in blocks:
        assert set(block.columns) == set(reader.roles)
        assert all(len(column) == len(block.source) for column in block.columns.values())
        for ids in (block.source, block.destination):
            assert isinstance(ids, pa.Array) == (reader.id_kind == "string")
            assert isinstance(ids, pa.Array) or ids.dtype == np.int64
    return Edges(
        [user for block in blocks for user in block.source.tolist()],
        [user for block in blocks for user in block.destination.tolist()],
        {role: joined([block.columns[role] for block in blocks]) for role in reader.roles},
        len(blocks),
    )


@dataclass(frozen=True)
class Rows:
    """All rows of a table."""

    ids: list[Any] | None
    columns: dict[str, Any]


def rows_of(reader: TableReader) -> Rows:
    """Read all rows."""
    blocks = list(reader.blocks())
    for block in blocks:
        assert tuple(block.columns) == reader.roles
        assert (block.ids is None) == (reader.id_kind is None)
    ids = None if reader.id_kind is None else [user for block in blocks for user in block.ids.tolist()]
    return Rows(ids, {role: joined([block.columns[role] for block in blocks]) for role in reader.roles})


def joined(parts: list[Any]) -> Any:
    """Blocks of one column as one: an array, sparse rows, or a list of names."""
    if not parts:
        return []
    if isinstance(parts[0], CsrRows):
        return joined_sparse(parts)
    return [name for part in parts for name in part.to_pylist()] if isinstance(parts[0], pa.Array) else np.concatenate(parts)


def joined_sparse(parts: list[CsrRows]) -> CsrRows:
    """Blocks of sparse rows as one."""
    assert all(part.offsets[0] == 0 for part in parts)
    lengths = np.concatenate([np.diff(part.offsets) for part in parts])
    return CsrRows(
        np.concatenate([[0], np.cumsum(lengths)]),
        np.concatenate([part.columns for part in parts]),
        np.concatenate([part.values for part in parts]),
        parts[0].width,
    )


def dense(rows: CsrRows) -> np.ndarray:
    """Sparse rows as a matrix."""
    matrix = np.zeros((len(rows), rows.width), np.float32)
    matrix[np.repeat(np.arange(len(rows)), np.diff(rows.offsets)), rows.columns] = rows.values
    return matrix
