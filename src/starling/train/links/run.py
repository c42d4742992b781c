"""A run of link prediction once its edges are split: what is dealt out, and what evaluations score."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from starling.engine.hybrid.share.source import WorkerSource
from starling.engine.source import GraphSource
from starling.kernels.csr import Csr
from starling.plan.links.local_nodes import PartRanges
from starling.plan.links.negatives import DegreeWeights, KnownPairs, NegativeSampler, check_possible, known_pairs
from starling.plan.links.random_pairs import AreEdges
from starling.plan.links.splits import TRAIN
from starling.plan.links.strategy import DealTask
from starling.plan.source import NeighbourSource
from starling.plan.strategy import Strategy
from starling.train.config import RunConfig
from starling.train.links.data import AllEdges, HeldEdges
from starling.train.links.edge_split import EdgeSplit
from starling.train.links.held_out import HeldOut
from starling.train.links.task import LinkTask


@dataclass(frozen=True, eq=False)
class LinkRun:
    """What is known of a run once its edges are split."""

    config: RunConfig
    how: Strategy.Settings
    task: LinkTask
    edges: AllEdges
    held: HeldEdges
    """Those that this process has."""
    rule: EdgeSplit
    split: NDArray[np.uint8]
    """By the rule, of every entry of `held`."""
    layers: int

    @property
    def trains(self) -> NDArray[np.bool_]:
        """Which entries of `held` are training edges."""
        found: NDArray[np.bool_] = self.split == TRAIN
        return found

    def deal(self, source: GraphSource | WorkerSource, lists: Csr, parts: PartRanges | None) -> DealTask:
        """What is dealt out of a training graph."""
        config, held, link = self.config, self.held, self.config.link
        known = known_pairs(lists, held.position)
        by_degree = self._degree_weights(lists) if link.kind == "degree" else None
        negatives = NegativeSampler(
            link.kind, link.count, held.nodes, held.directed, known, by_degree, parts, self.task.against_itself
        )
        weight, relation = (_numbers(source.edge_tables.get(name)) for name in ("weight", "type"))
        names = source.graph.manifest.edge_types if isinstance(source, WorkerSource) else source.relation_names
        position = held.position if isinstance(source, WorkerSource) else None  # rows of a whole graph are positions
        graph = NeighbourSource(
            lists, len(held.position), position, weight, edge_type=relation, relations=names, types=source.relations
        )
        return DealTask(graph, negatives, self.layers, relation, config.run.seed, link.target_share, config.team.threads)

    def _degree_weights(self, lists: Csr) -> DegreeWeights:
        """Weights of all positions by the training edges that go out of them and come into them, over all workers."""
        held = self.held
        outgoing = np.bincount(held.position[lists.neighbours], minlength=held.nodes)
        incoming = np.zeros(held.nodes, np.int64)
        incoming[held.position[: lists.rows]] = np.diff(lists.offsets)
        return DegreeWeights.of(*self.edges.total(np.concatenate([outgoing, incoming])).reshape(2, -1))

    def held_out(self, known: KnownPairs, are_edges: AreEdges) -> HeldOut:
        """What evaluations score; `known` are the edges of all splits. Refuses a graph without a pair that is no edge."""
        held, total, how = self.held, self.edges.total, self.task.examination(self.config.run.seed)
        check_possible(held.nodes, int(total(np.array([held.linked_to_all()]))[0]))
        return HeldOut(held, self.split, how, self.rule.sizes["train"], known, are_edges, total)


def _numbers(table: Tensor | None) -> NDArray[Any] | None:
    return None if table is None else table.numpy()
