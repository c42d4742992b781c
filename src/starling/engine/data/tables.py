"""Tables of the key-value store as one worker sees them: rows that it reads where they lie, and rows that it keeps in memory.

A row is moved as its bytes, whatever its numbers are: one kernel serves every type, and messages need no conversion.
"""

from __future__ import annotations

import math
import mmap
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from starling.core.errors import InputError, nearest
from starling.core.manifest import Table
from starling.engine.row_ranges import give_back, row_ranges
from starling.kernels.rows import move_rows
from starling.store.graph import CsrTable
from starling.store.parts import Parts, Shard

Kind = Literal["node", "edge"]
"""Rows of node tables are called by global ids of nodes, rows of edge tables by entries of the parts' neighbour lists."""


class KeptTable(Protocol):
    """Rows of a worker's own nodes or edges that it keeps itself and may change: no other worker reads them in place."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of its numbers."""

    @property
    def row_shape(self) -> tuple[int, ...]:
        """Of a row."""

    def rows(self, index: NDArray[Any]) -> NDArray[Any]:
        """Own rows, in fresh memory."""

    def add(self, index: NDArray[Any], values: NDArray[Any]) -> None:
        """Take in what was pushed for own rows, each named once."""


class InPlaceTable(ABC):
    """Rows that never change and that every worker of the host reads where they lie, part by part."""

    dtype: np.dtype[Any]
    row_shape: tuple[int, ...]

    @abstractmethod
    def move(self, part: int, rows: NDArray[Any], out: NDArray[Any], places: NDArray[Any]) -> None:
        """Copy rows of a part's table to places of a matrix of rows' words (`words_of`)."""


class StoredTable(InPlaceTable):
    """A table of a parts directory; the rows of parts that are read here are mapped when they are first asked for.

    `resident` bounds the pages that mapped rows hold: larger ranges of a file are read in ascending order, one after the other, and
    given back. None leaves that to the system. Sparse tables come dense, as float32.
    """

    def __init__(self, parts: Parts, kind: Kind, name: str, *, resident: int | None = None) -> None:
        self.table = _entry(parts, kind, name)
        sparse = self.table.layout == "csr"
        self.dtype = np.dtype(np.float32 if sparse else self.table.dtype)
        self.row_shape = tuple(self.table.shape[1:])
        self._parts, self._kind, self._name, self._resident = parts, kind, name, resident
        self._opened: dict[int, _PartRows] = {}

    def move(self, part: int, rows: NDArray[Any], out: NDArray[Any], places: NDArray[Any]) -> None:
        """Copy rows out of a part's file."""
        if len(rows) == 0:
            return
        if part not in self._opened:
            self._opened[part] = _PartRows(self._parts.shard(part), self._kind, self._name, self.dtype)
        self._opened[part].move(rows, out, places, self._resident)


class _PartRows:
    """One part's rows of a table."""

    def __init__(self, shard: Shard, kind: Kind, name: str, dtype: np.dtype[Any]) -> None:
        table = shard.node_table(name) if kind == "node" else shard.edge_table(name)
        self._file: mmap.mmap | None = None
        self._sparse: CsrTable | None = table if isinstance(table, CsrTable) else None
        self._words: NDArray[Any] | None = None if isinstance(table, CsrTable) else words_of(np.asarray(table))
        if isinstance(table, np.memmap):
            self._file = getattr(table, "_mmap", None)
        self._dtype = dtype

    def move(self, rows: NDArray[Any], out: NDArray[Any], places: NDArray[Any], resident: int | None) -> None:
        if self._sparse is not None:
            out[places] = words_of(self._sparse.dense(rows).astype(self._dtype, copy=False))
            return
        assert self._words is not None
        if resident is None or self._file is None:
            move_rows(self._words, rows, out, places)
            return
        for some in row_ranges(rows, max(1, resident // max(1, self._words.itemsize * self._words.shape[1]))):
            move_rows(self._words, rows[some], out, places[some])
            give_back(self._file)


def blank_rows(count: int, row_shape: Sequence[int], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Memory for rows of a table."""
    return np.empty((count, *row_shape), dtype)


def words_of(rows: NDArray[Any]) -> NDArray[Any]:
    """Rows of any shape and type as a matrix of their bits: 32 at a time where they come out even, else 8."""
    size = math.prod(rows.shape[1:]) * rows.dtype.itemsize
    flat = np.ascontiguousarray(rows).reshape(len(rows), math.prod(rows.shape[1:]))
    if size == 0:
        return np.empty((len(rows), 0), np.uint8)
    return flat.view(np.uint32 if size % 4 == 0 else np.uint8)


def _entry(parts: Parts, kind: Kind, name: str) -> Table:
    tables = parts.manifest.node_tables if kind == "node" else parts.manifest.edge_tables
    if name not in tables:
        raise InputError(f"{parts.path} has no {kind} table '{name}'. {nearest(name, tables)}")
    return tables[name]
