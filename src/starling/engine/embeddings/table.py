"""An embedding table: a learnt row for each of a worker's nodes, with what its optimiser remembers of it.

Initial numbers are drawn from (seed, position of the node, column), so that they do not depend on who owns which node. Rows are in
memory, or in a nameless file: then a step takes its rows in ascending order, a range of the file at a time, and gives each range's
pages back before the next. Both give the same bits, since the same kernels work on both.
"""

from __future__ import annotations

import math
import mmap
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from starling.core.errors import StarlingError
from starling.core.keyed import stream_key
from starling.core.memory import format_bytes
from starling.engine.embeddings.optimizers import SPARSE_OPTIMIZERS, SparseName
from starling.engine.row_ranges import give_back, row_ranges
from starling.kernels.rows import gather_rows, move_rows
from starling.kernels.sparse_steps import fill_uniform
from starling.nn.inputs import LearntRows

RAW = "rows"
"""Among a table's arrays, the rows themselves."""
_BLOCK_BYTES = 1 << 24


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
        self._whole = 4 * self.count * self.width * (1 + len(self._optimizer.state))
        self._resident = spec.memory if spec.memory is not None and self._whole > spec.memory else None
        self._files: list[mmap.mmap] = []
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

    @property
    def held_bytes(self) -> int:
        """What rows and state take in memory, at most."""
        return self._whole if self._resident is None else self._resident

    @property
    def arrays(self) -> tuple[str, ...]:
        """The names of all arrays: the rows and what the optimiser remembers of them."""
        return (RAW, *self._optimizer.state)

    def rows(self, index: NDArray[Any], name: str = RAW) -> NDArray[np.float32]:
        """Rows as they are now, in fresh memory; or those of another array."""
        out, array = np.empty((len(index), self.width), np.float32), self._array(name)
        for places in self._ranges(index, 1):
            if places is None:
                gather_rows(array, np.ascontiguousarray(index), out)
            else:
                move_rows(array, index[places], out, places)
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
        for places in self._ranges(index, 1 + len(self.state)):
            rows, moves = (np.ascontiguousarray(index), gradient) if places is None else (index[places], gradient[places])
            self._optimizer.step(self._rows, self.state, rows, moves, self.rate, self.steps)

    @property
    def block_rows(self) -> int:
        """How many rows a block has, but for the last."""
        return max(1, _BLOCK_BYTES // max(4 * self.width, 1))

    def blocks(self, name: str = RAW) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """All rows of an array, a block at a time, each with the number of its first."""
        for start in range(0, self.count, self.block_rows):
            yield start, self.rows(np.arange(start, min(start + self.block_rows, self.count)), name)

    def put(self, start: int, block: NDArray[np.float32], name: str = RAW) -> None:
        """Write a block of rows, from row `start` on."""
        self._array(name)[start : start + len(block)] = block
        self._give_back()

    def _array(self, name: str) -> NDArray[np.float32]:
        return self._rows if name == RAW else self.state[name]

    def _zeros(self, folder: Path | None) -> NDArray[np.float32]:
        shape = (self.count, self.width)
        size = 4 * math.prod(shape)
        if self._resident is None or size == 0:
            return np.zeros(shape, np.float32)
        with tempfile.TemporaryFile(dir=folder) as file:  # has no name, and is gone with its last mapping
            try:
                os.posix_fallocate(file.fileno(), 0, size)  # a full disk is an error here, not a signal later
            except OSError as error:
                raise StarlingError(
                    f"No room for {format_bytes(size)} of embeddings in {folder or tempfile.gettempdir()} ({error.strerror}). Free "
                    "some, or raise --embedding-memory."
                ) from error
            pages = mmap.mmap(file.fileno(), size)
        self._files.append(pages)
        return np.frombuffer(pages, np.float32).reshape(shape)

    def _draw(self) -> None:
        """Uniform numbers with a variance of 1 / D: a row's length is one on average."""
        key, bound = stream_key(self._seed, "embedding"), math.sqrt(3 / max(self.width, 1))
        size = self._rows_at_once(1) if self.on_disk else self.count
        for start in range(0, self.count, max(size, 1)):
            some = slice(start, start + size)
            fill_uniform(self._rows[some], np.ascontiguousarray(self.positions[some]), key, bound)
            self._give_back()

    def _ranges(self, index: NDArray[Any], arrays: int) -> Iterator[NDArray[np.int64] | None]:
        """Places in `index` range by range of the file, whose pages are given back after each; in memory None, all at once."""
        if not self.on_disk:
            yield None
            return
        for places in row_ranges(index, self._rows_at_once(arrays)):
            yield places
            self._give_back()

    def _rows_at_once(self, arrays: int) -> int:
        """Rows of so many arrays that may be resident together."""
        return max(1, (self._resident or 0) // max(1, 4 * self.width * arrays))

    def _give_back(self) -> None:
        for pages in self._files:
            give_back(pages)
