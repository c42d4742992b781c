"""Input features by row, wherever they are: in memory, in a file, stored sparsely, or spread over shards."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from starling.core.errors import InputError
from starling.kernels.rows import gather_mapped_rows, gather_rows
from starling.nn.inputs import LearntRows
from starling.store.graph import CsrTable

Normalize = Literal["none", "rows", "standard"]
"""`rows`: each row is divided by its sum. `standard`: each column has mean 0 and deviation 1 over the training rows."""

_BLOCK_BYTES = 1 << 24


class Features(ABC):
    """A feature row for every node."""

    count: int
    width: int
    type_widths: tuple[int, ...] = ()
    """Columns that each node type has, where these differ: then the last column is the type's code (`engine/typed_features.py`)."""
    learnt: bool = False
    """Whether rows move as training goes on (`engine/embeddings/`)."""

    def step_rows(self, index: NDArray[Any] | None, *, repeats: bool = False) -> tuple[NDArray[np.float32], LearntRows | None]:
        """What a step reads of these nodes (None: of all): features as they are, and rows that are learnt, if there are such."""
        return (self.all() if index is None else self.rows(index)), None

    def rows(self, index: NDArray[Any]) -> NDArray[np.float32]:
        """The rows of these nodes, float32 [len(index), width], in fresh memory."""
        if len(index) == 0:
            return np.empty((0, self.width), np.float32)
        return self._rows(np.ascontiguousarray(index))

    def all(self) -> NDArray[np.float32]:
        """Every row."""
        return self.rows(np.arange(self.count))

    @abstractmethod
    def _rows(self, index: NDArray[Any]) -> NDArray[np.float32]:
        """The rows of at least one node."""


class DenseFeatures(Features):
    """Rows of a matrix, in memory or mapped from a file.

    Pages of a file that a gather has touched are given back at once, so that they do not add up to the whole file.
    """

    def __init__(self, matrix: NDArray[Any]) -> None:
        self._file = getattr(matrix, "_mmap", None)
        self._matrix = np.asarray(matrix if matrix.ndim == 2 else matrix[:, None])
        self.count, self.width = self._matrix.shape
        # kernels know no float16, but to move its bits they need not
        self._bits = self._matrix.view(np.uint16) if matrix.dtype == np.float16 else self._matrix

    def all(self) -> NDArray[np.float32]:
        """Every row; the matrix itself where it is in memory."""
        return self._matrix if self._file is None and self._matrix.dtype == np.float32 else super().all()

    def _rows(self, index: NDArray[Any]) -> NDArray[np.float32]:
        out = np.empty((len(index), self.width), self._bits.dtype)
        if self._file is None:
            gather_rows(self._bits, index, out)
        else:
            gather_mapped_rows(self._bits, self._file, index, out)
        return out.view(self._matrix.dtype).astype(np.float32, copy=False)


class NoFeatures(Features):
    """Nodes without features: rows of no numbers."""

    def __init__(self, count: int) -> None:
        self.count, self.width = count, 0

    def _rows(self, index: NDArray[Any]) -> NDArray[np.float32]:
        return np.empty((len(index), 0), np.float32)


class SparseFeatures(Features):
    """Rows stored by their non-zeros; their zeros are filled in when they are read."""

    def __init__(self, table: CsrTable) -> None:
        self.count, self.width = table.shape
        self._table = table

    def _rows(self, index: NDArray[Any]) -> NDArray[np.float32]:
        return self._table.dense(index)


class SpreadFeatures(Features):
    """Rows of shards: node i is row `place[i]` of the shards' tables laid end to end; row i without `place`."""

    def __init__(self, shards: Sequence[Features], place: NDArray[Any] | None = None) -> None:
        self._shards, self._place = shards, place
        self._ends = np.cumsum([shard.count for shard in shards])
        self.count, self.width = int(self._ends[-1]) if place is None else len(place), shards[0].width

    def _rows(self, index: NDArray[Any]) -> NDArray[np.float32]:
        place = index if self._place is None else np.asarray(self._place[index])
        owner = np.searchsorted(self._ends, place, side="right")
        out = np.empty((len(index), self.width), np.float32)
        for part in np.unique(owner):
            mine = np.flatnonzero(owner == part)
            shard = self._shards[part]
            out[mine] = shard.rows(place[mine] - (self._ends[part] - shard.count))
        return out


class RowNormalized(Features):
    """Each row divided by its sum; rows of sum 0 stay."""

    def __init__(self, raw: Features) -> None:
        self.count, self.width, self._raw = raw.count, raw.width, raw

    def _rows(self, index: NDArray[Any]) -> NDArray[np.float32]:
        return self.scale(self._raw.rows(index))

    def scale(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        """Scale raw rows in place."""
        total = rows.sum(axis=1, keepdims=True)
        rows /= np.where(total == 0, 1, total)
        return rows


class ColumnScaled(Features):
    """(x − shift) · factor, column by column."""

    def __init__(self, raw: Features, shift: NDArray[np.float32], factor: NDArray[np.float32]) -> None:
        self.count, self.width = raw.count, raw.width
        self._raw, self.shift, self.factor = raw, shift, factor

    def _rows(self, index: NDArray[Any]) -> NDArray[np.float32]:
        return self.scale(self._raw.rows(index))

    def scale(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        """Scale raw rows in place."""
        rows -= self.shift
        rows *= self.factor
        return rows


def scaling_of(features: Features) -> Callable[[NDArray[np.float32]], NDArray[np.float32]] | None:
    """How these features were scaled, to scale raw rows from elsewhere alike; None where they were not."""
    return features.scale if isinstance(features, RowNormalized | ColumnScaled) else None


def open_features(table: NDArray[Any] | CsrTable) -> Features:
    """A node table as features."""
    return SparseFeatures(table) if isinstance(table, CsrTable) else DenseFeatures(table)


def in_memory(features: Features) -> Features:
    """The same features, read once and kept."""
    matrix = np.empty((features.count, features.width), np.float32)
    for start, stop in _blocks(features.count, features.width):
        matrix[start:stop] = features.rows(np.arange(start, stop))
    return DenseFeatures(matrix)


Total = Callable[[NDArray[np.float64]], NDArray[np.float64]]
"""Sums over all workers; in one process what is given."""


def normalized(features: Features, how: Normalize, training: NDArray[Any], total: Total = lambda values: values) -> Features:
    """Features with every row or column scaled; columns by what the training rows hold, read in two passes of blocks."""
    if how == "none":
        return features
    if features.width == 0:
        raise InputError(f"--normalize {how} scales features, and the nodes have none. Leave it out.")
    if how == "rows":
        return RowNormalized(features)
    first = np.zeros(features.width + 1)
    first[-1] = len(training)
    for start, stop in _blocks(len(training), features.width):
        first[:-1] += features.rows(training[start:stop]).sum(axis=0, dtype=np.float64)
    first = total(first)
    count = max(first[-1], 1)
    mean = first[:-1] / count
    square = np.zeros(features.width)
    for start, stop in _blocks(len(training), features.width):
        square += np.square(features.rows(training[start:stop]) - mean).sum(axis=0)
    deviation = np.sqrt(total(square) / count)
    factor = 1 / np.where(deviation > 0, deviation, 1)
    return ColumnScaled(features, mean.astype(np.float32), factor.astype(np.float32))


def _blocks(rows: int, width: int) -> list[tuple[int, int]]:
    size = max(1, _BLOCK_BYTES // max(1, 4 * width))
    return [(start, min(start + size, rows)) for start in range(0, rows, size)]
