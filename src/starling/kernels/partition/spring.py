"""SPRING's loops; numbers in comments are the lines of Algorithm 1 in CATGNN."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.kernels.partition.clustering import CLUSTER, DEGREE, RICHEST, RICHEST_DEGREE, fetch_clusters, join_ends
from starling.kernels.partition.heap import drop_smallest, replace_smallest


@compiled
def cluster_and_note_richest(
    pairs: NDArray[np.int32], rows: NDArray[np.int32], volume: NDArray[np.integer], threshold: int
) -> None:
    """Lines 2–21 for one block; `rows` is [V, 4], RICHEST −1 and RICHEST_DEGREE −1 where no neighbour was seen."""
    for i in range(len(pairs)):  # 2
        fetch_clusters(pairs, i, rows, volume)
        u, v = pairs[i, 0], pairs[i, 1]
        join_ends(u, v, rows, volume, threshold)  # 9–17; 3–8 happened at the start
        if rows[u, RICHEST_DEGREE] < rows[v, DEGREE]:  # 18
            rows[u, RICHEST], rows[u, RICHEST_DEGREE] = v, rows[v, DEGREE]  # 19
        if rows[v, RICHEST_DEGREE] < rows[u, DEGREE]:  # 20
            rows[v, RICHEST], rows[v, RICHEST_DEGREE] = u, rows[u, DEGREE]  # 21


@compiled
def find_representatives(rows: NDArray[np.int32], size: NDArray[np.int32], representative: NDArray[np.int32]) -> None:
    """Lines 22–24, and the clusters' sizes: r(i) is the node of cluster i whose richest neighbour is richest."""
    for v in range(len(rows)):
        i = rows[v, CLUSTER]
        size[i] += 1
        r = representative[i]
        if rows[v, RICHEST] >= 0 and (r < 0 or rows[r, RICHEST_DEGREE] < rows[v, RICHEST_DEGREE]):
            representative[i] = v


@compiled
def merge_clusters(
    rows: NDArray[np.int32],
    size: NDArray[np.int32],
    representative: NDArray[np.int32],
    ascending: NDArray[np.int64],
    largest: int,
    into: NDArray[np.int32],
) -> int:
    """Lines 26–29: from the smallest cluster up, merge each where its representative's richest neighbour is.

    `ascending` holds ``size << 31 | cluster`` of the non-empty clusters, sorted (line 25), and is used up as a heap: a merged
    cluster goes back in at its new rank, and its old entry, whose size is no longer true, is skipped. Each round takes one
    entry out and puts at most one in, so the heap never grows. `into` [V] starts as 0 … V − 1 and ends with the cluster that
    each cluster became part of (follow it to its end). Returns the number of mergers.
    """
    low_bits = (1 << 31) - 1
    left = len(ascending)
    merged = 0
    while left > 0:  # 26
        i = ascending[0] & low_bits
        if size[i] != ascending[0] >> 31 or representative[i] < 0:
            left = drop_smallest(ascending, left)
            continue
        t = last_of(into, rows[rows[representative[i], RICHEST], CLUSTER])  # 27
        if i == t or size[i] + size[t] > largest:  # 28
            left = drop_smallest(ascending, left)
            continue
        into[i] = t  # 29
        size[t] += size[i]
        size[i] = 0
        merged += 1
        if representative[t] < 0 or rows[representative[t], RICHEST_DEGREE] < rows[representative[i], RICHEST_DEGREE]:
            representative[t] = representative[i]
        replace_smallest(ascending, left, size[t] << 31 | t)
    return merged


@compiled
def last_of(into: NDArray[np.int32], cluster: int) -> int:
    """The cluster that `cluster` is now part of; halves the way there for the next time."""
    while into[cluster] != cluster:
        into[cluster] = into[into[cluster]]
        cluster = into[cluster]
    return cluster


@compiled
def settle(into: NDArray[np.int32]) -> None:
    """Point each cluster straight at the one it is part of."""
    for cluster in range(len(into)):
        into[cluster] = last_of(into, cluster)
