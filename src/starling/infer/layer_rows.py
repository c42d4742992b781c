"""The rows that one layer gives for all nodes of a partitioned graph, kept so that the parts of the next layer read them in order.

In memory they are one table by global id. On disk a part would have to pick its halo's rows one by one out of a file of all nodes,
and under a tight limit every row picked brings in a page, and what the system reads ahead of it, only to be dropped for the next.
So whoever writes rows writes them a second time for each part that has them in its halo, in that part's order.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.engine.data.halo_rows import HaloPlaces
from starling.engine.data.part_source import PartSource
from starling.engine.row_table import RowTable
from starling.kernels.rows import gather_rows
from starling.store.parts import Parts

ReadRows = Callable[[NDArray[Any]], NDArray[np.float32]]
"""From local rows of a part to their values."""

_MOST_COPIES = 4
"""Of a row in halos, on average: beyond, they are picked out of the file of all nodes."""


class LayerRows:
    """One layer's rows; without `files` in memory, else in files that begin with that name and that all workers share."""

    def __init__(self, parts: Parts, width: int, files: Path | None = None) -> None:
        self.width, self._parts, self._places = width, parts, HaloPlaces(parts)
        self._halo: RowTable | None = None
        nodes = parts.manifest.nodes
        if files is None:
            self._own = RowTable(nodes, width, memory=4 * nodes * width)
            return
        neighbours = [int(parts.shard(part).halo_offsets[0, -1]) for part in range(len(parts))]  # further hops are never read
        self._begin = np.concatenate([[0], np.cumsum(neighbours)]).tolist()
        self._own = RowTable(nodes, width, memory=0, path=files.with_suffix(".rows"))
        if self._begin[-1] <= _MOST_COPIES * nodes:
            self._halo_path = files.with_suffix(".halo")
            self._halo = RowTable(self._begin[-1], width, memory=0, path=self._halo_path)

    def write(self, part: int, start: int, rows: NDArray[np.float32]) -> None:
        """Set own rows start, start + 1, … of a part."""
        self._own.write(self._parts.manifest.offsets[part] + start, rows)
        if self._halo is not None:
            for other, place, mine in self._places.of(part, start, start + len(rows), hops=1):
                self._halo.write(self._begin[other] + place, rows[mine - start])

    def drop_halo(self) -> None:
        """Remove what only the next layer reads; the last worker to let go of it frees the disk."""
        if self._halo is not None:
            self._halo = None
            self._halo_path.unlink(missing_ok=True)

    def own(self, part: int, start: int, stop: int) -> NDArray[np.float32]:
        """Own rows start … stop − 1 of a part."""
        first = self._parts.manifest.offsets[part]
        return self._own.read(first + start, first + stop)

    def of(self, part: PartSource, memory: int) -> ReadRows:
        """How to read rows of a part and its halo: all of them at once where they fit `memory`, so that the disk reads in order."""
        halo = self._halo
        if halo is None:
            return lambda rows: self._own.rows(part.ids_of_rows[rows])
        first, begin, end = self._parts.manifest.offsets[part.part], self._begin[part.part], self._begin[part.part + 1]
        count = part.owned + end - begin
        held: NDArray[np.float32] | None = None
        if 4 * self.width * count <= memory:
            held = np.empty((count, self.width), np.float32)
            self._own.read_into(first, held[: part.owned])
            halo.read_into(begin, held[part.owned :])

        def read(rows: NDArray[Any]) -> NDArray[np.float32]:
            out = np.empty((len(rows), self.width), np.float32)
            if held is not None:
                gather_rows(held, rows, out)
            else:
                mine = rows < part.owned
                out[mine], out[~mine] = self._own.rows(first + rows[mine]), halo.rows(begin + rows[~mine] - part.owned)
            return out

        return read
