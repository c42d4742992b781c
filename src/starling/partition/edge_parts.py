"""The part of every edge: two bytes an edge, in stream order, in a file rather than in memory."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from starling.core.npy import NpyWriter, map_array
from starling.stream.edges import BLOCK_EDGES

UNDECIDED = 65535


class EdgeParts:
    """Takes the parts of consecutive edges and gives them back as one read-only array.

    With a scratch folder they lie in a file there, mapped; without one, in memory.
    """

    def __init__(self, edges: int, scratch: Path | None, name: str = "edge_part") -> None:
        self._filled = 0
        self._writer = NpyWriter(scratch / f"{name}.npy", np.uint16) if scratch is not None else None
        self._held = np.empty(edges if scratch is None else 0, np.uint16)

    def append(self, parts: NDArray[np.uint16]) -> None:
        """The parts of the edges that come next."""
        if self._writer is not None:
            self._writer.append(parts)
        else:
            self._held[self._filled : self._filled + len(parts)] = parts
            self._filled += len(parts)

    def finish(self) -> NDArray[np.uint16]:
        """All parts, from the first edge to the last."""
        if self._writer is None:
            self._held.flags.writeable = False
            return self._held
        self._writer.close()
        return map_array(self._writer.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._writer is not None:
            self._writer.__exit__(kind, error, trace)


def part_blocks(edge_part: NDArray[np.uint16], size: int = BLOCK_EDGES) -> Iterator[NDArray[np.uint16]]:
    """The parts of all edges, a block at a time, read rather than mapped: mapped pages would count as memory held."""
    whole_file: object = edge_part.base  # of a slice of a map, this is another map
    for start in range(0, len(edge_part), size):
        count = min(size, len(edge_part) - start)
        if isinstance(edge_part, np.memmap) and edge_part.filename and isinstance(whole_file, mmap.mmap):
            yield np.fromfile(edge_part.filename, np.uint16, count, offset=edge_part.offset + start * edge_part.itemsize)
        else:
            yield edge_part[start : start + count]
