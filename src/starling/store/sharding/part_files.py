"""One long sequence of rows, laid out over the parts' ``.npy`` files at known bounds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from starling.core.npy import NpyWriter


class PartFiles:
    """Appends rows that belong to part 0, then 1, and so on; part q gets rows bounds[q] … bounds[q + 1] − 1."""

    def __init__(
        self, paths: Sequence[Path], bounds: NDArray[np.int64], dtype: DTypeLike, row_shape: tuple[int, ...] = ()
    ) -> None:
        self._paths, self._bounds, self._dtype, self._row_shape = paths, bounds, dtype, row_shape
        self._written = int(bounds[0])
        self._part = -1
        self._writer: NpyWriter | None = None

    def append(self, block: NDArray[Any]) -> None:
        """Write the next rows, each to the part it falls into."""
        taken = 0
        while taken < len(block):
            writer = self._writer_at(self._written)
            room = int(self._bounds[self._part + 1]) - self._written
            writer.append(block[taken : taken + room])
            step = min(room, len(block) - taken)
            taken += step
            self._written += step

    def close(self) -> None:
        """Finish the last file; parts without rows get empty files."""
        if self._written != self._bounds[-1]:
            raise ValueError(f"{self._written} rows were written where {self._bounds[-1]} belong")
        while self._part < len(self._paths) - 1:
            self._next_part()
        if self._writer is not None:
            self._writer.close()

    def _writer_at(self, row: int) -> NpyWriter:
        while self._writer is None or row >= self._bounds[self._part + 1]:
            self._next_part()
        return self._writer

    def _next_part(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._part += 1
        self._writer = NpyWriter(self._paths[self._part], self._dtype, self._row_shape)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            self.close()
        elif self._writer is not None:
            self._writer.__exit__(kind, error, trace)
