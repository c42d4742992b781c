"""The edges of a planned layer without a copy: the whole graph's lists, read through a map from its rows to those of the layer.

A copy would be made in several passes (taken, renumbered, split by owner, turned), each of 4 to 8 bytes an edge. The map is 4 bytes
a row of the graph, so small layers are copied.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from starling.engine.hybrid.layers.plan import ActiveRows
from starling.engine.hybrid.layers.split_edges import PeerEdges, SplitEdges
from starling.engine.hybrid.share.worker_graph import WorkerGraph
from starling.kernels.mapped import MappedLists, SeenFrom, entries_of, map_lists, shifts

_MOST_SKIPPED = 6
"""Entries of the sources' lists for each edge of the layer, above which looking through them costs more than a copy."""


@dataclass(frozen=True, eq=False)
class LayerInPlace:
    """All edges that are here of a layer, numbered list by list, as those of a copy would be.

    `hearing` are the graph's rows that have lists in the layer: one for each destination, −1 for those that hear from nobody here.
    `place` is where each of the graph's rows stands among the active ones; it is below zero for others.
    """

    graph: WorkerGraph
    hearing: NDArray[np.int64]
    active: ActiveRows
    place: NDArray[np.int32]

    @cached_property
    def lists(self) -> MappedLists:
        """Of all destinations, hearing from all active rows."""
        return map_lists(self.graph.adjacency, self.hearing, self.place, SeenFrom(self.active.rows, self._destination))

    def split(self, *, numbered: bool) -> SplitEdges[MappedLists]:
        """The edges by the owner of their source."""
        return self._numbered if numbered else self._unnumbered

    @cached_property
    def _unnumbered(self) -> SplitEdges[MappedLists]:
        return self._split(numbered=False)

    @cached_property
    def _numbered(self) -> SplitEdges[MappedLists]:
        return self._split(numbered=True)

    def _split(self, *, numbered: bool) -> SplitEdges[MappedLists]:
        graph, active, place, destination = self.graph, self.active, self.place, self._destination
        destinations = len(self.hearing)
        whole = graph.whole_layer.split(numbered=numbered)
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
                back = MappedLists(theirs.backward, rows, destination, destinations, shift, by_place=True)
                there = place[mirrors] - np.int32(here.start)
                forward = MappedLists(theirs.forward, chosen, there, len(rows), None if shift is None else shift[mine])
                peers[peer] = PeerEdges(mine, forward, destinations, turned=back)
        return SplitEdges(inner, peers)

    @property
    def entries(self) -> NDArray[np.int64]:
        """Of each edge its place in the graph's lists: edge tables are read by it."""
        return entries_of(self.graph.incoming.offsets, self.hearing)

    def excerpt(self, rows: NDArray[np.int64], sources: NDArray[np.int64]) -> SomeInPlace:
        """Some destinations, hearing from `sources` alone, both numbered anew."""
        return SomeInPlace(self.lists.excerpt(rows, sources))

    @cached_property
    def _shift(self) -> NDArray[np.int64]:
        """From an edge's number in the graph to that in the layer, by destination."""
        return shifts(self.graph.incoming.offsets, self.hearing)

    @cached_property
    def _destination(self) -> NDArray[np.int32]:
        """`place` of the rows that hear. Where these are the first, later places are known to be no destination's."""
        if not self.graph.spread:
            return self.place
        destination = np.full(len(self.place), -1, np.int32)
        destination[self.hearing[self.hearing >= 0]] = np.flatnonzero(self.hearing >= 0)
        return destination


@dataclass(frozen=True, eq=False)
class SomeInPlace:
    """The edges of some destinations of a layer."""

    lists: MappedLists

    @property
    def entries(self) -> NDArray[np.int64]:
        """Of each edge its place in the graph's lists."""
        return entries_of(self.lists.lists.offsets, self.lists.chosen)

    def excerpt(self, rows: NDArray[np.int64], sources: NDArray[np.int64]) -> SomeInPlace:
        """Some of these."""
        return SomeInPlace(self.lists.excerpt(rows, sources))


def in_place(
    graph: WorkerGraph, given: NDArray[np.int64], active: ActiveRows, place: NDArray[np.int32], edges: int
) -> LayerInPlace | None:
    """The layer of all in-edges that are here of the rows `given`; None where a copy is cheaper."""
    if edges < graph.rows or int(graph.heard_here[active.rows].sum()) > _MOST_SKIPPED * edges:
        return None
    if not graph.spread:
        return LayerInPlace(graph, given, active, place)
    hearing = np.full(len(active.rows), -1, np.int64)
    hearing[place[given]] = given
    return LayerInPlace(graph, hearing, active, place)
