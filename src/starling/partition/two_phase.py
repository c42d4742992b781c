"""`2ps-l`: cluster the stream, pack clusters into parts, then place edges in one of two parts (Mayer et al., ICDE 2022)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from starling.core.keyed import stream_key
from starling.kernels.partition.clustering import CLUSTER, cluster_edges
from starling.kernels.partition.packing import pack_in_order
from starling.kernels.partition.replicas import empty_sets
from starling.kernels.partition.two_phase import PART, place_inner, place_outer
from starling.partition.clusters import Clusters, found_clusters
from starling.partition.contract import PartitionTask
from starling.partition.edge_parts import part_blocks
from starling.partition.passes import Pairs, pair_blocks
from starling.partition.vertex_cut import VertexCut, place_edges


class TwoPhase(VertexCut):
    """Linear-time two-phase streaming: a clustering decides, for each edge, which two parts are worth scoring.

    Phase 1 clusters the stream with a volume cap and packs the clusters, by volume, into parts. Phase 2 places the edges whose
    clusters lie in one part, then each other edge in the one of its two clusters' parts with the higher
    g(u) + g(v) + vol(c) / (vol(c_u) + vol(c_v)), c being the cluster that lies there. A part takes α|E|/p edges; what would
    exceed that goes where the end of higher degree hashes to, and if that is full too, to the least loaded part.
    """

    name = "2ps-l"
    summary = "clusters of the stream packed into parts, each edge to one of its clusters' two parts"
    source = "2PS-L (Mayer et al. 2022)"
    passes = 4
    node_bytes = 44

    class Settings(VertexCut.Settings):
        """Settings of 2PS-L."""

        alpha: float = Field(1.05, ge=1, description="the most edges a part may hold, in multiples of the mean")
        cluster_share: float = Field(
            1.0, gt=0, description="volume at which a cluster takes no more nodes, as a share of a part's volume"
        )

    settings: Settings

    def _place(self, task: PartitionTask) -> NDArray[np.uint16]:
        clusters = self._cluster(task)
        rows, volume = clusters.rows, clusters.volume
        rows[:, PART] = _pack(volume, task.parts)[rows[:, CLUSTER]]
        sets, load = empty_sets(len(rows), task.parts), np.zeros(task.parts, np.int64)
        room = math.ceil(self.settings.alpha * task.edges.edges / task.parts)
        key = stream_key(task.seed, "partition/2ps-l")

        def place_some(pairs: Pairs, placed: NDArray[np.uint16]) -> None:
            place_inner(pairs, rows, sets, load, room, key, placed)

        drafted = part_blocks(place_edges(task, place_some, "edge_part-draft"))

        def place_others(pairs: Pairs, placed: NDArray[np.uint16]) -> None:
            placed[:] = next(drafted)
            place_outer(pairs, rows, volume, sets, load, room, key, placed)

        return place_edges(task, place_others)

    def _cluster(self, task: PartitionTask) -> Clusters:
        clusters = found_clusters(task, columns=4)  # the third is the part; a row of 16 bytes never straddles cache lines
        cap = int(self.settings.cluster_share * clusters.total / task.parts)
        for pairs in pair_blocks(task.edges, "clustering", task.progress):
            cluster_edges(pairs, clusters.rows, clusters.volume, cap)
        return clusters


def _pack(volume: NDArray[np.integer], parts: int) -> NDArray[np.int32]:
    """The part of every cluster: the largest volume first, each to the part with the least."""
    filled, part_of = np.flatnonzero(volume), np.zeros(len(volume), np.int32)
    pack_in_order(filled[np.argsort(-volume[filled], kind="stable")], volume, parts, part_of)
    return part_of
