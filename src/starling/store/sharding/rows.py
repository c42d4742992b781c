"""Rows on their way to another order: columns, and a source that gives them as often as asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Column:
    """The type and shape of one value of a row."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...] = ()

    @property
    def bytes(self) -> int:
        """Size of one row."""
        return int(self.dtype.itemsize * np.prod(self.shape, dtype=np.int64))

    @property
    def unit(self) -> np.dtype[Any]:
        """The widest unsigned type a row consists of: rows are moved as plain bits, whatever they mean."""
        size = next(size for size in (8, 4, 2, 1) if self.bytes % size == 0)
        return np.dtype(f"u{size}")

    def as_bits(self, values: NDArray[Any]) -> NDArray[Any]:
        """Rows of this column as [n, units]."""
        plain = np.ascontiguousarray(values, self.dtype).reshape(len(values), -1)
        return plain.view(self.unit) if len(plain) else np.zeros((0, self.bytes // self.unit.itemsize), self.unit)

    def from_bits(self, bits: NDArray[Any]) -> NDArray[Any]:
        """Undo `as_bits`."""
        return bits.view(self.dtype).reshape(-1, *self.shape)


@dataclass(frozen=True)
class KeyedRows:
    """Consecutive rows of a source: a key each, and their values in every column."""

    keys: NDArray[Any]
    columns: dict[str, NDArray[Any]]


@dataclass(frozen=True)
class RowSource:
    """`count` rows with keys in [0, limit), readable from the first to the last as often as wanted.

    `ends` [limit + 1], where it is known, counts the rows with a smaller key; `sample` is some of the keys where it is not.
    """

    columns: dict[str, Column]
    blocks: Callable[[], Iterator[KeyedRows]]
    count: int
    limit: int
    ends: NDArray[np.int64] | None = None
    sample: NDArray[Any] | None = None
