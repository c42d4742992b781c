"""Which cluster or batch each node is in, for strategies that group nodes before they train: found once, when a run begins."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.engine.hybrid.share.gathered_edges import gathered_edges
from starling.engine.hybrid.share.source import WorkerSource
from starling.engine.source import GraphSource, node_column, node_table_names
from starling.plan.calibration import read_calibration
from starling.plan.cluster import Cluster
from starling.plan.cohesive.find import CohesiveTask, find_batches
from starling.plan.cohesive.strategy import Cohesive
from starling.plan.cost import PAPER, Constants, constants_of, gcn_widths
from starling.plan.find_clusters import STORED, find_clusters, refuse_no_clusters, stored_clusters
from starling.plan.strategy import Strategy
from starling.store.shard_layout import CLUSTER_TABLE
from starling.stream.edges import EdgeStream
from starling.train.config import RunConfig

_MEMORY = 1 << 30
_HIDDEN = 128
"""Columns assumed of a model that does not say."""


@dataclass(frozen=True)
class Grouping:
    """What groups depend on, beside the graph. `widths` are d_0 … d_K, features first and outputs last."""

    how: Strategy.Settings
    widths: tuple[int, ...]
    seed: int
    memory: int

    @property
    def wanted(self) -> bool:
        """Whether the strategy asks for groups."""
        return isinstance(self.how, Cluster.Settings | Cohesive.Settings)

    def of_graph(self, source: GraphSource) -> NDArray[Any] | None:
        """The group of every node, found in this process."""
        if isinstance(self.how, Cluster.Settings) and self.how.method == STORED:
            refuse_no_clusters(source.path, node_table_names(source.path), self.how)
            return stored_clusters(node_column(source.path, CLUSTER_TABLE), source.nodes)
        return self._find(source.edge_stream(), source.splits["train"]) if self.wanted else None

    def of_team(self, source: WorkerSource) -> NDArray[Any] | None:
        """The groups of a worker's own rows: the first worker finds those of the whole graph and tells everybody theirs.

        It reads the edges as a stream from disk, so it holds what the method holds within the budget, and 8 bytes a node.
        """
        if not self.wanted:
            return None
        team, graph = source.team, source.graph
        if isinstance(self.how, Cluster.Settings) and self.how.method == STORED:  # each knows its own rows'
            refuse_no_clusters(source.path, graph.manifest.node_tables, self.how)
            return stored_clusters(graph.node_column(CLUSTER_TABLE), source.nodes)
        nobody: NDArray[Any] = np.empty(0, np.int64)
        own, train = graph.position[: graph.owned], graph.position[source.splits["train"]]

        def to_first(values: NDArray[Any]) -> list[NDArray[Any]]:
            return team.swap_lists(source.calls.next_tag(), [values if peer == 0 else nobody for peer in range(team.size)])

        asked, trained = to_first(own), to_first(train)
        told = [nobody] * team.size
        with gathered_edges(graph, team, source.calls) as edges:
            if edges is not None:
                found = self._find(edges, np.sort(np.concatenate(trained)))
                told = [found[positions] for positions in asked]
        return team.swap_lists(source.calls.next_tag(), told)[0]

    def _find(self, edges: EdgeStream, targets: NDArray[Any]) -> NDArray[Any]:
        if isinstance(self.how, Cluster.Settings):
            return find_clusters(edges, self.how, seed=self.seed, memory=self.memory)
        assert isinstance(self.how, Cohesive.Settings)
        task = CohesiveTask(edges, targets, self.widths, self.seed, self.memory, constants=constants_for(self.how))
        return find_batches(task, self.how)


def make_grouping(config: RunConfig, how: Strategy.Settings, features: int, outputs: int, layers: int) -> Grouping:
    """How a run groups its nodes, within the budget asked for, never one that depends on what is free: groups must come again."""
    hidden = config.model.settings.get("hidden", _HIDDEN)
    widths = gcn_widths(features, hidden if isinstance(hidden, int) else _HIDDEN, outputs, layers)
    return Grouping(how, widths, config.run.seed, config.run.memory or _MEMORY)


def constants_for(how: Cohesive.Settings) -> Constants:
    """The constants that the user chose; measured ones are those of the machine at hand."""
    if how.costs == "paper":
        return PAPER
    calibration = read_calibration()
    if warning := calibration.warning():
        logging.getLogger(__name__).warning("starling: %s", warning)
    return constants_of(calibration.with_threads(calibration.machine.cores))
