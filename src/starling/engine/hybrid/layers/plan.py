"""One step of a team: what each layer computes here, and which rows move for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from starling.core.once import lock_of
from starling.engine.hybrid.layers.row_groups import RowGroup, row_groups
from starling.engine.hybrid.layers.split_edges import SplitEdges, split_edges, sums_of_lists
from starling.engine.hybrid.messages.traffic import Traffic
from starling.kernels.adjacency import Adjacency
from starling.nn.graph import LocalGraph
from starling.nn.later_graph import EdgesInPlace
from starling.nn.view import Size
from starling.plan.batch import Block


class SplitInPlace(EdgesInPlace, Protocol):
    """A layer's edges, read where the whole graph's lie (`whole_lists.py`)."""

    def split(self, *, numbered: bool) -> SplitEdges[Any]:
        """By the owner of their source."""


@dataclass(frozen=True, eq=False)
class WorkerLayer:
    """One layer here. `rows` are the worker's rows behind the block's sources: own ones, destinations first, then mirrors.

    `outputs` own rows are destinations. In an edge-cut these are all of the block's; in a vertex-cut the block has a list for
    every row, mirrors included, since their in-edges are spread over workers.
    """

    listed: Callable[[], Block]
    """Makes the block. A layer that is thinned, or read in place, may never list its edges."""
    rows: NDArray[Any]
    outputs: int
    traffic: Traffic
    edges: int
    thinned: SplitEdges[Adjacency] | None = None
    """What `split` gives where edges are left out, with scales that make up for them, known without the block."""
    in_place: SplitInPlace | None = None
    """Where the edges are not listed for the layer unless somebody asks for that."""

    @cached_property
    def block(self) -> Block:
        """The edges as neighbour lists."""
        return self.listed()

    def edges_by_row(self) -> tuple[NDArray[np.int64], NDArray[Any] | None]:
        """Where each list begins, and of each edge its place in the graph's lists, by which edge tables are read; None for all."""
        if self.in_place is not None:
            return self.in_place.lists.offsets, self.in_place.entries
        block = self.block
        return block.offsets, block.edge if len(block.edge) == len(block.neighbours) else None

    def split(self, *, numbered: bool) -> SplitEdges[Any]:
        """The edges by the owner of their source, with their numbers where edges have values of their own; made once."""
        if self.thinned is not None and not numbered:
            return self.thinned
        if self.in_place is not None:
            return self.in_place.split(numbered=numbered)
        with lock_of(self):
            kept: SplitEdges[Any] | None = self.__dict__.get("_split")
            if kept is None or (numbered and not kept.inner.numbered):
                kept = split_edges(self.block.offsets, self.block.neighbours, self.traffic, numbered=numbered)
                self.__dict__["_split"] = kept
            return kept

    def stands_for(self) -> NDArray[np.float32]:
        """How many edges those of each destination stand for together: some may make up for others that are left out."""
        if self.thinned is not None:
            return self.thinned.stands_for()
        offsets, scale = self.block.offsets, self.block.edge_scale
        return np.diff(offsets).astype(np.float32) if scale is None else sums_of_lists(scale, offsets)

    def groups(self, graph: LocalGraph, senders: Sequence[int]) -> tuple[RowGroup, ...]:
        """The destinations by whom of the `senders` they wait for; made once, since graph and senders are always this layer's."""
        if "_groups" not in self.__dict__:
            self.__dict__["_groups"] = row_groups(graph, self.traffic, senders)
        kept: tuple[RowGroup, ...] = self.__dict__["_groups"]
        return kept

    @property
    def size(self) -> Size:
        """This worker's share of the layer's rows and edges; an own row counts where it is owned."""
        return Size(self.traffic.owned, self.outputs, self.edges)


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
    return WorkerLayer(lambda: block, rows, outputs, traffic, len(block.neighbours))


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
