"""A degree-corrected block model: power-law degrees, communities, and features that only neighbours make clear."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from starling.core.compile import compiled
from starling.core.keyed import draw_unit, stream_key
from starling.stream.generators.alias import fill_alias, pick
from starling.stream.generators.contract import DrawnEdges, GeneratorSettings, Split
from starling.stream.generators.nodes import Classes, GeneratedNodes
from starling.stream.raw import RawGraph

_UNIT = 256.0  # weights are whole numbers of 256ths, so that sums are exact


class DcsbmSettings(GeneratorSettings):
    """The graph of ``starling demo`` by default."""

    classes: int = Field(20, ge=1, le=2**20, description="Communities; a node's community is its label.")
    features: int = Field(64, ge=0, description="Width of the feature rows; 0 for none.")
    mix: float = Field(0.2, ge=0, le=1, description="Share of edges that ignore the communities.")
    exponent: float = Field(2.5, gt=1, le=20, description="Of the power law of the degrees.")
    signal: float = Field(0.15, ge=0, le=1e6, description="How clearly a node's own features tell its class.")
    split: Split = Field((60, 20, 20), description="Percentages of train/val/test nodes.")
    order: Literal["random", "community"] = Field(
        "random", description="Whether neighbouring ids say nothing, or ids go community by community."
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.classes > self.nodes:
            raise ValueError(f"expected at most as many classes as nodes ({self.nodes:,}), got {self.classes:,}")
        return self


def dcsbm(settings: DcsbmSettings) -> RawGraph:
    """Draw ``edges / 2`` undirected edges between nodes of random classes, most of them inside a class.

    A node has a class and a Pareto weight (density exponent `exponent`, capped at √nodes). An edge takes its first end in
    proportion to weight and its second likewise, from the first's class or, with probability `mix`, from all nodes. Repeated
    draws and self-loops are dropped by the import, so somewhat fewer than `edges` directed edges are stored.
    Of the default graph 950,440 stay.

    A feature row is `signal` times the class's Gaussian centre plus unit Gaussian noise: weak alone, strong when averaged.
    On the default graph a linear classifier gets 29 % of the test nodes right from `x`, and 87 % from the mean of the
    neighbours' `x`. Memory: 12 bytes a node and one block. After Karrer and Newman (Physical Review E 83, 2011).
    """
    classes = Classes.draw(settings.seed, settings.nodes, settings.classes, sorted_=settings.order == "community")
    return RawGraph(
        edges=DrawnEdges(settings.edges // 2, _Ends.prepare(settings, classes)),
        tables=(GeneratedNodes(classes, settings.features, settings.signal, settings.split, settings.seed),),
        nodes=settings.nodes,
        directed=False,
        origin={"generator": "dcsbm", **settings.model_dump()},
    )


@dataclass(frozen=True)
class _Ends:
    """Where the two ends of an edge are drawn from: an alias table of the classes, and one of each class's nodes.

    The nodes' tables stand one after the other in class order; that of class c begins at row ``first[c]``.
    """

    key: np.uint64
    mix: float
    classes: NDArray[np.uint32]
    first: NDArray[np.int64]
    nodes: NDArray[np.uint32]

    @staticmethod
    def prepare(settings: DcsbmSettings, classes: Classes) -> _Ends:
        """Weigh the nodes and build the tables."""
        key = stream_key(settings.seed, "dcsbm/weight")
        power, most = 1.0 / (settings.exponent - 1.0), settings.nodes**0.5
        nodes, first = classes.in_class_order(), classes.first
        table = np.empty((settings.nodes, 3), np.uint32)
        total = np.zeros(settings.classes, np.int64)
        for c, (start, stop) in enumerate(itertools.pairwise(first.tolist())):
            weights = np.empty(stop - start, np.int64)
            _fill_pareto(key, nodes[start:stop], power, most, weights)
            fill_alias(weights, nodes[start:stop], table[start:stop])
            total[c] = weights.sum()
        class_table = np.empty((settings.classes, 3), np.uint32)
        fill_alias(total, np.arange(settings.classes, dtype=np.int32), class_table)
        return _Ends(stream_key(settings.seed, "dcsbm/edge"), settings.mix, class_table, first, table)

    def __call__(self, number: int, source: NDArray[np.int64], destination: NDArray[np.int64], start: int, stop: int) -> None:
        """Draw edges number + start … number + stop − 1."""
        _draw_edges(self.key, self.mix, self.classes, self.first, self.nodes, number, source, destination, start, stop)


@compiled
def _fill_pareto(key: np.uint64, nodes: NDArray[np.int32], power: float, most: float, weights: NDArray[np.int64]) -> None:
    for i in range(len(nodes)):
        weights[i] = round(_UNIT * min((1.0 - draw_unit(key, nodes[i], 0)) ** -power, most))


@compiled
def _draw_edges(
    key: np.uint64,
    mix: float,
    classes: NDArray[np.uint32],
    first: NDArray[np.int64],
    nodes: NDArray[np.uint32],
    number: int,
    source: NDArray[np.int64],
    destination: NDArray[np.int64],
    start: int,
    stop: int,
) -> None:
    for i in range(start, stop):
        edge = number + i
        own = pick(classes, 0, len(classes), draw_unit(key, edge, 0))
        source[i] = pick(nodes, first[own], first[own + 1] - first[own], draw_unit(key, edge, 1))
        if draw_unit(key, edge, 2) < mix:
            own = pick(classes, 0, len(classes), draw_unit(key, edge, 3))
        destination[i] = pick(nodes, first[own], first[own + 1] - first[own], draw_unit(key, edge, 4))
