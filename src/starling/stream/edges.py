"""The edge stream: what partitioners and shard builders read, in the order of the imported graph."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from starling.core.npy import NpyReader

BLOCK_EDGES = 1 << 20


@dataclass(frozen=True)
class EdgeBlock:
    """Consecutive edges of a stream: row i of `pairs` is (source, destination) of edge ``start + i``."""

    start: int
    pairs: NDArray[Any]


class EdgeStream(ABC):
    """Edges of one graph, readable from the first to the last as often as wanted.

    `directed` is False when every edge also stands in the stream in its reverse direction.
    """

    nodes: int
    edges: int
    directed: bool

    def blocks(self, size: int = BLOCK_EDGES) -> Iterator[EdgeBlock]:
        """The edges, at most `size` at a time."""
        for start in range(0, self.edges, size):
            yield EdgeBlock(start, self._read(start, min(start + size, self.edges)))

    @abstractmethod
    def _read(self, start: int, stop: int) -> NDArray[Any]: ...


class EdgesInMemory(EdgeStream):
    """Edges held as an array [E, 2]."""

    def __init__(self, pairs: NDArray[Any], nodes: int, *, directed: bool) -> None:
        self._pairs, self.nodes, self.edges, self.directed = pairs, nodes, len(pairs), directed

    def _read(self, start: int, stop: int) -> NDArray[Any]:
        return self._pairs[start:stop]


class EdgesOnDisk(EdgeStream):
    """Edges in an ``edges.npy`` [E, 2], read block by block and never mapped."""

    def __init__(self, path: Path, nodes: int, *, directed: bool) -> None:
        self._reader = NpyReader(path)
        self.nodes, self.edges, self.directed = nodes, self._reader.rows, directed

    def _read(self, start: int, stop: int) -> NDArray[Any]:
        return self._reader.read(start, stop)
