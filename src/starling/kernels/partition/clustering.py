"""Streaming clustering (Hollocou et al.): each edge moves one end into the other's cluster, the one with more volume.

Every node founds a cluster that bears its number. (Founding it when the node is first seen, as the papers write, is the
same: nobody can join a cluster none of whose nodes was seen.)

The state of 10 M nodes fits no cache, and each edge depends on the one before it, so the loops here and in the files beside ask
for the state of edges to come while they work: many cache misses are waited for at once. That makes them three times as fast.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.kernels.machine import prefetch

CLUSTER, DEGREE, RICHEST, RICHEST_DEGREE = 0, 1, 2, 3
"""Columns of a node's row: all of its state in one cache line. The last two are SPRING's."""

AHEAD = 16
"""How many edges ahead a node's state is asked for; what it points to follows half-way."""


@compiled
def fetch_clusters(pairs: NDArray[np.int32], i: int, rows: NDArray[np.int32], volume: NDArray[np.integer]) -> None:
    """Ask for the rows of an edge to come after edge i, and the volumes of the clusters of a nearer one."""
    far, near = min(i + AHEAD, len(pairs) - 1), min(i + AHEAD // 2, len(pairs) - 1)
    for side in range(2):
        prefetch(rows, np.int64(pairs[far, side]) * rows.shape[1])
        prefetch(volume, np.int64(rows[pairs[near, side], CLUSTER]))


@compiled
def cluster_edges(pairs: NDArray[np.int32], rows: NDArray[np.int32], volume: NDArray[np.integer], threshold: int) -> None:
    """One block of the stream; `rows` is [V, 2 or more] (CLUSTER, DEGREE)."""
    for i in range(len(pairs)):
        fetch_clusters(pairs, i, rows, volume)
        join_ends(pairs[i, 0], pairs[i, 1], rows, volume, threshold)


@compiled
def join_ends(u: int, v: int, rows: NDArray[np.int32], volume: NDArray[np.integer], threshold: int) -> None:
    """Move the end whose cluster has less volume into the other's cluster, unless one of them is above the threshold."""
    a, b = rows[u, CLUSTER], rows[v, CLUSTER]
    if a == b or volume[a] > threshold or volume[b] > threshold:
        return
    if volume[a] <= volume[b]:
        volume[a] -= rows[u, DEGREE]
        volume[b] += rows[u, DEGREE]
        rows[u, CLUSTER] = b
    else:
        volume[a] += rows[v, DEGREE]
        volume[b] -= rows[v, DEGREE]
        rows[v, CLUSTER] = a
