"""Columns of node and edge tables: checked, converted and set down row by row as they are read.

A column is appended to in blocks, finished, and then *settled*: moved to its final file, or files, in the order of the nodes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import DTypeLike, NDArray

from starling.core.errors import InputError
from starling.core.manifest import Table
from starling.core.npy import NpyReader, NpyWriter
from starling.stream.room import Room
from starling.stream.tables.row_order import rearrange_rows

RowName = Callable[[int], str]
"""What to call row i of the block at hand in a message: "node 1532 of labels.npy", "line 17 of edges.csv"."""


@dataclass(frozen=True)
class Place:
    """Where a settled column goes: files ``stem.….npy`` of `directory`, for nodes of one type only or for all."""

    directory: Path
    stem: str
    of_type: str | None = None


@dataclass(frozen=True)
class RowOrder:
    """Row i of a spooled table belongs to row ``positions[i]`` of the final one; a permutation."""

    positions: Path
    room: Room
    scratch: Path


class Column(ABC):
    """One column on its way to disk."""

    rows: int = 0

    @abstractmethod
    def append(self, values: Any, name: RowName) -> None:
        """Check and add the values of the next rows."""

    @abstractmethod
    def close(self) -> None:
        """Close the files, whatever has come; harmless when they are closed already."""

    def finish(self) -> None:
        """End reading; the column is complete in row order."""
        self.close()

    @abstractmethod
    def settle(self, place: Place, order: RowOrder | None) -> Table | None:
        """Move the column to its place, rearranged unless `order` is None; None when no row ever came."""


class DenseColumn(Column):
    """A column in one ``.npy`` file; the first block says how wide rows are."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._writer: NpyWriter | None = None

    @abstractmethod
    def convert(self, values: NDArray[Any], name: RowName) -> NDArray[Any]:
        """The values as they are stored, or an error that names the row."""

    def append(self, values: Any, name: RowName) -> None:
        """Check and add the values of the next rows."""
        block = self.convert(as_array(values), name)
        if self._writer is None:
            self._writer = NpyWriter(self.path, block.dtype, block.shape[1:])
        if block.shape[1:] != self._writer.row_shape or not np.can_cast(block.dtype, self._writer.dtype, "safe"):
            raise InputError(
                f"Expected every row like the first ones, {_row_text(self._writer.dtype, self._writer.row_shape)}, "
                f"got {_row_text(block.dtype, block.shape[1:])} at {name(0)}."
            )
        self._writer.append(block)
        self.rows += len(block)

    def close(self) -> None:
        """Close the file."""
        if self._writer is not None:
            self._writer.close()

    def settle(self, place: Place, order: RowOrder | None) -> Table | None:
        """Move the file to its place, rearranged unless `order` is None."""
        if self._writer is None:
            return None
        target = place.directory / f"{place.stem}.npy"
        if order is None:
            self.path.rename(target)
        else:
            rearrange_rows(self.path, order.positions, target, order.room, order.scratch)
        reader = NpyReader(target)
        return Table(layout="dense", dtype=reader.dtype.name, shape=reader.shape, files=(target.name,), of_type=place.of_type)


class FloatColumn(DenseColumn):
    """Finite float32 rows: features, edge attributes, or with `flat` one number a row, such as a weight."""

    def __init__(self, path: Path, noun: str, *, flat: bool = False) -> None:
        super().__init__(path)
        self._noun, self._flat = noun, flat

    def convert(self, values: NDArray[Any], name: RowName) -> NDArray[Any]:
        """As float32, one column or more, every number finite."""
        check_numbers(values, self._noun, name)
        values = _flattened(values, self._noun, name) if self._flat else self._as_matrix(values, name)
        with np.errstate(over="ignore", invalid="ignore"):
            block = np.ascontiguousarray(values, np.float32)
            finite = bool(np.isfinite(block.sum(dtype=np.float64)))  # one number is not finite: neither is the sum
        if not finite and not np.isfinite(block).all():
            index = tuple(np.argwhere(~np.isfinite(block))[0].tolist())
            where = f" in column {index[1]}" if len(index) == 2 else ""
            largest = "" if np.isnan(block[index]) else f"; float32 holds up to {np.finfo(np.float32).max:.2g}"
            raise InputError(
                f"Expected finite {self._noun}, got {values[index]}{where} at {name(index[0])}. "
                f"Fill in or remove such values first{largest}."
            )
        return block

    def _as_matrix(self, values: NDArray[Any], name: RowName) -> NDArray[Any]:
        if values.ndim > 2 or values.shape[1:] == (0,):
            raise InputError(
                f"Expected {self._noun} in rows of one number or more, got rows of shape {values.shape[1:]} at {name(0)}."
            )
        return values[:, None] if values.ndim == 1 else values


