"""How many neighbours nodes have: counted from a graph in one pass, or assumed where there are only two numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from starling.core.errors import InputError
from starling.kernels.degrees import count_degrees
from starling.plan.expected_sizes import Degrees, degrees_of

if TYPE_CHECKING:
    from starling.stream.edges import EdgeStream

ASSUMED_SPREAD = 1.0
"""Deviation of the logarithm of degrees where they are unknown: a neighbour then has e = 2.7 times as many edges as a node."""
_CLASSES = 41


def counted(edges: EdgeStream) -> Degrees:
    """The degrees of a graph, by one pass over its edges and 16 bytes a node."""
    ins = np.zeros(edges.nodes, np.int64)
    outs = np.zeros(edges.nodes, np.int64) if edges.directed else ins
    for block in edges.blocks():
        count_degrees(block.pairs, edges.nodes, "destination", into=ins)
        if edges.directed:
            count_degrees(block.pairs, edges.nodes, "source", into=outs)
    return degrees_of(ins, outs)


def assumed(nodes: int, edges: int) -> Degrees:
    """Degrees of a graph of which only two numbers are known: log-normal around their mean.

    Equal degrees would make batches of a few hops smaller than those of any graph with hubs.
    """
    if nodes < 1 or edges < 0:
        raise InputError(f"Expected at least one node and no negative number of edges, got {nodes} nodes and {edges} edges.")
    z = np.linspace(-4, 4, _CLASSES)
    chance = np.exp(-(z**2) / 2)
    chance /= chance.sum()
    shape = np.exp(ASSUMED_SPREAD * z)
    degree = shape * (edges / nodes) / float(chance @ shape)
    return Degrees(nodes * chance, degree, degree)


def random_copies(degrees: Degrees, parts: int) -> float:
    """Copies of all nodes when they are dealt out at random: a node with d out-edges has (p − 1)(1 − (1 − 1/p)^d) on average."""
    if parts == 1:
        return 0.0
    reached = (parts - 1) * (1 - (1 - 1 / parts) ** degrees.outgoing)
    return float(degrees.count @ reached)


def hub_balance(degrees: Degrees, parts: int) -> float:
    """In-edges of a part that has all the largest hubs, over the mean."""
    order = np.argsort(-degrees.incoming)
    count, incoming = degrees.count[order], degrees.incoming[order]
    before = np.concatenate([[0.0], np.cumsum(count)[:-1]])
    taken = np.clip(degrees.nodes / parts - before, 0, count)
    return max(1.0, float(taken @ incoming) / max(degrees.edges / parts, 1e-9))
