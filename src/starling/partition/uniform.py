"""`random`: nodes dealt out like cards, the floor under every other method."""

from __future__ import annotations

import numpy as np

from starling.core.assignment import Assignment
from starling.core.keyed import permutation, stream_key
from starling.partition.contract import Partitioner, PartitionTask


class Random(Partitioner):
    """A random order of the nodes, dealt to the parts in turn: node counts differ by one at most."""

    name = "random"
    summary = "nodes dealt out at random, in equal numbers; the floor to compare with"
    source = "GraphTheta §5.4"

    def memory_needed(self, task: PartitionTask) -> int:
        """The order and its sort, and the owners."""
        return 32 * task.edges.nodes

    def _assign(self, task: PartitionTask) -> Assignment:
        order = permutation(stream_key(task.seed, "partition/random"), task.edges.nodes)
        owner = np.empty(task.edges.nodes, np.int32)
        owner[order] = np.arange(task.edges.nodes, dtype=np.int64) % task.parts
        return Assignment("edge-cut", task.parts, owner)
