"""Clusters inside parts, found by streaming, for assignments that say nothing about which nodes belong together.

Rows that are used together should lie together: a sum over neighbours then runs from the cache (up to twice the speed). Each
level is Hollocou's streaming clustering with a volume cap, on the clusters of the level below; cross-part edges are
left out. Sorting by the top level first puts little clusters inside middle ones inside large ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.core.errors import InputError
from starling.core.progress import SILENT, Progress
from starling.kernels.partition.clustering import CLUSTER, DEGREE, cluster_edges
from starling.kernels.radix import invert, stable_order
from starling.store.sharding.survey import Survey
from starling.stream.edges import EdgeStream

_LEVELS = ((16, 2), (256, 1), (4096, 1))
"""Volume cap in average nodes, and passes over the edges; each level's clusters are the next one's nodes."""


def streamed_locality(
    stream: EdgeStream, owner: NDArray[np.int32], survey: Survey, *, progress: Progress = SILENT
) -> NDArray[Any]:
    """A rank for every node [V] such that the nodes of one cluster of one part stand together.

    Four passes over the edges, about 24 bytes a node.
    """
    nodes = stream.nodes
    if nodes > np.iinfo(np.int32).max:
        raise InputError(f"Clustering inside parts numbers nodes with 32 bits; this graph has {nodes:,}.")
    mean = max(1.0, 2 * stream.edges / max(nodes, 1))
    weight: NDArray[Any] | None = None
    clusters: list[NDArray[np.int32]] = []  # of each node, level by level
    below = np.arange(nodes, dtype=np.int32)
    with progress.task("Clustering inside parts", stream.edges * sum(passes for _, passes in _LEVELS)) as task:
        for size, passes in _LEVELS:
            cap = int(size * mean)
            rows = np.empty((nodes, 2), np.int32)
            rows[:, CLUSTER] = np.arange(nodes)
            # A node heavier than the cap stays alone whatever its weight, so weights above it need no more bits.
            if weight is None:
                rows[:, DEGREE] = np.minimum(survey.in_degree, cap + 1)
                rows[:, DEGREE] += np.minimum(survey.out_degree, cap + 1)
            else:
                rows[:, DEGREE] = weight
            weight = rows[:, DEGREE].copy()  # from here on the volume of each cluster: the weights of the next level
            for _ in range(passes):
                for block in stream.blocks():
                    inner = np.empty((len(block.pairs), 2), np.int32)
                    count = _inner_pairs(block.pairs, owner, below, inner)
                    cluster_edges(inner[:count], rows, weight, cap)
                    task.advance(len(block.pairs))
            below = rows[:, CLUSTER][below]
            clusters.append(below)
    return _rank_by_levels(clusters)


def _rank_by_levels(clusters: list[NDArray[np.int32]]) -> NDArray[Any]:
    """The rank of each node when sorted by its cluster on the highest level, then the next lower, and so on."""
    order = None
    for cluster in clusters:
        order = stable_order(cluster, len(cluster), order)
    assert order is not None
    rank = np.empty_like(order)
    invert(order, rank)
    return rank


@compiled
def _inner_pairs(pairs: NDArray[Any], owner: NDArray[np.int32], cluster: NDArray[np.int32], inner: NDArray[np.int32]) -> int:
    """The clusters at the ends of each edge inside one part, to the front of `inner`; returns how many."""
    count = 0
    for i in range(len(pairs)):
        source, destination = pairs[i, 0], pairs[i, 1]
        if owner[source] == owner[destination]:
            inner[count, 0] = cluster[source]
            inner[count, 1] = cluster[destination]
            count += 1
    return count
