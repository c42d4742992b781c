"""Graphs to plan on, also under another numbering of their rows, and a plan in words of the imported graph."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from starling.kernels.csr import Csr, csr_from_pairs
from starling.plan.batch import BatchPlan
from starling.plan.source import NeighbourSource


@dataclass(frozen=True, eq=False)
class Drawn:
    """Random edges; `renumbered` gives the same graph with other row numbers."""

    nodes: int
    pairs: np.ndarray
    weight: np.ndarray

    @property
    def source(self) -> NeighbourSource:
        incoming = csr_from_pairs(self.pairs, self.nodes)
        return NeighbourSource(incoming, self.nodes, None, self.weight[incoming.edge])

    def renumbered(self, seed: int) -> tuple[NeighbourSource, np.ndarray]:
        """The graph with its rows in another order, and the row of each position."""
        row_of = np.random.default_rng(seed).permutation(self.nodes).astype(np.int32)
        incoming = csr_from_pairs(row_of[self.pairs], self.nodes)
        position = np.empty(self.nodes, np.int64)
        position[row_of] = np.arange(self.nodes)
        return NeighbourSource(incoming, self.nodes, position, self.weight[incoming.edge]), row_of


def draw_graph(nodes: int, edges: int, seed: int, hub: bool = False) -> Drawn:
    generator = np.random.default_rng(seed)
    pairs = generator.integers(0, nodes, (edges, 2))
    if hub:
        pairs = np.concatenate([pairs, np.stack([generator.integers(0, nodes, 300), np.full(300, nodes // 2)], 1)])
    weight = generator.random(len(pairs)) * (generator.random(len(pairs)) < 0.8)  # some weigh nothing
    return Drawn(nodes, pairs.astype(np.int32).reshape(-1, 2), weight)


graphs = st.builds(
    draw_graph,
    nodes=st.integers(1, 30),
    edges=st.integers(0, 150),
    seed=st.integers(0, 2**20),
    hub=st.booleans(),
)


def star(leaves: int, weight: np.ndarray | None = None) -> NeighbourSource:
    """Node 0 hears from 1 … leaves."""
    offsets = np.concatenate([[0], np.full(leaves + 1, leaves)]).astype(np.int64)
    neighbours = np.arange(1, leaves + 1, dtype=np.int32)
    return NeighbourSource(Csr(offsets, neighbours, np.arange(leaves, dtype=np.int32)), leaves + 1, None, weight)


def in_words_of_positions(plan: BatchPlan, graph: NeighbourSource) -> list[object]:
    """Everything a plan says, with rows as positions and edges as edges of the imported graph."""
    said: list[object] = [graph.positions_of(plan.inputs).tolist(), graph.positions_of(plan.targets).tolist()]
    said += [plan.outputs.tolist(), None if plan.loss_weight is None else plan.loss_weight.tolist()]
    for block in plan.blocks:
        said += [block.sources, block.offsets.tolist(), block.neighbours.tolist(), graph.incoming.edge[block.edge].tolist()]
        said += [None if scale is None else scale.tolist() for scale in (block.row_scale, block.edge_scale)]
    return said


def check_blocks(plan: BatchPlan, graph: NeighbourSource) -> None:
    """What holds for every plan: blocks fit each other, and each edge is an edge of the graph between the rows it joins."""
    incoming = graph.incoming
    destination_of = np.repeat(np.arange(incoming.rows), np.diff(incoming.offsets))
    assert len(set(plan.inputs.tolist())) == len(plan.inputs)
    assert plan.blocks[0].sources == len(plan.inputs)
    for block in plan.blocks:
        assert block.destinations <= block.sources
        assert block.neighbours.dtype == np.int32
        assert len(block.neighbours) == len(block.edge) == block.offsets[-1]
        rows = plan.inputs[: block.sources]  # destinations are the first sources, so all numbers of a plan are one numbering
        np.testing.assert_array_equal(rows[block.neighbours], incoming.neighbours[block.edge])
        to = np.repeat(np.arange(block.destinations), np.diff(block.offsets))
        np.testing.assert_array_equal(rows[to], destination_of[block.edge])
    for inner, outer in zip(plan.blocks[1:], plan.blocks, strict=False):
        assert inner.sources == outer.destinations
    np.testing.assert_array_equal(plan.inputs[plan.outputs], plan.targets)
    assert plan.outputs.max(initial=-1) < plan.blocks[-1].destinations
