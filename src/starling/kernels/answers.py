"""The way back from buckets: a value for each record, found a bucket at a time, read in the order in which the records came.

Work that does not fit in memory goes out with `Buckets.append`, is done bucket by bucket, and comes home here. Nothing but
the bucket of each record is needed to put the values in order, since a bucket keeps the order of arrival.
"""

from __future__ import annotations

from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from starling.core.compile import compiled
from starling.core.npy import write_values


class Answers:
    """`count` files of values of one type in `directory`, one value for each record of a bucket."""

    def __init__(self, directory: Path, count: int, dtype: DTypeLike) -> None:
        self.count, self.dtype = count, np.dtype(dtype)
        directory.mkdir(parents=True, exist_ok=True)
        self._paths = [directory / f"answers-{number:05d}" for number in range(count)]
        for path in self._paths:
            path.touch()
        self._files: list[FileIO] = []

    def append(self, number: int, values: NDArray[Any]) -> None:
        """Add the values of the next records of one bucket; different buckets may be written from different threads."""
        with self._paths[number].open("ab") as file:
            write_values(file, np.ascontiguousarray(values, self.dtype))

    def read(self, number: int, start: int, count: int) -> NDArray[Any]:
        """Values start … start + count − 1 of one bucket, or those that are there."""
        return np.fromfile(self._paths[number], self.dtype, count, offset=start * self.dtype.itemsize)

    def gather(self, bucket: NDArray[np.uint8]) -> NDArray[Any]:
        """The values of the next records of the stream, which went to these buckets."""
        if not self._files:
            self._files = [path.open("rb", buffering=0) for path in self._paths]
        bounds = np.zeros(self.count + 1, np.int64)
        np.cumsum(np.bincount(bucket, minlength=self.count), out=bounds[1:])
        arranged = np.empty(len(bucket), self.dtype)
        for number in np.flatnonzero(np.diff(bounds)).tolist():
            part = arranged[bounds[number] : bounds[number + 1]]
            if self._files[number].readinto(part.view(np.uint8).data) != part.nbytes:
                raise ValueError(f"more values asked for than bucket {number} has")
        values = np.empty_like(arranged)
        put_in_order(bucket, bounds[:-1].copy(), arranged, values)
        return values

    def remove(self, number: int | None = None) -> None:
        """Delete one bucket's file, or all."""
        for path in self._paths if number is None else [self._paths[number]]:
            path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for file in self._files:
            file.close()
        self.remove()


@compiled
def put_in_order(bucket: NDArray[Any], at: NDArray[np.int64], arranged: NDArray[Any], values: NDArray[Any]) -> None:
    """Undo an arrangement by buckets: the inverse of `arrange_by_bucket`. `at` is where each bucket begins; it is used up."""
    for i in range(len(bucket)):
        values[i] = arranged[at[bucket[i]]]
        at[bucket[i]] += 1
