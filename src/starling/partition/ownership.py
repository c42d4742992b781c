"""From a vertex-cut to parts a GNN can train on: one replica of each node becomes its owner (CATGNN §3.2).

A vertex-cut gives each edge one part; a node has a replica wherever an edge of it is. Its master, and after `to_edge_cut` its
owner, is one of these replicas. With the owner fixed, the shard builder streams the edges once more and gives each owner all
in-edges of its nodes, so that every neighbour list is full.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from starling.core.assignment import Assignment
from starling.core.keyed import stream_key
from starling.kernels.partition.ownership import count_edges_by_part, own_at_random, own_the_rest, own_where_most_edges
from starling.partition.contract import PartitionTask
from starling.partition.edge_parts import part_blocks
from starling.partition.passes import edge_blocks

OwnerRule = Literal["most-edges", "random"]

SLACK = 0.05
"""By "most-edges" a part takes up to 5 % more nodes than the mean, as far as the replicas allow."""


def to_edge_cut(assignment: Assignment) -> Assignment:
    """The edge-cut with the same owners: every edge is with its destination's owner, every neighbour list full."""
    return dataclasses.replace(assignment, kind="edge-cut", edge_part=None)


def choose_owners(task: PartitionTask, edge_part: NDArray[np.uint16], rule: OwnerRule) -> tuple[NDArray[np.int32], int]:
    """The owner [V] of every node, and the passes over the edges that it took.

    `most-edges`: the part that has most of the node's edges, so that fewest neighbours must be fetched; parts stay within
    5 % of even where replicas leave the choice. `random`: any replica with equal chances, as CATGNN does. Nodes without edges
    even out the parts. Counts are exact: where [V, p] of them exceed half the memory, the nodes are done in several passes.
    """
    nodes, parts = task.edges.nodes, task.parts
    owner, load = np.empty(nodes, np.int32), np.zeros(parts, np.int64)
    room = int(np.ceil((1 + SLACK) * nodes / parts))
    step = max(1, min(nodes, task.memory // 2 // (4 * parts)))
    passes = 0
    for base in range(0, nodes, step):
        counts = _count(task, edge_part, base, min(base + step, nodes))
        passes += 1
        if rule == "random":
            own_at_random(counts, base, stream_key(task.seed, "partition/owner"), load, owner)
        else:
            own_where_most_edges(counts, base, room, load, owner)
    own_the_rest(load, owner)
    return owner, passes


def owning_bytes(task: PartitionTask) -> int:
    """What choosing owners holds: the owners and the counts, of all nodes at once or as many as half the memory allows."""
    return 4 * task.edges.nodes + min(4 * task.parts * task.edges.nodes, task.memory // 2)


def _count(task: PartitionTask, edge_part: NDArray[np.uint16], base: int, end: int) -> NDArray[np.int32]:
    counts = np.zeros((end - base, task.parts), np.int32)
    blocks = edge_blocks(task.edges, "choosing owners", task.progress)
    for pairs, placed in zip(blocks, part_blocks(edge_part), strict=True):
        count_edges_by_part(pairs, placed, base, counts)
    return counts
