"""`spring`: streaming clusters, merged along their richest neighbours, packed into parts (CATGNN, Algorithm 1)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from starling.core.assignment import Assignment
from starling.kernels.partition.clustering import CLUSTER, RICHEST
from starling.kernels.partition.packing import pack_in_order
from starling.kernels.partition.spring import cluster_and_note_richest, find_representatives, merge_clusters, settle
from starling.partition.clusters import found_clusters
from starling.partition.contract import Partitioner, PartitionTask
from starling.partition.passes import pair_blocks, pass_bytes


class Spring(Partitioner):
    """Algorithm 1 line by line; the numbers in comments, here and in the kernels, are its lines.

    Where the paper leaves a choice:

    - Lines 18–21 (richest neighbours) stand inside the `if` of line 9 in the listing, but the text defines the richest
      neighbour over all neighbours. Read as defined, merging leaves about as many clusters as the paper's Table 2 counts (cora
      95 to its 101, citeseer 441 to 411); read as listed, many more (223 and 533). So: over all neighbours.
    - An undirected connection is one edge of the stream, not two, and self-loops are passed over.
    - "Place at the correct rank": a merged cluster is scanned again at its new size; ties by cluster number.
    - τ_vol is `tau` × 2|E|/p; a cluster above it neither gains nor loses nodes. A larger one means fewer replicas and less even
      parts; 0.25 was the last of the values tried (0.1, 0.25, 0.5, 1) that kept the parts of real graphs about even.

    Two passes, O(|E| + |V| log |V|) time, at most 48 bytes a node.
    """

    name = "spring"
    summary = "streaming clusters, merged along their richest neighbours and packed into parts"
    source = "CATGNN, Algorithm 1"

    class Settings(Partitioner.Settings):
        """Settings of SPRING."""

        tau: float = Field(0.25, gt=0, description="volume above which a cluster stays as it is, as a share of 2|E|/p")
        beta: float = Field(1.05, ge=1, description="the most nodes a merged cluster may have, in multiples of |V|/p")

    settings: Settings

    def memory_needed(self, task: PartitionTask) -> int:
        """Rows of 16 bytes, then sizes, representatives, mergers and the ranking."""
        return 48 * task.edges.nodes + pass_bytes(task.edges)

    def _assign(self, task: PartitionTask) -> Assignment:
        rows = self._cluster(task)
        size, into, merged = self._merge(rows, task.parts)
        first = np.ascontiguousarray(rows[:, CLUSTER])
        isolated = int(np.count_nonzero(rows[:, RICHEST] < 0))  # clusters by nobody's choice, not counted in Table 2 either
        del rows
        clusters = np.flatnonzero(size)
        part = np.empty(len(first), np.int32)
        descending = clusters[np.argsort(-size[clusters], kind="stable")]  # 30
        pack_in_order(descending, size, task.parts, part)  # 31–33
        notes = {"clusters": len(clusters) + merged - isolated, "merged_clusters": len(clusters) - isolated}
        return Assignment("edge-cut", task.parts, part[into[first]], None, nested_order(into)[first], passes=2, notes={**notes})

    def _cluster(self, task: PartitionTask) -> NDArray[np.int32]:
        """Lines 1–21."""
        clusters = found_clusters(task, columns=4)
        threshold = int(min(self.settings.tau * clusters.total / task.parts, clusters.total))
        for pairs in pair_blocks(task.edges, "clustering", task.progress):
            cluster_and_note_richest(pairs, clusters.rows, clusters.volume, threshold)
        return clusters.rows

    def _merge(self, rows: NDArray[np.int32], parts: int) -> tuple[NDArray[np.int32], NDArray[np.int32], int]:
        """Lines 22–29: sizes after merging, the cluster each cluster went into, the number of mergers."""
        size, representative = np.zeros(len(rows), np.int32), np.full(len(rows), -1, np.int32)
        find_representatives(rows, size, representative)
        clusters = np.flatnonzero(size)
        ascending = size[clusters].astype(np.int64) << 31 | clusters
        ascending.sort()  # 25
        into = np.arange(len(rows), dtype=np.int32)
        largest = int(min(self.settings.beta * len(rows) / parts, len(rows)))
        merged = merge_clusters(rows, size, representative, ascending, largest, into)
        settle(into)
        return size, into, merged


def nested_order(into: NDArray[np.int32]) -> NDArray[np.int32]:
    """Ranks of the clusters [V] in which those merged into one stand together."""
    rank = np.empty(len(into), np.int32)
    rank[np.argsort(into, kind="stable")] = np.arange(len(into), dtype=np.int32)
    return rank
