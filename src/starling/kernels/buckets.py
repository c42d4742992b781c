"""Spread records over files by a bucket number, so that what does not fit in memory is handled a bucket at a time.

The order of arrival is kept inside each bucket. Memory: one block of records and its sorted copy.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from starling.core.compile import compiled
from starling.core.npy import write_values


class Buckets:
    """`count` files of records in `directory`; a record is a row of `width` numbers of one type."""

    def __init__(self, directory: Path, count: int, dtype: DTypeLike, width: int) -> None:
        self.count, self.dtype, self.width = count, np.dtype(dtype), width
        self.sizes = np.zeros(count, np.int64)
        directory.mkdir(parents=True, exist_ok=True)
        self._paths = [directory / f"bucket-{number:05d}" for number in range(count)]
        self._files = [path.open("wb") for path in self._paths]

    def append(self, bucket: NDArray[Any], records: NDArray[Any]) -> None:
        """Add each row of `records` to the end of its bucket."""
        records = np.ascontiguousarray(records, self.dtype).reshape(-1, self.width)
        bounds = np.zeros(self.count + 1, np.int64)
        arranged = np.empty_like(records)
        arrange_by_bucket(bucket, records, bounds, arranged)
        for number in range(self.count):
            if bounds[number + 1] > bounds[number]:
                write_values(self._files[number], arranged[bounds[number] : bounds[number + 1]])
        self.sizes += np.diff(bounds)

    def finish(self) -> Self:
        """Close the files for writing; needed before `read`."""
        with ExitStack() as closing:  # every one, even where one has no space for its last bytes
            for file in self._files:
                closing.callback(file.close)
        return self

    def read(self, number: int) -> NDArray[Any]:
        """All records of one bucket, in order of arrival."""
        return np.fromfile(self._paths[number], self.dtype).reshape(-1, self.width)

    def chunks(self, number: int, rows: int) -> Iterator[NDArray[Any]]:
        """The records of one bucket in order of arrival, at most `rows` at a time."""
        with self._paths[number].open("rb") as file:
            while len(flat := np.fromfile(file, self.dtype, rows * self.width)):
                yield flat.reshape(-1, self.width)

    def remove(self, number: int | None = None) -> None:
        """Delete one bucket's file, or all."""
        for path in self._paths if number is None else [self._paths[number]]:
            path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self.finish()
        finally:
            self.remove()


@compiled
def arrange_by_bucket(bucket: NDArray[Any], records: NDArray[Any], bounds: NDArray[np.int64], arranged: NDArray[Any]) -> None:
    """Stable counting sort of rows by bucket; rows of bucket b end up at bounds[b] … bounds[b + 1] − 1."""
    count = len(bounds) - 1
    for i in range(len(bucket)):
        bounds[bucket[i] + 1] += 1
    for b in range(count):
        bounds[b + 1] += bounds[b]
    at = bounds[:count].copy()
    for i in range(len(bucket)):
        row = at[bucket[i]]
        at[bucket[i]] += 1
        for k in range(records.shape[1]):
            arranged[row, k] = records[i, k]
