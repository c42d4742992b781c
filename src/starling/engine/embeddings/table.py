"""An embedding table: a learnt row for each of a worker's nodes, with what its optimiser remembers of it.

Initial numbers are drawn from (seed, position of the node, column), so that they do not depend on who owns which node. Rows are in
memory, or in a nameless file: then pages that a step has touched are given back when they exceed what may stay resident. Both give
the same bits, since the same kernels work on both.
"""

from __future__ import annotations

import math
import mmap
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from starling.core.keyed import stream_key
from starling.engine.embeddings.optimizers import SPARSE_OPTIMIZERS, SparseName
from starling.kernels.rows import gather_rows
from starling.kernels.sparse_steps import fill_uniform
from starling.nn.inputs import LearntRows

_BLOCK_BYTES = 1 << 24
_FAULT_BYTES = 1 << 16
"""The system maps up to so many bytes around a number that is touched."""


@dataclass(frozen=True)
class TableSpec:
    """How wide rows are, how they begin and move, and how many bytes of rows and state may stay in memory (None: all)."""

    width: int
    optimizer: SparseName = "adam"
    seed: int = 0
    memory: int | None = None


class EmbeddingTable:
    """Rows of the nodes at `positions` of the imported graph, from `begin` on; `rate` is the learning rate of the next step."""

    def __init__(self, positions: NDArray[Any], spec: TableSpec) -> None:
        self.count, self.width, self.rate, self.steps = len(positions), spec.width, 0.01, 0
        self.positions, self._seed = positions, spec.seed
        self._optimizer = SPARSE_OPTIMIZERS[spec.optimizer]()
        whole = 4 * self.count * self.width * (1 + len(self._optimizer.state))
        self._resident = spec.memory if spec.memory is not None and whole > spec.memory else None
        self._files: list[mmap.mmap] = []
        self._touched = 0
        self._under_way: LearntRows | None = None

    def begin(self, folder: Path | None = None) -> Self:
        """Make the rows and draw their first numbers. A file, if it takes one, has no name, and its room is in `folder`."""
        self._rows = self._zeros(folder)
        self.state = {name: self._zeros(folder) for name in self._optimizer.state}
        self._draw()
        return self

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32."""
        return np.dtype(np.float32)

    @property
    def row_shape(self) -> tuple[int, ...]:
        """(D,)."""
        return (self.width,)

    @property
    def on_disk(self) -> bool:
        """Whether rows are in a file."""
        return self._resident is not None

    def rows(self, index: NDArray[Any]) -> NDArray[np.float32]:
        """Rows as they are now, in fresh memory."""
        out = np.empty((len(index), self.width), np.float32)
        gather_rows(self._rows, np.ascontiguousarray(index), out)
        self._touch(len(index), 1)
        return out

    def all(self) -> NDArray[np.float32]:
        """All rows: where they are in memory the table itself, which the next update changes."""
        return self._rows if not self.on_disk else self.rows(np.arange(self.count))

    def reading(self, rows: LearntRows) -> None:
        """A step has read these rows: they are to be moved when it ends."""
        self._under_way = rows

    def step(self, rate: float) -> None:
        """End a step of training: what it read is moved by its gradients, with this learning rate. Every worker takes part."""
        rows, self._under_way, self.rate = self._under_way, None, rate
        assert rows is not None, "every step reads its rows"
        rows.update()

    def add(self, index: NDArray[Any], gradient: NDArray[np.float32]) -> None:
        """One step: move these rows, each named once, by their gradients; every step of a run is counted, also an empty one."""
        self.steps += 1
        gradient = np.ascontiguousarray(gradient, np.float32)
        for start, stop in self._blocks(len(index)):
            rows = np.ascontiguousarray(index[start:stop])
            self._optimizer.step(self._rows, self.state, rows, gradient[start:stop], self.rate, self.steps)
            self._touch(len(rows), 1 + len(self.state))

    def blocks(self) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """All rows, a block at a time, each with the number of its first."""
        for start, stop in self._blocks(self.count):
            yield start, self.rows(np.arange(start, stop))

    def _zeros(self, folder: Path | None) -> NDArray[np.float32]:
        shape = (self.count, self.width)
        size = 4 * math.prod(shape)
        if self._resident is None or size == 0:
            return np.zeros(shape, np.float32)
        with tempfile.TemporaryFile(dir=folder) as file:  # has no name, and is gone with its last mapping
            file.truncate(size)
            pages = mmap.mmap(file.fileno(), size)
        self._files.append(pages)
        return np.frombuffer(pages, np.float32).reshape(shape)

    def _draw(self) -> None:
        """Uniform numbers with a variance of 1 / D: a row's length is one on average."""
        key, bound = stream_key(self._seed, "embedding"), math.sqrt(3 / max(self.width, 1))
        for start, stop in self._blocks(self.count):
            fill_uniform(self._rows[start:stop], np.ascontiguousarray(self.positions[start:stop]), key, bound)
            self._touch(stop - start, 1)

    def _blocks(self, count: int) -> Iterator[tuple[int, int]]:
        size = count if not self.on_disk else max(1, _BLOCK_BYTES // max(4 * self.width, 1))
        for start in range(0, count, max(size, 1)):
            yield start, min(start + size, count)

    def _touch(self, rows: int, arrays: int) -> None:
        """Give pages back once more of them may be resident than should."""
        if self._resident is None:
            return
        self._touched += min(rows * max(_FAULT_BYTES, 4 * self.width), 4 * self.count * self.width) * arrays
        if self._touched > self._resident and hasattr(mmap, "MADV_DONTNEED"):
            for pages in self._files:
                pages.madvise(mmap.MADV_DONTNEED)  # what was written stays in the file
            self._touched = 0
