"""What the in-memory methods share: reading the graph, and the cases that no library needs to see."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.assignment import Assignment
from starling.kernels.partition.packing import pack_in_order
from starling.partition.adjacency import Adjacency, read_adjacency
from starling.partition.contract import Partitioner, PartitionTask

READ_PASSES = 2


class InMemory(Partitioner):
    """A method that holds the whole graph and hands it to a library."""

    streaming = False
    uses_load = True
    bytes_per_node: int
    bytes_per_entry: int
    """Measured peak of the library beyond the interpreter; an entry is one direction of one connection."""

    def memory_needed(self, task: PartitionTask) -> int:
        """From the measured peak of the library."""
        return bytes_held(task, self.bytes_per_node, self.bytes_per_entry)

    def _assign(self, task: PartitionTask) -> Assignment:
        nodes = task.edges.nodes
        library = self._library()
        if task.parts == 1 or nodes <= task.parts:  # METIS and its like fail here, and there is nothing to decide
            return Assignment("edge-cut", task.parts, np.arange(nodes, dtype=np.int32) % task.parts)
        graph = read_adjacency(task)
        if len(graph.neighbour):
            owner = self._partition(library, graph, task)
        else:
            owner = spread_evenly(nodes, task.parts, task.node_load)
        return Assignment("edge-cut", task.parts, owner, passes=READ_PASSES)

    @abstractmethod
    def _library(self) -> Any:
        """The package that does the work; asked for before the graph is read, since it may be missing."""

    @abstractmethod
    def _partition(self, library: Any, graph: Adjacency, task: PartitionTask) -> NDArray[np.int32]:
        """The owner [V] of every node, more than one part, more nodes than parts, at least one edge."""


def bytes_held(task: PartitionTask, a_node: int, an_entry: int) -> int:
    """Bytes for a graph of this size; an entry is one direction of one connection, duplicates and self-loops included."""
    return a_node * task.edges.nodes + an_entry * task.edges.edges * (2 if task.edges.directed else 1)


def spread_evenly(nodes: int, parts: int, load: NDArray[np.integer] | None) -> NDArray[np.int32]:
    """The choice for a graph without edges: runs of equal length, or the heaviest nodes first to the least loaded part."""
    if load is None:
        return (np.arange(nodes, dtype=np.int64) * parts // nodes).astype(np.int32)
    owner = np.empty(nodes, np.int32)
    pack_in_order(np.argsort(-load.astype(np.int64), kind="stable"), load.astype(np.int64), parts, owner)
    return owner
