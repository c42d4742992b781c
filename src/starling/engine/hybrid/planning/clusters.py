"""Cluster batches of a team."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.errors import InputError
from starling.core.keyed import stream_key
from starling.engine.hybrid.planning.active import ActiveSet, Take
from starling.engine.hybrid.planning.steps import Search, TeamStrategy, TeamTask
from starling.kernels.induced import take_within
from starling.kernels.keyed_order import keyed_order
from starling.kernels.sampling import Taken, take_all
from starling.plan.cluster import Cluster


class TeamCluster(TeamStrategy):
    """Whole clusters a step (plan/cluster.py); a cluster may lie with several workers."""

    def __init__(self, task: TeamTask, settings: Cluster.Settings, clusters: NDArray[Any]) -> None:
        super().__init__(task)
        if settings.boundary_hops > self.layers:
            raise InputError(
                f"Expected at most {self.layers} boundary hops, one a layer, got {settings.boundary_hops}. Lower --boundary-hops."
            )
        self._settings = settings
        self._clusters = clusters[: self.graph.owned]
        mine = np.unique(self._clusters[self.train_rows])
        self._dealt = np.unique(np.concatenate(self.team.all_lists(task.calls.next_tag(), mine)))
        if settings.clusters_per_step > len(self._dealt):
            raise InputError(
                f"Expected at most {len(self._dealt):,} clusters a step, as many as hold training nodes, "
                f"got {settings.clusters_per_step:,}."
            )
        self._trained = np.zeros(self.graph.owned, np.bool_)
        self._trained[self.train_rows] = True

    @property
    def steps_per_epoch(self) -> int:
        """Steps until every cluster with training nodes was dealt once."""
        return -(-len(self._dealt) // self._settings.clusters_per_step)

    def _found(self, epoch: int, step: int, active: ActiveSet) -> Search:
        together, hops = self._settings.clusters_per_step, self._settings.boundary_hops
        order = keyed_order(stream_key(self.task.seed, "clusters", epoch), self._dealt)
        members = np.flatnonzero(np.isin(self._clusters, self._dealt[order[step * together : (step + 1) * together]]))
        around = self.thinned(lambda rows: take_all(self.graph.incoming, rows), epoch)
        layers, own = active.outwards(members, [around] * hops)
        if hops < self.layers:
            layer, _ = active.expand(own, self._within(own, active, epoch))
            layers = (layer,) * (self.layers - hops) + layers
        outputs = np.flatnonzero(self._trained[members])
        return Search(layers, members[outputs], outputs)

    def _within(self, own: NDArray[Any], active: ActiveSet, epoch: int) -> Take:
        """Edges among the rows of the step, everywhere; what is left of a list is scaled to its whole length."""
        announced = active.announce(own)
        together = np.concatenate([own, announced.mirrors])

        def take(rows: NDArray[Any]) -> Taken:
            with self._pool.frontier(together) as frontier:
                taken = take_within(self.graph.incoming, rows, frontier.places)
            left = np.diff(taken.offsets)
            if self.graph.spread:
                left = active.totals(announced, left)
            whole = self.graph.in_degree[rows]
            scale = np.where(left > 0, whole / np.maximum(left, 1), 1.0).astype(np.float32)
            inside = Taken(taken.offsets, together[taken.neighbours], taken.entry, scale)
            return self.boundary.thin(inside, rows, epoch)

        return take
