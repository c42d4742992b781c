"""`cluster`: whole clusters a step and the edges among them (Cluster-GCN; GraphTheta §4.1 with boundary hops).

With h boundary hops the rows of a step are nested sets: S₀ the nodes of the clusters, S₁ … S_h each with the in-neighbours of
the one before. The j-th layer from the end gives S₍ⱼ₋₁₎ from Sⱼ with all in-edges as long as j ≤ h; the layers before that give
S_h from itself, with the edges inside it. So h = 0 is Cluster-GCN, and h = layers is exact.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from starling.core.errors import InputError
from starling.core.keyed import stream_key
from starling.kernels.frontier import Frontier, FrontierPool
from starling.kernels.induced import take_within
from starling.kernels.keyed_order import keyed_order
from starling.kernels.sampling import take_all
from starling.plan.batch import BatchPlan, Block
from starling.plan.strategy import PlanTask, Strategy


class Cluster(Strategy):
    """Clusters in keyed random order, some a step; only those that hold training nodes are dealt, so no step is empty.

    Where edges lead out of the step, a row's remaining edges are scaled by in-degree / edges left: a mean is then the mean over
    the neighbours that are there.
    """

    name = "cluster"
    summary = "whole clusters a step, with the edges among them"

    class Settings(Strategy.Settings):
        """What a step is made of, and how clusters are found where none are given."""

        method: str = Field(
            "metis", description="how clusters are found: metis, spring, louvain, leiden or another method, or stored"
        )
        clusters: int | None = Field(None, ge=1, description="how many clusters to cut (about 500 nodes in each)")
        clusters_per_step: int = Field(1, ge=1, description="clusters joined in one step")
        boundary_hops: int = Field(0, ge=0, description="hops of neighbours around the clusters that feed them")

    settings: Settings

    def __init__(self, settings: Settings, task: PlanTask) -> None:
        super().__init__(settings, task)
        if task.clusters is None or task.clusters.shape != (task.graph.rows,):
            got = "none" if task.clusters is None else f"an array of shape {task.clusters.shape}"
            raise InputError(f"The cluster strategy needs the cluster of each of {task.graph.rows:,} rows, got {got}.")
        if settings.boundary_hops > task.layers:
            raise InputError(
                f"Expected at most {task.layers} boundary hops, one a layer, got {settings.boundary_hops}. Lower --boundary-hops."
            )
        self._lay_out(task.clusters)
        if settings.clusters_per_step > len(self._dealt):
            raise InputError(
                f"Expected at most {len(self._dealt):,} clusters a step, as many as hold training nodes, "
                f"got {settings.clusters_per_step:,}."
            )
        self._trained = np.zeros(task.graph.rows, np.bool_)
        self._trained[self.train_rows] = True
        self._frontiers = FrontierPool(task.graph.rows)

    def _lay_out(self, clusters: NDArray[Any]) -> None:
        """Rows by cluster, inside a cluster by position, so that their order does not depend on the numbering."""
        rows = self.task.graph.in_imported_order
        rows = rows[clusters[rows] >= 0]
        self._rows = rows[np.argsort(clusters[rows], kind="stable")]
        self._bounds = np.concatenate([[0], np.cumsum(np.bincount(clusters[rows]))])
        if (clusters[self.train_rows] < 0).any():
            raise InputError("Expected every training node in a cluster, got some without one.")
        self._dealt = np.unique(clusters[self.train_rows])

    @property
    def steps_per_epoch(self) -> int:
        """Steps until every cluster with training nodes was dealt once."""
        return -(-len(self._dealt) // self.settings.clusters_per_step)

    def _plan(self, epoch: int, step: int) -> BatchPlan:
        together = self.settings.clusters_per_step
        order = keyed_order(stream_key(self.task.seed, "clusters", epoch), self._dealt)
        dealt = self._dealt[order[step * together : (step + 1) * together]]
        members = np.concatenate([self._rows[self._bounds[c] : self._bounds[c + 1]] for c in dealt])
        with self._frontiers.frontier(members) as frontier:
            blocks = self._blocks(frontier)
            inputs = frontier.rows.copy()
        outputs = np.flatnonzero(self._trained[members]).astype(np.int32)
        return BatchPlan(epoch, step, inputs, blocks, members[outputs], outputs)

    def _blocks(self, frontier: Frontier) -> tuple[Block, ...]:
        """The blocks of all layers, outermost first; the frontier grows to the inputs."""
        graph, blocks = self.task.graph, []
        for _ in range(self.settings.boundary_hops):
            graph.check_lists(frontier.rows)
            taken = take_all(graph.incoming, frontier.rows, self.task.threads)
            neighbours = frontier.extend(taken.neighbours)
            blocks.append(Block(taken.offsets, neighbours, taken.entry, len(frontier)))
        inside = self.task.layers - len(blocks)
        if inside:
            graph.check_lists(frontier.rows)
            taken = take_within(graph.incoming, frontier.rows, frontier.places, self.task.threads)
            left = np.diff(taken.offsets)
            scale = np.where(left > 0, graph.in_degree[frontier.rows] / np.maximum(left, 1), 1.0).astype(np.float32)
            blocks.extend([Block(taken.offsets, taken.neighbours, taken.entry, len(frontier), row_scale=scale)] * inside)
        return tuple(reversed(blocks))
