"""Rows in order of their key, more of them than memory holds: the one operation shards are made with.

Edges become neighbour lists this way, neighbour lists their transpose, and node tables change their order. Rows with the same
key keep their order. Where it is known how many rows each key has, the result is filled in windows that fit the memory, and
the source is read once for each window: reading is cheap, writing is not. When that would be more than a few readings, or
the counts are not known, rows go through bucket files (external_sort.py). The result is the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.core.environment import thread_count
from starling.core.progress import Task
from starling.kernels.parallel import cut_ranges, parallel_for, worthwhile_threads
from starling.store.sharding.external_sort import ExternalSort
from starling.store.sharding.rows import KeyedRows, RowSource

_MOST_READINGS = 6
_CURSOR_BYTES = 8
_SAMPLE = 1 << 16


def rows_by_key(
    source: RowSource, *, scratch: Path, memory: int, threads: int | None = None, task: Task | None = None
) -> Iterator[tuple[str, NDArray[Any]]]:
    """The rows in ascending order of key, as (column, block): the blocks of each column follow one another.

    A block is good until the next is asked for. `task` is told about every row read, ``source.count * readings(source,
    memory)`` of them.
    """
    if _room(source, memory) is None:
        yield from _through_buckets(source, scratch, memory, threads, task)
    else:
        yield from _in_windows(source, memory, threads, task)


def readings(source: RowSource, memory: int) -> int:
    """How often the source will be read."""
    room = _room(source, memory)
    return 1 if room is None else -(-source.count // room)


def _room(source: RowSource, memory: int) -> int | None:
    """Rows that a window can have; None where rows have to go through bucket files."""
    if source.ends is None:
        return None
    row_bytes = sum(column.bytes for column in source.columns.values())
    room = max(1, memory // (row_bytes + -(-_CURSOR_BYTES * source.limit // max(source.count, 1))))
    return room if source.count <= room * _MOST_READINGS else None


def _in_windows(source: RowSource, memory: int, threads: int | None, task: Task | None) -> Iterator[tuple[str, NDArray[Any]]]:
    room, threads = _room(source, memory), worthwhile_threads(source.count, threads)
    assert room is not None
    buffers = {
        name: np.empty((min(room, source.count), column.bytes // column.unit.itemsize), column.unit)
        for name, column in source.columns.items()
    }
    for low in range(0, source.count, room):
        window = _Window(source, low, min(low + room, source.count), buffers, threads)
        for block in source.blocks():
            window.place(block)
            if task is not None:
                task.advance(len(block.keys))
        yield from window.columns()
        del window  # its cursors, before the next one's


def _through_buckets(
    source: RowSource, scratch: Path, memory: int, threads: int | None, task: Task | None
) -> Iterator[tuple[str, NDArray[Any]]]:
    sample = source.sample
    if sample is None:
        assert source.ends is not None
        places = np.linspace(0, source.count, _SAMPLE, endpoint=False).astype(np.int64)
        sample = np.searchsorted(source.ends, places, side="right") - 1
    with ExternalSort(
        scratch, source.columns, sample=sample, rows=source.count, limit=source.limit, memory=memory, threads=threads
    ) as sorter:
        for block in source.blocks():
            sorter.add(block)
            if task is not None:
                task.advance(len(block.keys))
        for run in sorter.runs():
            for name in source.columns:
                for values in run.blocks(name):
                    yield name, values


class _Window:
    """Rows low … high − 1 of the result, being filled; `buffers` are used again for the next window."""

    def __init__(self, source: RowSource, low: int, high: int, buffers: dict[str, NDArray[Any]], threads: int | None) -> None:
        self._source, self._rows, self._buffers, self._threads = source, high - low, buffers, threads
        ends = source.ends
        assert ends is not None
        self._first = int(np.searchsorted(ends, low, side="right")) - 1
        last = int(np.searchsorted(ends, high))
        self._at = ends[self._first : last] - low
        # Each thread goes through all keys and serves its own range of them: no cursor has two writers.
        self._ranges = cut_ranges(last - self._first, threads or thread_count(), ends[self._first : last + 1])

    def place(self, block: KeyedRows) -> None:
        """Put the rows of a block that belong into this window where they belong."""
        place = np.full(len(block.keys), -1, np.int64)

        def find(begin: int, end: int) -> None:
            for k in range(begin, end):
                _find_places(block.keys, self._first, self._ranges[k], self._ranges[k + 1], self._rows, self._at, place)

        parallel_for(len(self._ranges) - 1, find, self._threads)
        for name, column in self._source.columns.items():
            rows, filled = column.as_bits(block.columns[name]), self._buffers[name]

            def move(start: int, stop: int, rows: NDArray[Any] = rows, filled: NDArray[Any] = filled) -> None:
                _move(rows, place, filled, start, stop)

            parallel_for(len(place), move, self._threads)

    def columns(self) -> Iterator[tuple[str, NDArray[Any]]]:
        """What has been filled, column by column; good until the next window is begun."""
        for name, column in self._source.columns.items():
            yield name, column.from_bits(self._buffers[name][: self._rows])


@compiled
def _find_places(
    keys: NDArray[Any], first: int, begin: int, end: int, rows: int, at: NDArray[np.int64], place: NDArray[np.int64]
) -> None:
    """Where in the window each row with a key in first + begin … first + end − 1 goes, if anywhere."""
    for i in range(len(keys)):
        key = keys[i] - first
        if begin <= key < end:
            here = at[key]
            at[key] = here + 1
            if 0 <= here < rows:
                place[i] = here


@compiled
def _move(rows: NDArray[Any], place: NDArray[np.int64], filled: NDArray[Any], start: int, stop: int) -> None:
    for i in range(start, stop):
        to = place[i]
        if to >= 0:
            for k in range(rows.shape[1]):
                filled[to, k] = rows[i, k]
