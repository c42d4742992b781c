"""A run of link prediction once its edges are split: what is dealt out, and what evaluations score."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from starling.engine.hybrid.source import WorkerSource
from starling.engine.source import GraphSource
from starling.kernels.csr import Csr
from starling.plan.links.negatives import DegreeWeights, KnownPairs, NegativeSampler, PartRanges, check_possible, known_pairs
from starling.plan.links.random_pairs import AreEdges
from starling.plan.links.strategy import DealTask
from starling.plan.source import NeighbourSource
from starling.plan.strategy import Strategy
from starling.train.config import RunConfig
from starling.train.links.data import HeldEdges
from starling.train.links.scores import HeldOut, ranks_all
from starling.train.links.task import LinkTask


@dataclass(frozen=True, eq=False)
class LinkRun:
    """What is known of a run once its edges are split."""

    config: RunConfig
    how: Strategy.Settings
    task: LinkTask
    held: HeldEdges
    split: NDArray[np.uint8]
    layers: int

    def deal(self, source: GraphSource | WorkerSource, lists: Csr, parts: PartRanges | None) -> DealTask:
        """What is dealt out of a training graph."""
        config, held, link = self.config, self.held, self.config.link
        known = known_pairs(lists, held.position)
        by_degree = self._degree_weights(lists) if link.negatives == "degree" else None
        negatives = NegativeSampler(
            link.negatives, link.count, held.nodes, held.directed, known, by_degree, parts, self._itself
        )
        weight, relation = (_numbers(source.edge_tables.get(name)) for name in ("weight", "type"))
        names = source.graph.manifest.edge_types if isinstance(source, WorkerSource) else source.relation_names
        graph = NeighbourSource(
            lists, len(held.position), held.position, weight, edge_type=relation, relations=names, types=source.relations
        )
        return DealTask(graph, negatives, self.layers, relation, config.run.seed, link.target_share, config.team.threads)

    @property
    def _itself(self) -> bool:
        """Whether a node linked to itself is a negative: asked for, or because evaluation has it among the candidates."""
        link, asked = self.config.link, self.config.link.itself
        return ranks_all(self.task.link_score, link) if asked is None else asked

    def _degree_weights(self, lists: Csr) -> DegreeWeights:
        """Weights of all positions by the training edges that go out of them and come into them, over all workers."""
        held = self.held
        outgoing = np.bincount(held.position[lists.neighbours], minlength=held.nodes)
        incoming = np.zeros(held.nodes, np.int64)
        incoming[held.position[: lists.rows]] = np.diff(lists.offsets)
        return DegreeWeights.of(*held.total(np.concatenate([outgoing, incoming])).reshape(2, -1))

    def held_out(self, known: KnownPairs, are_edges: AreEdges) -> HeldOut:
        """What evaluations score; `known` are the edges of all splits. Refuses a graph without a pair that is no edge."""
        held = self.held
        check_possible(held.nodes, int(held.total(np.array([known.linked_to_all(held.position, held.nodes)]))[0]))
        return HeldOut(held, self.split, self.config.link, self.task.link_score, self.config.run.seed, known, are_edges)


def _numbers(table: Tensor | None) -> NDArray[Any] | None:
    return None if table is None else table.numpy()
