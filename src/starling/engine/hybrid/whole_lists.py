"""The edges of a planned layer without a copy: the whole graph's lists, read through a map from its rows to those of the layer.

A copy would be made in several passes (taken, renumbered, split by owner, turned), each of 4 bytes an edge, for lists that are read
twice. The map is 4 bytes a row of the graph, so small layers are copied.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from starling.engine.hybrid.plan import ActiveRows
from starling.engine.hybrid.split_edges import PeerEdges, SplitEdges
from starling.engine.hybrid.worker_graph import WorkerGraph
from starling.kernels.mapped import MappedLists

_MOST_SKIPPED = 6
"""Entries of the sources' lists for each edge of the layer, above which looking through them costs more than a copy."""


def through_map(
    graph: WorkerGraph, own: NDArray[np.int64], active: ActiveRows, place: NDArray[np.int32], edges: int
) -> SplitEdges[MappedLists] | None:
    """All in-edges of the rows `own`, split by the owner of their source; None where a copy is cheaper.

    `place` is where each of the graph's rows stands among the active ones, below zero for others; destinations come first.
    """
    if edges < graph.rows:
        return None
    whole, outputs = graph.whole_split, len(own)
    inner = MappedLists(whole.inner, own, place, len(active.reads))
    turned = MappedLists(whole.inner.transposed_unnumbered, active.reads, place, outputs)
    peers, looked_through = {}, turned.entries
    for peer, theirs in whole.peers.items():
        listed = place[theirs.rows]
        chosen = np.flatnonzero((listed >= 0) & (listed < outputs))
        if len(chosen):
            mirrors, here = graph.traffic.mirrors_of(peer), active.traffic.mirrors_of(peer)
            rows = active.rows[here] - mirrors.start
            forward = MappedLists(theirs.forward, chosen, place[mirrors] - np.int32(here.start), len(rows))
            back = MappedLists(theirs.backward, rows, place, outputs)
            peers[peer] = PeerEdges(listed[chosen].astype(np.int64), forward, outputs, turned=back)
            looked_through += back.entries
    return SplitEdges(inner, peers, turned=turned) if looked_through <= _MOST_SKIPPED * edges else None
