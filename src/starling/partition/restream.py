"""`restream`: nodes follow their neighbours from part to part, pass after pass, in O(V) memory and without clustering."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from starling.core.assignment import Assignment
from starling.kernels.parallel import parallel_for
from starling.kernels.partition.restream import COUNTS, NOWHERE, PART, Rule, appear, fade, restream_edges
from starling.partition.contract import Partitioner, PartitionTask
from starling.partition.passes import pair_blocks, pass_bytes

FULL_ROW = 16
"""Parts up to which each has its own counter."""

HEAVIEST = 8
"""Parts that a node remembers where there are more."""

_UNIT = np.zeros(0, np.int64)


class Restream(Partitioner):
    """Each node counts where the neighbours it meets are, and moves at once when another part is better for it.

    Better is: share of its neighbours there − evenness × load / cap. Counts are halved between passes, so that where neighbours
    are now outweighs where they were. On the first pass a node appears in the part of the first neighbour it meets. No part
    exceeds (1 + imbalance) × mean load, or the next whole number; the load is the number of nodes, or the task's `node_load`.
    Stops when few nodes move. Up to 16 parts a counter each, above that the 8 heaviest of a node: 2p + 4 or 36 bytes a node.
    """

    name = "restream"
    uses_load = True
    summary = "nodes follow their neighbours from part to part as the edges stream by, pass after pass"
    source = "after Nishimura and Ugander 2013"

    class Settings(Partitioner.Settings):
        """Settings of restream."""

        passes: int = Field(10, ge=1, description="the most passes over the edges")
        imbalance: float = Field(0.03, ge=0, description="how much more than the mean a part may hold, as a share of it")
        evenness: float = Field(1.5, ge=0, description="what the fill of a part counts beside the share of neighbours")
        enough: float = Field(0.002, ge=0, description="stop after a pass that moves fewer than this share of the nodes")

    settings: Settings

    def memory_needed(self, task: PartitionTask) -> int:
        """A row of 16-bit numbers and an owner for each node."""
        return (2 * _columns(task.parts) + 4) * task.edges.nodes + pass_bytes(task.edges)

    def _assign(self, task: PartitionTask) -> Assignment:
        nodes, weight = task.edges.nodes, _UNIT if task.node_load is None else task.node_load
        total = int(weight.sum()) if len(weight) else nodes
        cap = max(int((1 + self.settings.imbalance) * total / task.parts), -(-total // task.parts))
        rule = Rule(cap, self.settings.evenness, task.parts > FULL_ROW)
        rows, load = np.zeros((nodes, _columns(task.parts)), np.uint16), np.zeros(task.parts, np.int64)
        rows[:, PART] = NOWHERE
        passes, moves = 0, list[int]()
        while passes < self.settings.passes and (not moves or moves[-1] > self.settings.enough * nodes):
            if passes:
                parallel_for(nodes, lambda first, last: fade(rows, first, last, rule.sketch), task.threads)
            moved = 0
            for pairs in pair_blocks(task.edges, f"pass {passes + 1}", task.progress):
                moved += restream_edges(pairs, rows, weight, load, rule)
            passes, moves = passes + 1, [*moves, moved]
        for node in np.flatnonzero(rows[:, PART] == NOWHERE):
            appear(int(node), NOWHERE, rows, weight, load, cap)
        owner: NDArray[np.int32] = rows[:, PART].astype(np.int32)
        return Assignment("edge-cut", task.parts, owner, passes=passes, notes={"moves": sum(moves)})


def _columns(parts: int) -> int:
    return COUNTS + (parts if parts <= FULL_ROW else 2 * HEAVIEST)
