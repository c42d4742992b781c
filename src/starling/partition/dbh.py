"""`dbh`: degree-based hashing, an edge goes where its end of lower degree hashes to (Xie et al., NeurIPS 2014)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from starling.core.keyed import stream_key
from starling.kernels.parallel import parallel_for
from starling.kernels.partition.hashing import place_by_lower_degree
from starling.partition.contract import PartitionTask
from starling.partition.passes import Pairs, count_connections
from starling.partition.vertex_cut import VertexCut, place_edges


class Dbh(VertexCut):
    """Nodes of high degree are cut, those of low degree are kept whole. Degrees are exact, from a pass of their own."""

    name = "dbh"
    summary = "an edge goes where its end of lower degree hashes to"
    source = "Xie et al. 2014"
    passes = 2
    node_bytes = 4
    keeps_replicas = False

    def _place(self, task: PartitionTask) -> NDArray[np.uint16]:
        degree = count_connections(task.edges, task.progress)
        key = stream_key(task.seed, "partition/dbh")

        def place(pairs: Pairs, placed: NDArray[np.uint16]) -> None:
            def run(first: int, last: int) -> None:
                place_by_lower_degree(pairs, degree, key, task.parts, first, last, placed)

            parallel_for(len(pairs), run, task.threads)

        return place_edges(task, place)
