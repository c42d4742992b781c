"""Global steps of a team: all nodes, every epoch."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from starling.engine.hybrid.layers.plan import WorkerLayer
from starling.engine.hybrid.planning.active import ActiveSet
from starling.engine.hybrid.planning.steps import Search, TeamStrategy
from starling.engine.hybrid.planning.thinning import Thinning
from starling.kernels.sampling import take_all
from starling.plan.batch import Block


class TeamGlobal(TeamStrategy):
    """All nodes in one step; one layer stands for all."""

    _within_parts: WorkerLayer | None = None
    """Where parts hear nothing of one another, every epoch is the same."""

    @cached_property
    def _thinning(self) -> Thinning:
        return Thinning(self.boundary)

    @property
    def steps_per_epoch(self) -> int:
        """One."""
        return 1

    def _found(self, epoch: int, step: int, active: ActiveSet) -> Search:
        return Search((self._layer(epoch, active),) * self.layers, self.train_rows, self.train_rows)

    def _layer(self, epoch: int, active: ActiveSet) -> WorkerLayer:
        if self.boundary.probability == 1:
            return self.graph.whole_layer
        if self.boundary.probability > 0:
            return self._thin_layer(epoch, active)
        if self._within_parts is None:
            self._within_parts = self._thin_layer(epoch, active)
        return self._within_parts

    def _thin_layer(self, epoch: int, active: ActiveSet) -> WorkerLayer:
        def listed() -> Block:
            own = np.arange(self.graph.owned, dtype=np.int64)
            take = self.thinned(lambda rows: take_all(self.graph.incoming, rows), epoch)
            return active.expand(own, take, self.boundary.wanted(epoch))[0].edges.block

        return self._thinning.layer(epoch, listed)
