"""The messages of a step: neighbours as a sampler takes them, without the step's target edges and their reverses.

What is left of a row's list stands for all of it: sums are scaled by taken / left and means are those of what is left. A row that
loses its whole list hears nothing. Held-out edges are no part of the training graph, and nothing stands for them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.kernels.sampling import Taken
from starling.plan.hops import HopSampler, Moment
from starling.plan.links.deal import Deal, step_of_pair
from starling.plan.source import NeighbourSource


@dataclass(frozen=True, eq=False)
class WithoutTargets(HopSampler):
    """What another sampler takes, but for the edges between pairs that are targets of the step."""

    sampler: HopSampler
    graph: NeighbourSource
    deal: Deal

    def take(self, rows: NDArray[Any], moment: Moment) -> Taken:
        """The in-edges to compute on."""
        return without_targets(self.sampler.take(rows, moment), rows, self.graph, self.deal, moment.epoch, moment.step)


def without_targets(taken: Taken, rows: NDArray[Any], graph: NeighbourSource, deal: Deal, epoch: int, step: int) -> Taken:
    """Edges taken for `rows`, without those that are targets of a step."""
    stays = np.empty(len(taken.neighbours), np.bool_)
    left = np.zeros(len(rows), np.int64)
    here, there = graph.positions_of(rows), graph.positions_of(taken.neighbours)
    _keep(taken.offsets, here, there, deal.key(epoch), deal.steps, deal.share, step, stays, left)
    before = np.diff(taken.offsets)
    scale = np.where(left > 0, before / np.maximum(left, 1), 1.0)
    if taken.row_scale is not None:
        scale *= taken.row_scale
    offsets = np.concatenate([[0], np.cumsum(left)])
    edge_scale = None if taken.edge_scale is None else taken.edge_scale[stays]
    return Taken(offsets, taken.neighbours[stays], taken.entry[stays], scale.astype(np.float32), edge_scale)


@compiled
def _keep(
    offsets: NDArray[np.int64],
    here: NDArray[Any],
    there: NDArray[Any],
    key: np.uint64,
    steps: int,
    share: float,
    step: int,
    stays: NDArray[np.bool_],
    left: NDArray[np.int64],
) -> None:
    for i in range(len(here)):
        for k in range(offsets[i], offsets[i + 1]):
            stays[k] = step_of_pair(key, here[i], there[k], steps, share) != step
            left[i] += stays[k]
