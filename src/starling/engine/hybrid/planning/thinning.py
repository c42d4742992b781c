"""Boundary sampling of whole layers, an epoch at the cost of the edges between parts that stay.

All edges from one node to another part stay or go together, and lie together when edges are seen from their sources. So an epoch
draws once for each such list and copies those that stay; edges within parts are split off once and never touched.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.core.keyed import draw_unit
from starling.engine.hybrid.layers.edges import ThinnedEdges
from starling.engine.hybrid.layers.plan import WorkerLayer
from starling.engine.hybrid.layers.split_edges import PeerEdges, SplitEdges, split_within_parts
from starling.engine.hybrid.messages.traffic import make_traffic
from starling.engine.hybrid.planning.boundary import NO_CHANCES, Boundary, chance_of
from starling.kernels.adjacency import NO_NUMBERS, Adjacency
from starling.kernels.csr import csr_from_pairs
from starling.plan.batch import Block


class Thinning:
    """Thins the layer of a worker's whole graph; `boundary` says by what chance."""

    def __init__(self, boundary: Boundary) -> None:
        self._graph, self._boundary = boundary.graph, boundary

    @cached_property
    def _whole(self) -> SplitEdges[Adjacency]:
        """All edges: within parts, from own rows of other parts, from each worker's mirrors."""
        graph = self._graph
        if len(graph.shards) <= 1:
            return graph.whole_split
        return split_within_parts(graph.incoming.offsets, graph.incoming.neighbours, graph.traffic, graph.part[: graph.owned])

    def layer(self, epoch: int, listed: Callable[[], Block]) -> WorkerLayer:
        """The layer of an epoch; `listed` makes its neighbour lists should something need them."""
        graph, whole, full = self._graph, self._whole, self._graph.traffic
        keys = self._boundary.keys(epoch)
        between = None if whole.between is None else self._stay(whole.between, 0, keys)[1]
        peers, heard, counts = {}, [np.arange(graph.owned)], [0] * len(full.send)
        for peer, edges in whole.peers.items():
            start = full.mirrors_of(peer).start
            mirrors, left = self._stay(edges, start, keys)
            heard.append(start + mirrors)
            counts[peer] = len(mirrors)
            if left is not None:
                peers[peer] = _renumbered(left, mirrors)
        there = [edges for edges in (between, *peers.values()) if edges is not None]
        count = len(whole.inner.neighbours) + sum(len(edges.forward.neighbours) for edges in there)
        traffic = make_traffic(graph.owned, self._boundary.wanted(epoch), counts)
        thinned = ThinnedEdges(SplitEdges(whole.inner, peers, between), count, traffic, listed)
        return WorkerLayer(thinned, np.concatenate(heard), graph.owned, traffic)

    def _stay(
        self, edges: PeerEdges[Adjacency], first: int, keys: NDArray[np.uint64]
    ) -> tuple[NDArray[np.int64], PeerEdges[Adjacency] | None]:
        """Of sources from row `first` on: those that are heard of, ascending, and their edges that stay; None for none."""
        graph, boundary, turned = self._graph, self._boundary, edges.backward
        position = graph.position[first : first + turned.rows]
        lists = (turned.offsets, turned.neighbours, graph.part, position, keys, first, boundary.probability, *boundary.pairs)
        stays = np.empty(turned.rows, np.int64)
        _find_staying(*lists, stays, np.empty((0, 2), np.int32), NO_CHANCES)
        pairs = np.empty((int(stays.sum()), 2), np.int32)
        scale = np.empty(len(pairs) if boundary.chances is not None else 0, np.float32)
        _find_staying(*lists, stays, pairs, scale)
        if not len(pairs):
            return np.flatnonzero(stays), None
        thinned = csr_from_pairs(pairs, max(turned.rows, edges.destinations))
        lengths = np.diff(thinned.offsets)
        rows = np.flatnonzero(lengths)
        offsets = np.concatenate([[0], np.cumsum(lengths[rows])])
        forward = Adjacency(offsets, thinned.neighbours, turned.rows, NO_NUMBERS, numbered=len(scale) > 0)
        scales = scale[thinned.edge] if len(scale) else 1 / boundary.probability
        return np.flatnonzero(stays), PeerEdges(rows, forward, edges.destinations, scales)


def _renumbered(edges: PeerEdges[Adjacency], mirrors: NDArray[np.int64]) -> PeerEdges[Adjacency]:
    """The same edges with only those mirrors, numbered from 0."""
    number = np.empty(edges.forward.columns, np.int32)
    number[mirrors] = np.arange(len(mirrors), dtype=np.int32)
    forward = edges.forward
    columns = Adjacency(forward.offsets, number[forward.neighbours], len(mirrors), NO_NUMBERS, forward.numbered)
    return PeerEdges(edges.rows, columns, edges.destinations, edges.scale)


@compiled
def _find_staying(
    offsets: NDArray[np.int64],
    destinations: NDArray[np.int32],
    part: NDArray[np.int32],
    position: NDArray[np.int64],
    keys: NDArray[np.uint64],
    first: int,
    probability: float,
    pair_offsets: NDArray[np.int64],
    pair_part: NDArray[np.int32],
    pair_chance: NDArray[np.float32],
    stays: NDArray[np.int64],
    pairs: NDArray[np.int32],
    scale: NDArray[np.float32],
) -> None:
    """How many edges of each source stay, and these as (source, destination), with their scales, where there is room.

    A list is by part, because destinations ascend: a draw for each part in it.
    """
    at = 0
    for source in range(len(stays)):
        stays[source] = 0
        k = offsets[source]
        while k < offsets[source + 1]:
            here, begin = part[destinations[k]], k
            k = _end_of_part(offsets[source + 1], k, destinations, part)
            chance = chance_of(first + source, here, probability, pair_offsets, pair_part, pair_chance)
            if draw_unit(keys[here], position[source], 0) < chance:
                stays[source] += k - begin
                for entry in range(begin, k if len(pairs) else begin):
                    pairs[at, 0] = source
                    pairs[at, 1] = destinations[entry]
                    if len(scale):
                        scale[at] = 1.0 / chance
                    at += 1


@compiled
def _end_of_part(end: int, begin: int, destinations: Any, part: Any) -> int:
    """Where the run of destinations in one part ends that begins at `begin`: mostly at the end of the list."""
    here = part[destinations[begin]]
    if part[destinations[end - 1]] == here:
        return end
    k = begin + 1
    while part[destinations[k]] == here:
        k += 1
    return k
