"""Windows: the neighbour lists of a range of nodes, as many as the budget holds, gathered from the edge stream.

A graph that fits is one window, gathered in one pass and kept. A larger one is cut into several. With a scratch folder their
lists are written there once and read back whenever a window is wanted; without one, every look at a window is a pass over
the stream. Lists are symmetric (a directed graph is taken as an undirected one), ascending, without duplicates or self-loops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from starling.core.npy import NpyReader, save_array
from starling.kernels.buckets import Buckets
from starling.kernels.parallel import parallel_for
from starling.kernels.partition.adjacency import close_gaps, sort_lists
from starling.kernels.partition.windows import bucket_entries, cut_windows, gather_lists, to_places
from starling.partition.contract import PartitionTask
from starling.partition.passes import Pairs, edge_blocks

NO_UNITS = np.zeros(0, np.int32)
MOST_ENTRIES = (1 << 31) - 1
"""Offsets inside a window are int32."""
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Window:
    """The neighbours of place ``low + r`` are ``neighbour[start[r] : start[r + 1]]``, as places."""

    low: int
    start: NDArray[np.integer]
    neighbour: NDArray[np.int32]

    @property
    def rows(self) -> int:
        """How many places it covers."""
        return len(self.start) - 1

    def over_rows(self, work: Callable[[int, int], None], threads: int | None) -> None:
        """Run ``work(first, last)`` over ranges of rows, on threads."""
        parallel_for(self.rows, work, threads, offsets=self.start)


class Windows:
    """All places in order, window by window; iterate as often as wanted.

    `degree` [V] is an upper bound on the neighbours of each place and is read at once. `place` [V] says where each node
    stands; None: at its own number. `unit` [V]: places of one unit (a flock) are never in two windows.
    """

    def __init__(
        self,
        task: PartitionTask,
        degree: NDArray[np.int32],
        place: NDArray[np.int32] | None,
        entries: int,
        unit: NDArray[np.int32] = NO_UNITS,
        what: str = "gathering neighbours",
    ) -> None:
        self._task, self._degree, self._place, self._what = task, degree, place, what
        self.bounds = np.array(cut_windows(degree, unit, min(entries, MOST_ENTRIES)), np.int64)
        self.count = len(self.bounds) - 1
        self.passes = 0
        self._kept: Window | None = None
        self._folder = task.scratch if self.count > 1 else None
        self._on_disk = False

    def __iter__(self) -> Iterator[Window]:
        """The windows in order; their arrays are read, never written.

        Let go of a window (``del window``) before asking for the next, or there will be two in memory.
        """
        if self.count == 1:
            self._kept = self._kept or self._gather(0)
            yield self._kept
            return
        if self._folder is not None and not self._on_disk:
            self._spill(self._folder)
        for number in range(self.count):
            yield self._load(self._folder, number) if self._folder is not None else self._gather(number)

    def close(self) -> None:
        """Let go of what is kept, in memory and in the scratch folder."""
        self._kept = None
        if self._folder is not None and self._on_disk:
            for number in range(self.count):
                for path in _files(self._folder, number):
                    path.unlink()
            self._on_disk = False

    def _gather(self, number: int) -> Window:
        """One pass over the stream."""
        low, high = int(self.bounds[number]), int(self.bounds[number + 1])
        start, end, neighbour = self._room(low, high)
        for pairs in self._placed_blocks():
            gather_lists(pairs, self._task.edges.directed, low, high, end, neighbour)
        return self._tidy(low, start, end, neighbour)

    def _room(self, low: int, high: int) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
        start = np.zeros(high - low + 1, np.int32)
        np.cumsum(self._degree[low:high], out=start[1:])
        return start, start[:-1].copy(), np.empty(start[-1], np.int32)

    def _tidy(self, low: int, start: NDArray[np.int32], end: NDArray[np.int32], neighbour: NDArray[np.int32]) -> Window:
        """Sort the lists, so that duplicates stand side by side, and drop these."""

        def work(first: int, last: int) -> None:
            sort_lists(start, end, neighbour, first, last)

        parallel_for(len(end), work, self._task.threads, offsets=start)
        entries = close_gaps(start, end, neighbour)
        return Window(low, start, neighbour[:entries])

    def _placed_blocks(self) -> Iterator[Pairs]:
        self.passes += 1
        for pairs in edge_blocks(self._task.edges, self._what, self._task.progress):
            if self._place is None:
                yield pairs
                continue
            placed = np.empty_like(pairs)
            to_places(pairs, self._place, placed)
            yield placed

    def _spill(self, folder: Path) -> None:
        """One pass that deals the entries out to a file a window, then a look at each file to make its lists."""
        both = self._task.edges.directed
        with Buckets(folder / "entries", self.count, np.int32, 2) as buckets:
            for pairs in self._placed_blocks():
                entries = np.empty((len(pairs) * (2 if both else 1), 2), np.int32)
                bucket = np.empty(len(entries), np.int32)
                count = bucket_entries(pairs, both, self.bounds, entries, bucket)
                buckets.append(bucket[:count], entries[:count])
            buckets.finish()
            for number in range(self.count):
                self._list_bucket(buckets, number, folder)
        self._on_disk = True

    def _list_bucket(self, buckets: Buckets, number: int, folder: Path) -> None:
        low, high = int(self.bounds[number]), int(self.bounds[number + 1])
        start, end, neighbour = self._room(low, high)
        for chunk in buckets.chunks(number, _CHUNK):
            gather_lists(chunk, False, low, high, end, neighbour)
        buckets.remove(number)
        window = self._tidy(low, start, end, neighbour)
        for path, array in zip(_files(folder, number), (window.start, window.neighbour), strict=True):
            save_array(path, array)

    def _load(self, folder: Path, number: int) -> Window:
        start, neighbour = (NpyReader(path) for path in _files(folder, number))
        return Window(int(self.bounds[number]), start.read(0, start.rows), neighbour.read(0, neighbour.rows))


def _files(folder: Path, number: int) -> tuple[Path, Path]:
    return folder / f"window-{number}-start.npy", folder / f"window-{number}-neighbour.npy"
