"""Sparse features: CSR rows set down as they are read, settled as three ``.npy`` files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.errors import InputError
from starling.core.manifest import Table
from starling.core.npy import NpyReader, NpyWriter
from starling.stream.raw import CsrRows
from starling.stream.tables.columns import Column, Place, RowName, RowOrder
from starling.stream.tables.row_order import rearrange_ragged

_BLOCK = 1 << 18


class SparseColumn(Column):
    """Rows of a sparse float32 matrix: lengths, column numbers (int32) and values, each in a file of its own."""

    def __init__(self, path: Path, noun: str) -> None:
        self._noun, self._width = noun, -1
        self._paths = tuple(path.with_suffix(f".{part}.npy") for part in ("lengths", "indices", "data"))
        self._writers = [
            NpyWriter(file, dtype) for file, dtype in zip(self._paths, (np.int32, np.int32, np.float32), strict=True)
        ]

    def append(self, values: Any, name: RowName) -> None:
        """Check and add the next rows."""
        if not isinstance(values, CsrRows):
            raise InputError(f"Expected every block of {self._noun} sparse like the first, got dense rows at {name(0)}.")
        if self._width not in (-1, values.width):
            raise InputError(f"Expected {self._noun} of {self._width} columns, got {values.width} at {name(0)}.")
        self._width = values.width
        with np.errstate(over="ignore"):
            numbers = np.ascontiguousarray(values.values, np.float32)
        inside = (values.columns >= 0) & (values.columns < values.width)
        self._check(inside, values, name, f"column numbers in [0, {values.width})")
        self._check(np.isfinite(numbers), values, name, f"finite {self._noun}")
        self._check(_is_first(values), values, name, "each column once in a row (SciPy's sum_duplicates makes it so)")
        for writer, block in zip(self._writers, (np.diff(values.offsets), values.columns, numbers), strict=True):
            writer.append(block)
        self.rows += len(values)

    def _check(self, good: NDArray[np.bool_], values: CsrRows, name: RowName, expected: str) -> None:
        """Refuse the first entry that is not good."""
        if not good.all():
            entry = int(np.argmin(good))
            row = int(np.searchsorted(values.offsets, entry, side="right")) - 1
            came = f"{values.values[entry]} in column {values.columns[entry]}"
            raise InputError(f"Expected {expected}, got {came} at {name(row)}. Put such values right first.")

    def close(self) -> None:
        """Close the files."""
        for writer in self._writers:
            writer.close()

    def settle(self, place: Place, order: RowOrder | None) -> Table | None:
        """Write row offsets; move column numbers and values to their places, rearranged unless `order` is None."""
        if self._width == -1:
            return None
        indptr, indices, data = (place.directory / f"{place.stem}.{part}.npy" for part in ("indptr", "indices", "data"))
        lengths = self._paths[0]
        if order is None:
            self._paths[1].rename(indices)
            self._paths[2].rename(data)
        else:
            lengths = rearrange_ragged(lengths, self._paths[1:], order.positions, (indices, data), order.room, order.scratch)
        with NpyWriter(indptr, np.int64) as writer:
            total = np.zeros(1, np.int64)
            writer.append(total)
            for block in NpyReader(lengths).blocks(_BLOCK):
                offsets = total + np.cumsum(block, dtype=np.int64)
                writer.append(offsets)
                total = offsets[-1:]
        lengths.unlink()
        return Table(
            layout="csr",
            dtype="float32",
            shape=(self.rows, self._width),
            files=(indptr.name, indices.name, data.name),
            of_type=place.of_type,
        )


def _is_first(values: CsrRows) -> NDArray[np.bool_]:
    """Whether each entry is the first of its row and column."""
    place = np.repeat(np.arange(len(values)), np.diff(values.offsets)) * np.int64(values.width) + values.columns
    first = np.ones(len(place), np.bool_)
    if (np.diff(place) <= 0).any():  # columns are not ascending in every row
        order = np.argsort(place, kind="stable")
        first[order[1:]] = np.diff(place[order]) > 0
    return first
