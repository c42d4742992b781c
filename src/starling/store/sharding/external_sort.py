"""Sort more rows than memory holds: spread them over bucket files by key, then sort one bucket at a time.

Reads and writes are sequential, and sorting is stable. A bucket that turns out too large (the sample misled, or one key has
most of the rows) is spread again; one that holds a single key is sorted already and is only copied. What comes out never
depends on the memory allowed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.kernels.buckets import Buckets
from starling.kernels.csr import index_type
from starling.kernels.parallel import parallel_for
from starling.kernels.radix import stable_order
from starling.store.sharding.rows import Column, KeyedRows

KEY = "key"
_MOST_FILES = 512  # open at once; systems commonly allow 1024
_BLOCK_BYTES = 1 << 23


class SortedRows:
    """A run of rows in their final order; columns are read one at a time."""

    def __init__(self, files: dict[str, Buckets], columns: dict[str, Column], number: int, order: NDArray[Any] | None) -> None:
        self._files, self._columns, self._number, self._order = files, columns, number, order

    def blocks(self, name: str) -> Iterator[NDArray[Any]]:
        """The rows of one column, a few megabytes at a time."""
        column, file = self._columns[name], self._files[name]
        size = max(1, _BLOCK_BYTES // max(column.bytes, 1))
        if self._order is None:
            for block in file.chunks(self._number, size):
                yield column.from_bits(block)
            return
        rows = file.read(self._number)
        for start in range(0, len(rows), size):
            yield column.from_bits(rows[self._order[start : start + size]])


class ExternalSort:
    """Rows with a key in [0, limit) and some columns; `add` them all, then go through `runs` once.

    `sample` is some of the keys, from which bucket bounds are guessed; `rows` is about how many will come.
    """

    def __init__(
        self,
        directory: Path,
        columns: dict[str, Column],
        *,
        sample: NDArray[Any],
        rows: int,
        limit: int,
        memory: int,
        threads: int | None = None,
    ) -> None:
        key = Column(np.dtype(index_type(limit)))
        self.columns = {KEY: key, **columns}
        self._directory, self._limit, self._memory, self._threads = directory, limit, memory, threads
        # Held for a bucket: its keys while its order is made (two index arrays), then the order and one column.
        index = 4 if rows <= 1 << 31 else 8
        widest = max(column.bytes for column in self.columns.values())
        self._rows_at_once = max(1, memory // (index + max(key.bytes + index, widest)))
        wanted = -(-rows * 5 // (4 * self._rows_at_once))
        self._splitters = _splitters(sample, min(wanted, _MOST_FILES // len(self.columns)))
        self._files = {
            name: Buckets(directory / name, len(self._splitters) + 1, column.unit, column.bytes // column.unit.itemsize)
            for name, column in self.columns.items()
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for file in self._files.values():
            file.__exit__(kind, error, trace)

    def add(self, rows: KeyedRows) -> None:
        """Take in rows; of two rows with the same key, the one added first comes out first."""
        keys = rows.keys
        bucket = np.empty(len(keys), np.uint16)
        parallel_for(len(keys), lambda start, stop: _find_buckets(keys, self._splitters, bucket, start, stop), self._threads)
        for name, values in {KEY: keys, **rows.columns}.items():
            self._files[name].append(bucket, self.columns[name].as_bits(values))

    def runs(self) -> Iterator[SortedRows]:
        """All rows in ascending order of key, run by run; what was read is deleted when the next run is asked for."""
        for file in self._files.values():
            file.finish()
        bounds = [0, *self._splitters.tolist(), self._limit]
        for number, size in enumerate(self._files[KEY].sizes.tolist()):
            if size > self._rows_at_once and bounds[number + 1] - bounds[number] > 1:
                with self._spread_again(number, size) as finer:
                    yield from finer.runs()
            elif size:
                yield SortedRows(self._files, self.columns, number, self._order(number, size, *bounds[number : number + 2]))
            for file in self._files.values():
                file.remove(number)

    def _order(self, number: int, size: int, first: int, stop: int) -> NDArray[Any] | None:
        if stop - first == 1:
            return None
        keys = self._files[KEY].read(number).view(self.columns[KEY].dtype).reshape(-1)
        keys -= first
        return stable_order(keys, stop - 1 - first)

    def _spread_again(self, number: int, size: int) -> ExternalSort:
        """The rows of one bucket as a sort of their own."""
        key = self.columns[KEY]
        step = max(1, _BLOCK_BYTES // max(column.bytes for column in self.columns.values()))
        sample = [
            block.view(key.dtype).reshape(-1)[:: -(-size // (1 << 18))] for block in self._files[KEY].chunks(number, step)
        ]
        finer = ExternalSort(
            self._directory / f"finer-{number}",
            {name: column for name, column in self.columns.items() if name != KEY},
            sample=np.concatenate(sample),
            rows=size,
            limit=self._limit,
            memory=self._memory,
            threads=self._threads,
        )
        for blocks in zip(*(file.chunks(number, step) for file in self._files.values()), strict=True):
            rows = {name: self.columns[name].from_bits(bits) for name, bits in zip(self._files, blocks, strict=True)}
            finer.add(KeyedRows(rows.pop(KEY), rows))
        for file in self._files.values():
            file.remove(number)
        return finer


def _splitters(sample: NDArray[Any], buckets: int) -> NDArray[np.int64]:
    """Keys that begin a bucket, chosen so that the sample is spread evenly; a frequent key gets a bucket to itself."""
    if buckets <= 1 or not len(sample):
        return np.zeros(0, np.int64)
    ordered = np.sort(sample).astype(np.int64)
    places = np.linspace(0, len(ordered), buckets, endpoint=False).astype(np.int64)[1:]
    quantiles = np.unique(ordered[places])
    times = np.searchsorted(ordered, quantiles, side="right") - np.searchsorted(ordered, quantiles)
    frequent = quantiles[2 * buckets * times > len(ordered)]
    found = np.union1d(quantiles, frequent + 1)
    return found[found > 0]


@compiled
def _find_buckets(keys: NDArray[Any], splitters: NDArray[np.int64], bucket: NDArray[np.uint16], start: int, stop: int) -> None:
    """The number of splitters at or below each key."""
    for i in range(start, stop):
        low, high = 0, len(splitters)
        while low < high:
            middle = (low + high) // 2
            if splitters[middle] <= keys[i]:
                low = middle + 1
            else:
                high = middle
        bucket[i] = low
