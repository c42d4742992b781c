"""One step of a team: what each layer computes here, and which rows move for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.engine.hybrid.layers.edges import LayerEdges, ListedEdges
from starling.engine.hybrid.layers.row_groups import RowGroup, row_groups
from starling.engine.hybrid.messages.traffic import Traffic
from starling.nn.graph import LocalGraph
from starling.nn.view import Size
from starling.plan.batch import Block


@dataclass(frozen=True, eq=False)
class WorkerLayer:
    """One layer here. `rows` are the worker's rows behind the block's sources: own ones, destinations first, then mirrors.

    `outputs` own rows are destinations. In an edge-cut these are all of the block's; in a vertex-cut the block has a list for
    every row, mirrors included, since their in-edges are spread over workers.
    """

    edges: LayerEdges
    rows: NDArray[Any]
    outputs: int
    traffic: Traffic

    def groups(self, graph: LocalGraph, senders: Sequence[int]) -> tuple[RowGroup, ...]:
        """The destinations by which of the `senders` they wait for; made once, since graph and senders are always this layer's."""
        if "_groups" not in self.__dict__:
            self.__dict__["_groups"] = row_groups(graph, self.traffic, senders)
        kept: tuple[RowGroup, ...] = self.__dict__["_groups"]
        return kept

    @property
    def size(self) -> Size:
        """This worker's share of the layer's rows and edges; an own row counts where it is owned."""
        return Size(self.traffic.owned, self.outputs, self.edges.count)


@dataclass(frozen=True, eq=False)
class ActiveRows:
    """The worker's rows of one layer: own ones that it `reads`, destinations first, and mirrors, ascending.

    `number` is the place among these of every row that was found, in the order of finding.
    """

    reads: NDArray[Any]
    mirrors: NDArray[Any]
    number: NDArray[np.int32]
    traffic: Traffic

    @cached_property
    def rows(self) -> NDArray[Any]:
        """All of them."""
        return np.concatenate([self.reads, self.mirrors])


def listed_layer(block: Block, rows: NDArray[Any], outputs: int, traffic: Traffic) -> WorkerLayer:
    """A layer whose neighbour lists are there."""
    return WorkerLayer(ListedEdges(block, traffic), rows, outputs, traffic)


@dataclass(frozen=True, eq=False)
class WorkerPlan:
    """A worker's share of one step: layers outermost first. `sizes` and `total_targets` are over all workers.

    `targets` are own rows, `outputs` their places among the last layer's outputs.
    """

    epoch: int
    step: int
    number: int
    """Of this step in the whole run, from 0: messages are tagged with it."""
    layers: tuple[WorkerLayer, ...]
    sizes: tuple[Size, ...]
    targets: NDArray[Any]
    outputs: NDArray[Any]
    total_targets: int
    batch: int = 0
    """Which of the batches, where these are the same in every epoch."""
