"""R-MAT: edges fall into a square of a square of a square, which gives a skewed, scale-free graph without communities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from starling.core.compile import compiled
from starling.core.keyed import draw, stream_key
from starling.stream.generators.bijection import shuffled
from starling.stream.generators.contract import DrawnEdges, GeneratorSettings, Split
from starling.stream.generators.nodes import Classes, GeneratedNodes
from starling.stream.raw import RawGraph

_HALF, _LOW = np.uint64(32), np.uint64(0xFFFFFFFF)


class RmatSettings(GeneratorSettings):
    """The quadrants of Graph500 by default."""

    nodes: int = Field(2**16, ge=1, le=2**31 - 1, description="Nodes of the graph; any number, 2**scale in Graph500.")
    a: float = Field(0.57, ge=0.05, le=1, description="Chance that both ends are in the first half.")
    b: float = Field(0.19, ge=0, le=1, description="Chance that only the first end is.")
    c: float = Field(0.19, ge=0, le=1, description="Chance that only the second end is.")
    features: int = Field(0, ge=0, description="Width of feature rows; 0 for none. They say nothing about the edges.")
    classes: int = Field(0, ge=0, le=2**20, description="Labels drawn at random; 0 for none.")
    signal: float = Field(0.15, ge=0, le=1e6, description="How clearly a node's features tell its label.")
    split: Split = Field((60, 20, 20), description="Percentages of train/val/test nodes, where there are labels.")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.a + self.b + self.c > 1:
            raise ValueError(f"expected a + b + c of at most 1, got {self.a + self.b + self.c:g}")
        if self.features and not self.classes:
            raise ValueError("features hint at a label, so they need classes of at least 1")
        return self


def rmat(settings: RmatSettings) -> RawGraph:
    """Draw ``edges / 2`` undirected edges, each by halving the adjacency matrix down to one entry.

    At each level both ends fall into the first or second half of what is left, with chances a, b, c and 1 − a − b − c; an
    edge with an end beyond `nodes` is drawn again. Numbers are then shuffled, so that the heavy nodes are anywhere. Duplicates
    and self-loops are dropped by the import, so fewer than `edges` directed edges are stored (R-MAT repeats itself much).
    Memory: one block. After Chakrabarti, Zhan and Faloutsos (SIAM Data Mining 2004).
    """
    tables: tuple[GeneratedNodes, ...] = ()
    if settings.classes:
        classes = Classes.draw(settings.seed, settings.nodes, settings.classes, sorted_=False)
        tables = (GeneratedNodes(classes, settings.features, settings.signal, settings.split, settings.seed),)
    return RawGraph(
        edges=DrawnEdges(settings.edges // 2, _Ends.prepare(settings)),
        tables=tables,
        nodes=settings.nodes,
        directed=False,
        origin={"generator": "rmat", **settings.model_dump()},
    )


@dataclass(frozen=True)
class _Ends:
    """The two ends of an edge as a function of its number."""

    key: np.uint64
    shuffle: np.uint64
    nodes: int
    bounds: NDArray[np.uint64]
    """Of 32 bits: below bounds[0] both ends are in the first half, below bounds[1] only the first, below bounds[2] only
    the second, above neither."""

    @staticmethod
    def prepare(settings: RmatSettings) -> _Ends:
        """Fix the keys of the draws and the bounds of the quadrants."""
        edge, shuffle = stream_key(settings.seed, "rmat/edge"), stream_key(settings.seed, "rmat/shuffle")
        bounds = np.cumsum([settings.a, settings.b, settings.c]) * 2.0**32
        return _Ends(edge, shuffle, settings.nodes, np.round(bounds).astype(np.uint64))

    def __call__(self, number: int, source: NDArray[np.int64], destination: NDArray[np.int64], start: int, stop: int) -> None:
        """Draw edges number + start … number + stop − 1."""
        _draw_edges(self.key, self.shuffle, self.nodes, self.bounds, number, source, destination, start, stop)


@compiled
def _draw_edges(
    key: np.uint64,
    shuffle: np.uint64,
    nodes: int,
    bounds: NDArray[np.uint64],
    number: int,
    source: NDArray[np.int64],
    destination: NDArray[np.int64],
    start: int,
    stop: int,
) -> None:
    levels = 0
    while nodes - 1 >> levels:
        levels += 1
    for i in range(start, stop):
        row = column = nodes
        slot = 0
        while row >= nodes or column >= nodes:
            row = column = 0
            for level in range(levels):
                if level % 2 == 0:  # 64 bits do for two levels
                    bits = draw(key, number + i, slot)
                    slot += 1
                part = bits & _LOW
                bits >>= _HALF
                row = 2 * row + (part >= bounds[1])
                column = 2 * column + ((part >= bounds[0]) & (part < bounds[1]) | (part >= bounds[2]))
        source[i] = shuffled(shuffle, row, nodes)
        destination[i] = shuffled(shuffle, column, nodes)
