"""What a column of a stored node table is: dense rows or sparse ones, converted to the type its role asks for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from starling.core.errors import InputError
from starling.stream.raw import CsrRows
from starling.stream.readers.files import sound
from starling.stream.readers.stored import StoredArray

Convert = Callable[[NDArray[Any], int], Any]
"""Turn a block of stored rows, the first of them row number `start`, into what the importer takes."""

_OFFSETS = 1 << 16


class OpenRows(Protocol):
    """Rows being read, in order."""

    def within(self, start: int, budget: int) -> int:
        """How many rows from `start` on fit into `budget` bytes; at least one."""

    def read(self, start: int, stop: int) -> Any:
        """Rows start … stop − 1."""


class Rows(ABC):
    """The values of one role, a row a node."""

    name: str
    rows: int

    @abstractmethod
    def open(self) -> AbstractContextManager[OpenRows]:
        """A context in which the rows are read."""


class DenseRows(Rows):
    """Rows of a stored array."""

    def __init__(self, array: StoredArray, convert: Convert) -> None:
        self.array, self.convert, self.name, self.rows = array, convert, array.name, array.rows

    @contextmanager
    def open(self) -> Iterator[OpenRows]:
        """Opens the array."""
        with self.array.open() as read:
            yield _OpenDense(self, read)


class _OpenDense:
    def __init__(self, rows: DenseRows, read: Callable[[int, int], NDArray[Any]]) -> None:
        self._rows, self._read = rows, read

    def within(self, start: int, budget: int) -> int:
        return max(1, budget // max(1, self._rows.array.row_bytes))

    def read(self, start: int, stop: int) -> Any:
        values = self._read(start, stop)
        with sound(self._rows.name):
            return self._rows.convert(values, start)


class SparseRows(Rows):
    """Rows of a matrix stored as compressed sparse rows in three arrays."""

    def __init__(self, offsets: StoredArray, columns: StoredArray, values: StoredArray, width: int, rows: int) -> None:
        self.offsets, self.columns, self.values, self.width, self.rows = offsets, columns, values, width, rows
        self.name = values.name
        for array in (offsets, columns):
            if array.dtype.kind not in "iu":
                raise InputError(f"Expected whole numbers in {array.name}, got {array.dtype}.")
        if values.dtype.kind not in "biuf":
            raise InputError(f"Expected numbers in {values.name}, got {values.dtype}.")
        if any(len(array.shape) != 1 for array in (offsets, columns, values)) or columns.rows != values.rows:
            raise InputError(
                f"Expected as many column numbers as values, got shapes {columns.shape} of {columns.name} and "
                f"{values.shape} of {values.name}."
            )
        if offsets.rows != rows + 1:
            raise InputError(f"Expected {rows + 1:,} row offsets for {rows:,} rows, got {offsets.rows:,} in {offsets.name}.")

    @contextmanager
    def open(self) -> Iterator[OpenRows]:
        """Opens the three arrays side by side."""
        with self.offsets.open() as offsets, self.columns.open() as columns, self.values.open() as values:
            yield _OpenSparse(self, offsets, columns, values)


class _OpenSparse:
    """Keeps the row offsets read ahead: ``_ahead[k]`` is where row ``_row + k`` begins among the values."""

    def __init__(self, matrix: SparseRows, *reads: Callable[[int, int], NDArray[Any]]) -> None:
        self._matrix = matrix
        self._offsets, self._columns, self._values = reads
        self._row, self._ahead = 0, self._next_offsets(0)
        if len(self._ahead) and self._ahead[0] != 0:
            raise InputError(f"Expected row offsets to begin with 0, got {self._ahead[0]} in {matrix.offsets.name}.")

    def within(self, start: int, budget: int) -> int:
        if len(self._ahead) < 2:
            self._ahead = np.concatenate([self._ahead, self._next_offsets(self._row + len(self._ahead))])
        bytes_each = self._matrix.values.dtype.itemsize + self._matrix.columns.dtype.itemsize
        limit = self._ahead[0] + budget // bytes_each
        return max(1, int(np.searchsorted(self._ahead[1:], limit, side="right")))

    def read(self, start: int, stop: int) -> CsrRows:
        count = stop - start
        offsets, self._ahead, self._row = self._ahead[: count + 1], self._ahead[count:], stop
        first, last = int(offsets[0]), int(offsets[-1])
        if stop == self._matrix.rows and last != self._matrix.values.rows:
            raise InputError(
                f"Expected the last row offset to be {self._matrix.values.rows:,}, the number of values, "
                f"got {last:,} in {self._matrix.offsets.name}."
            )
        columns = self._columns(first, last).astype(np.int64, copy=False)
        if len(columns) and not 0 <= columns.min() <= columns.max() < self._matrix.width:
            raise InputError(
                f"Expected column numbers in [0, {self._matrix.width}), "
                f"got {columns.min()} … {columns.max()} in {self._matrix.columns.name}."
            )
        values = to_float32(self._values(first, last))
        return CsrRows(offsets - first, columns.astype(np.int32, copy=False), values, self._matrix.width)

    def _next_offsets(self, at: int) -> NDArray[np.int64]:
        matrix = self._matrix
        offsets = self._offsets(at, min(at + _OFFSETS, matrix.rows + 1)).astype(np.int64)
        before = np.concatenate([self._ahead[-1:], offsets]) if at else offsets
        if len(offsets) and (np.diff(before).min(initial=0) < 0 or before[-1] > matrix.values.rows):
            raise InputError(f"Expected row offsets that never fall and end at the last value in {matrix.offsets.name}.")
        return offsets


def as_float32(values: NDArray[Any], start: int) -> NDArray[np.float32]:
    """Features: float32 [rows, F]."""
    return to_float32(values.reshape(len(values), -1))


def to_float32(values: NDArray[Any]) -> NDArray[np.float32]:
    """The same numbers in float32; those beyond it become infinite, which the column they go to refuses."""
    with np.errstate(over="ignore"):
        return values.astype(np.float32, copy=False)


def as_they_are(values: NDArray[Any], start: int) -> Any:
    """Numbers as stored; text as a pyarrow array."""
    if values.dtype.kind in "US":
        return as_text(values)
    return values.reshape(len(values)) if values.shape[1:] == (1,) else values


def as_text(values: NDArray[Any]) -> pa.Array:
    """NumPy text, or whole numbers, as a pyarrow string array."""
    if values.dtype.kind in "iu":
        return pa.array(values).cast(pa.string())
    texts = np.char.decode(values, "utf-8") if values.dtype.kind == "S" else values
    return pa.array(texts.tolist(), pa.string())


def as_mask(name: str) -> Convert:
    """Booleans; whole numbers 0 and 1 count as such."""

    def convert(values: NDArray[Any], start: int) -> NDArray[np.bool_]:
        wrong = np.flatnonzero((values != 0) & (values != 1))
        if len(wrong):
            row = int(wrong[0]) // max(1, int(np.prod(values.shape[1:])))
            raise InputError(f"Expected true or false in {name}, got {values.reshape(-1)[wrong[0]]} at row {start + row}.")
        return values.astype(np.bool_, copy=False)

    return convert
