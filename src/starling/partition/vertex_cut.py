"""What the vertex-cut methods share: they place edges one by one; a master for each node is chosen afterwards.

Every stored edge is an edge of the stream. Of an undirected graph, which has each edge in both directions, the second copy
costs no replica — a part that holds both ends by then exists, and every method prefers it — and each direction is a message
of its own when a network runs over the parts.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from starling.core.assignment import Assignment
from starling.partition.contract import Partitioner, PartitionTask
from starling.partition.edge_parts import EdgeParts
from starling.partition.ownership import OwnerRule, choose_owners, owning_bytes
from starling.partition.passes import Pairs, edge_blocks, pass_bytes


class VertexCut(Partitioner):
    """A method that gives each edge a part."""

    kind = "vertex-cut"
    passes: ClassVar[int]
    """Passes over the edges until all are placed."""
    node_bytes: ClassVar[int]
    """What a node takes while edges are placed, replica sets aside."""
    keeps_replicas: ClassVar[bool] = True
    """Whether edges are placed by where replicas are: 8 bytes a node for every 64 parts."""

    class Settings(Partitioner.Settings):
        """What every vertex-cut method can be told."""

        owner: OwnerRule = Field(
            "random",
            description="which replica of a node becomes its owner: any with equal chances, or the one with most of its edges",
        )

    settings: Settings

    def memory_needed(self, task: PartitionTask) -> int:
        """What placing edges takes, or choosing owners afterwards, whichever is more."""
        sets = 8 * ((task.parts + 63) // 64) if self.keeps_replicas else 0
        return max(task.edges.nodes * (self.node_bytes + sets), owning_bytes(task)) + pass_bytes(task.edges)

    def _assign(self, task: PartitionTask) -> Assignment:
        edge_part = self._place(task)
        owner, passes = choose_owners(task, edge_part, self.settings.owner)
        return Assignment("vertex-cut", task.parts, owner, edge_part, passes=self.passes + passes)

    @abstractmethod
    def _place(self, task: PartitionTask) -> NDArray[np.uint16]:
        """The part of every edge [E], in stream order."""


Placer = Callable[[Pairs, NDArray[np.uint16]], object]
"""``place(pairs, placed)`` fills in the part of each edge of a block."""


def place_edges(task: PartitionTask, place: Placer, name: str = "edge_part") -> NDArray[np.uint16]:
    """One pass that places every edge; the parts of all edges, in a scratch file of this name."""
    with EdgeParts(task.edges.edges, task.scratch, name) as edge_part:
        for pairs in edge_blocks(task.edges, "placing edges", task.progress):
            placed = np.empty(len(pairs), np.uint16)
            place(pairs, placed)
            edge_part.append(placed)
        return edge_part.finish()
