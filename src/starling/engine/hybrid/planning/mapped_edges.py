"""The edges of a planned layer without a copy: the whole graph's lists, read through a map from its rows to those of the layer.

A copy would be made in several passes (taken, renumbered, split by owner, turned), each of 4 to 8 bytes an edge. The map is 4 bytes
a row of the graph, so small layers are copied.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from starling.engine.hybrid.layers.plan import ActiveRows
from starling.engine.hybrid.layers.split_edges import PeerEdges, SplitEdges
from starling.engine.hybrid.planning.looked_up_edges import LookedUpEdges
from starling.engine.hybrid.share.worker_graph import WorkerGraph
from starling.kernels.looked_up import shifts
from starling.kernels.mapped import MappedLists, SeenFrom, map_lists
from starling.plan.batch import Block

_MOST_SKIPPED = 6
"""Entries of the sources' lists for each edge of the layer, above which looking through them costs more than a copy."""


class MappedEdges(LookedUpEdges[MappedLists]):
    """All `count` in-edges that are here of the rows `given`, numbered list by list, as those of a copy would be.

    `hearing` are the graph's rows that have lists in the layer: one for each destination, −1 for those that hear from nobody here.
    `place` is where each of the graph's rows stands among the active ones; it is below zero for others. `listed` makes the copy.
    """

    def __init__(
        self,
        graph: WorkerGraph,
        given: NDArray[np.int64],
        active: ActiveRows,
        place: NDArray[np.int32],
        count: int,
        listed: Callable[[], Block],
    ) -> None:
        super().__init__(count)
        self._whole, self._active, self._place, self._list, self.hearing = graph, active, place, listed, given
        if graph.spread:
            self.hearing = np.full(len(active.rows), -1, np.int64)
            self.hearing[place[given]] = given

    @cached_property
    def lists(self) -> MappedLists:
        """Of all destinations, hearing from all active rows."""
        return map_lists(self._whole.adjacency, self.hearing, self._place, SeenFrom(self._active.rows, self._destination))

    def _copy(self) -> Block:
        return self._list()

    def _split(self, *, numbered: bool) -> SplitEdges[MappedLists]:
        graph, active, place, destination = self._whole, self._active, self._place, self._destination
        destinations = len(self.hearing)
        whole = graph.whole_layer.edges.split(numbered=numbered)
        shift = self._shift if numbered else None
        seen_from = SeenFrom(active.reads, destination)
        inner = MappedLists(whole.inner, self.hearing, place, len(active.reads), shift, seen_from=seen_from)
        peers = {}
        for peer, theirs in whole.peers.items():
            listed = destination[theirs.rows]
            chosen = np.flatnonzero((listed >= 0) & (listed < destinations))
            if len(chosen):
                mirrors, here = graph.traffic.mirrors_of(peer), active.traffic.mirrors_of(peer)
                rows, mine = active.rows[here] - mirrors.start, listed[chosen].astype(np.int64)
                back = partial(MappedLists, theirs.backward, rows, destination, destinations, shift, by_place=True)
                there = place[mirrors] - np.int32(here.start)
                forward = MappedLists(theirs.forward, chosen, there, len(rows), None if shift is None else shift[mine])
                peers[peer] = PeerEdges(mine, forward, destinations, turned=back)
        return SplitEdges(inner, peers)

    @cached_property
    def _shift(self) -> NDArray[np.int64]:
        """From an edge's number in the graph to that in the layer, by destination."""
        return shifts(self._whole.incoming.offsets, self.hearing)

    @cached_property
    def _destination(self) -> NDArray[np.int32]:
        """`place` of the rows that hear. Where these are the first, later places are known to be no destination's."""
        if not self._whole.spread:
            return self._place
        destination = np.full(len(self._place), -1, np.int32)
        destination[self.hearing[self.hearing >= 0]] = np.flatnonzero(self.hearing >= 0)
        return destination


def worth_reading_in_place(graph: WorkerGraph, active: ActiveRows, edges: int) -> bool:
    """Whether a layer of so many edges between active rows is read in place; where not, a copy is cheaper."""
    return edges >= graph.rows and int(graph.heard_here[active.rows].sum()) <= _MOST_SKIPPED * edges
