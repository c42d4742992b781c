"""The edges of a layer that were taken, a sample or what is heard of, kept as entries of the whole graph's lists.

A copy would also have its neighbours, renumbered, and the same again split by owner. What is kept instead is the map from the
graph's rows to the layer's, by which neighbours are looked up as they are read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.engine.hybrid.layers.edges import stands_for
from starling.engine.hybrid.layers.split_edges import PeerEdges, SplitEdges
from starling.engine.hybrid.messages.traffic import Traffic
from starling.engine.hybrid.planning.looked_up_edges import LookedUpEdges
from starling.engine.hybrid.share.worker_graph import WorkerGraph
from starling.kernels.adjacency import Adjacency, run_edges
from starling.kernels.sampling import Taken
from starling.kernels.taken import TakenLists
from starling.nn.graph import LocalGraph
from starling.nn.later_graph import TakenGraphInPlace, Unlisted
from starling.plan.batch import Block


class TakenEdges(LookedUpEdges[TakenLists]):
    """The in-edges that were `taken` of the first rows of a layer, out of the lists of the worker's `whole` graph.

    `place` is where each of the graph's rows stands in the layer, and `traffic` tells which of these come from whom.
    """

    def __init__(self, whole: Adjacency, taken: Taken, place: NDArray[np.int32], traffic: Traffic) -> None:
        super().__init__(len(taken.entry))
        self._whole, self._place, self._traffic, self._row_scale = whole, place, traffic, taken.row_scale
        self._offsets, self._taken, self._edge_scale = taken.offsets, taken.entry, taken.edge_scale

    @cached_property
    def lists(self) -> TakenLists:
        """Of all destinations."""
        lists, neighbours = (self._offsets, self._taken), self._whole.neighbours
        return TakenLists(*lists, neighbours, self._place, self._traffic.rows, scales=self._edge_scale)

    def graph(self, known: Unlisted, listed: Callable[[Block], LocalGraph]) -> LocalGraph:
        """Whose edges kernels read in place."""
        if self._row_scale is not None:
            known = replace(known, row_tables={**known.row_tables, "row_scale": torch.from_numpy(self._row_scale)})
        return TakenGraphInPlace(known, self.count, lambda: listed(self.block), self)

    def stands_for(self) -> NDArray[np.float32]:
        """From the scales."""
        return stands_for(self._offsets, self._edge_scale)

    def _split(self, *, numbered: bool) -> SplitEdges[TakenLists]:
        """No list is made but of who hears from whom: each owner's rows are those of its columns."""
        traffic, lists = self._traffic, self.lists
        columns = [traffic.mirrors_of(worker) for worker in range(len(traffic.send))]
        hears = np.zeros((len(columns), lists.rows), np.bool_)
        run_edges(lists, 1, 1, _mark_owners, np.array([span.start for span in columns] + [traffic.rows]), hears)
        heard = ((peer, np.flatnonzero(hears[peer])) for peer in range(len(columns)))
        peers = {peer: self._from(columns[peer], rows, numbered) for peer, rows in heard if len(rows)}
        return SplitEdges(lists.from_columns(0, traffic.owned, numbered=numbered), peers)

    def _from(self, span: slice, rows: NDArray[np.int64], numbered: bool) -> PeerEdges[TakenLists]:
        """What some rows hear from the columns of a worker; on the way back these are a stretch of all columns."""
        some, every = (
            lists.from_columns(span.start, span.stop, numbered=numbered) for lists in (self.lists.of_rows(rows), self.lists)
        )
        return PeerEdges(rows, some, every.rows, turned=lambda: every.transposed)

    def _copy(self) -> Block:
        neighbours = self._place[self._whole.neighbours[self._taken]]
        return Block(self._offsets, neighbours, self._taken, self._traffic.rows, self._row_scale, self._edge_scale)


def worth_a_map(graph: WorkerGraph, edges: int) -> bool:
    """Whether the map, 4 bytes a row of the graph, takes no more than the neighbours' list that it stands for, 4 bytes an edge."""
    return edges >= graph.rows


@compiled
def _mark_owners(
    begin: NDArray[np.int64],
    end: NDArray[np.int64],
    owner: NDArray[np.int64],
    limit: int,
    neighbours: NDArray[np.int32],
    edges: NDArray[Any],
    starts: NDArray[np.int64],
    hears: NDArray[np.bool_],
    start: int,
    stop: int,
) -> None:
    """Mark from whom each row hears beside own rows; worker w's columns are starts[w] … starts[w + 1] − 1."""
    worker = 0
    for item in range(start, stop):
        if end[item] - begin[item] > limit:
            continue
        row = owner[item] if len(owner) else item
        for k in range(begin[item], end[item]):
            column = neighbours[k]
            if column >= starts[0]:
                if not starts[worker] <= column < starts[worker + 1]:
                    worker = np.searchsorted(starts, column, side="right") - 1
                hears[worker, row] = True