class TimeColumn(DenseColumn):
    """Timestamps: whole numbers as int64, others as float64."""

    def convert(self, values: NDArray[Any], name: RowName) -> NDArray[Any]:
        """One number a row, not a NaN."""
        check_numbers(values, "times", name)
        values = _flattened(values, "times", name)
        if values.dtype.kind == "f" and np.isnan(values).any():
            raise InputError(f"Expected a time in every row, got none at {name(int(np.argmax(np.isnan(values))))}.")
        return values.astype(np.float64 if values.dtype.kind == "f" else np.int64)


class FlagColumn(DenseColumn):
    """Yes or no a row: a train, val or test mask. `true` counts the yes."""

    true: int = 0

    def convert(self, values: NDArray[Any], name: RowName) -> NDArray[Any]:
        """As bool, from bool or from 0 and 1."""
        check_numbers(values, "a mask of true and false", name)
        values = _flattened(values, "a mask", name)
        block = small_numbers(values, np.bool_, 1, "a mask of 0 and 1", name)
        self.true += int(np.count_nonzero(block))
        return block


class SplitColumn(DenseColumn):
    """Which split an edge belongs to: 0 train, 1 validation, 2 test (uint8)."""

    def convert(self, values: NDArray[Any], name: RowName) -> NDArray[Any]:
        """As uint8."""
        check_numbers(values, "splits", name)
        wanted = "a split of 0 (train), 1 (validation) or 2 (test)"
        return small_numbers(_flattened(values, "splits", name), np.uint8, 2, wanted, name)


class OtherColumn(DenseColumn):
    """Numbers of any shape that Starling keeps but gives no meaning."""

    def __init__(self, path: Path, noun: str) -> None:
        super().__init__(path)
        self._noun = noun

    def convert(self, values: NDArray[Any], name: RowName) -> NDArray[Any]:
        """As they are."""
        check_numbers(values, f"numbers in the column '{self._noun}'", name)
        return values


def as_array(values: Any) -> NDArray[Any]:
    """A NumPy array of whatever a reader gives; a pyarrow null becomes a NaN."""
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return np.asarray(values.to_numpy() if isinstance(values, pa.ChunkedArray) else values.to_numpy(zero_copy_only=False))
    return np.asarray(values)


def check_numbers(values: NDArray[Any], noun: str, name: RowName) -> None:
    """Refuse text, dates and objects."""
    if values.dtype.kind not in "biuf":
        came = f"text such as '{values.reshape(-1)[0]}'" if values.dtype.kind in "UOST" and values.size else str(values.dtype)
        raise InputError(f"Expected {noun}, got {came} at {name(0)}.")


def small_numbers(values: NDArray[Any], dtype: DTypeLike, largest: int, noun: str, name: RowName) -> NDArray[Any]:
    """The values as a small type, after checking that each is a whole number of 0 … largest."""
    if values.dtype.kind == "b":
        return values.astype(dtype)
    wrong = ~((values >= 0) & (values <= largest) & (values == np.floor(values)))
    if wrong.any():
        index = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
        raise InputError(f"Expected {noun}, got {values[index]} at {name(int(index[0]))}.")
    return values.astype(dtype)


def _flattened(values: NDArray[Any], noun: str, name: RowName) -> NDArray[Any]:
    if values.size != len(values):
        raise InputError(f"Expected {noun} with one number a row, got rows of shape {values.shape[1:]} at {name(0)}.")
    return values.reshape(len(values))


def _row_text(dtype: np.dtype[Any], shape: tuple[int, ...]) -> str:
    return f"{int(np.prod(shape, dtype=np.int64))} of {dtype}"
