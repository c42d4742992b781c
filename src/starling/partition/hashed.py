"""`hash`: the 1D partition, a node's part is a hash of its number (GraphTheta §5.4)."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from starling.core.assignment import Assignment
from starling.core.keyed import stream_key
from starling.kernels.parallel import parallel_for
from starling.kernels.partition.hashing import hash_nodes, place_by_source
from starling.partition.contract import Partitioner, PartitionTask
from starling.partition.passes import Pairs, pass_bytes
from starling.partition.vertex_cut import place_edges


class Hash(Partitioner):
    """Each node is owned where its number hashes to; its edges are with the owner of their destination, or source.

    By destination this is an edge-cut and needs no look at the edges. By source, GraphTheta's own default, a node's in-edges
    lie with their sources, partial sums flow to it, and so it is a vertex-cut.
    """

    name = "hash"
    summary = "1D: a node's part is a hash of its number, edges follow their destination or source"
    source = "GraphTheta §5.4"

    class Settings(Partitioner.Settings):
        """Settings of `hash`."""

        by: Literal["destination", "source"] = Field("destination", description="the end of an edge that decides its part")

    settings: Settings

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__(settings)
        self.kind = "edge-cut" if self.settings.by == "destination" else "vertex-cut"

    def memory_needed(self, task: PartitionTask) -> int:
        """The owners."""
        return 4 * task.edges.nodes + pass_bytes(task.edges)

    def _assign(self, task: PartitionTask) -> Assignment:
        owner = np.empty(task.edges.nodes, np.int32)
        key = stream_key(task.seed, "partition/hash")
        parallel_for(len(owner), lambda first, last: hash_nodes(key, task.parts, first, last, owner), task.threads)
        if self.settings.by == "destination":
            return Assignment("edge-cut", task.parts, owner)

        def place(pairs: Pairs, placed: NDArray[np.uint16]) -> None:
            parallel_for(len(pairs), lambda first, last: place_by_source(pairs, owner, first, last, placed), task.threads)

        return Assignment("vertex-cut", task.parts, owner, place_edges(task, place), passes=1)
