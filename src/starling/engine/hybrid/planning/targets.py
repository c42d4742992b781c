"""Mini-batches and cohesive batches of a team: targets, and layer by layer the neighbours that they need."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.errors import InputError
from starling.engine.hybrid.planning.active import ActiveSet, Take
from starling.engine.hybrid.planning.steps import FixedBatches, Search, TeamStrategy, TeamTask
from starling.plan.cohesive.batches import CohesiveBatches
from starling.plan.cohesive.strategy import Cohesive
from starling.plan.hops import AllNeighbours, HopSampler, Moment
from starling.plan.mini import Batches, Mini, hop_samplers
from starling.plan.source import NeighbourSource
from starling.plan.targets import TargetBatches


class TeamTargets(TeamStrategy):
    """Batches of the whole team's training nodes; each worker has those it owns. Batches are made of positions.

    `in_place`: edges of large layers are read where the graph's own lists are, and not listed.
    """

    def __init__(self, task: TeamTask, hops: Sequence[HopSampler], targets: Batches, *, in_place: bool = False) -> None:
        super().__init__(task)
        self._hops, self._targets = hops, targets
        self._in_place = in_place and self.team.device.type == "cpu"  # cards list edges
        positions = self.graph.position[self.train_rows]
        order = np.argsort(positions)
        self._positions, self._rows = positions[order], self.train_rows[order]

    @property
    def steps_per_epoch(self) -> int:
        """Batches until every training node was a target once."""
        return self._targets.steps

    def _found(self, epoch: int, step: int, active: ActiveSet) -> Search:
        targets = self._mine(self._targets.batch(epoch, step))
        moments = (Moment(self.task.seed, epoch, step, hop) for hop in range(len(self._hops)))
        takes = [self._take(*hop) for hop in zip(self._hops, moments, strict=True)]
        layers, _ = active.outwards(targets, takes, in_place=self._in_place)
        return Search(layers, targets, np.arange(len(targets)))

    def _take(self, sampler: HopSampler, moment: Moment) -> Take | None:
        if self._in_place and self.boundary.probability == 1 and isinstance(sampler, AllNeighbours):
            return None
        return self.thinned(partial(sampler.take, moment=moment), moment.epoch)

    def _mine(self, positions: NDArray[Any]) -> NDArray[np.int64]:
        place = np.searchsorted(self._positions, positions)
        found = place < len(self._positions)
        found[found] = self._positions[place[found]] == positions[found]
        return self._rows[place[found]]


def check_team_mini(settings: Mini.Settings) -> None:
    """Refuse batches that a team cannot compute together."""
    if settings.sampling == "layerwise":
        raise InputError(
            "Layer-wise sampling draws from all rows of a layer at once, which a team of workers does not hold in one place. "
            "Use one worker."
        )
    if settings.past:
        raise InputError(
            "A hybrid team computes every node of a step once, and a node has another past for every target. Use --parallel data, "
            "--before (one time for all), or one worker."
        )


def team_mini(task: TeamTask, settings: Mini.Settings, source: NeighbourSource, *, in_place: bool) -> TeamTargets:
    """Targets in keyed order, all neighbours or a sample of them."""
    assert not (settings.samples and task.graph.spread), "lists to draw from were put together when the run began"
    hops = hop_samplers(settings, source, task.layers)
    everywhere = _everywhere(task, task.graph.position[task.train_rows])
    # everybody knows all training positions: 24 bytes a training node, as rows, as positions and in the epoch's order
    targets = TargetBatches(everywhere, everywhere, settings.batch_size, seed=task.seed, shuffle=settings.shuffle)
    return TeamTargets(task, hops, targets, in_place=in_place)


def team_cohesive(task: TeamTask, settings: Cohesive.Settings, labels: NDArray[Any], source: NeighbourSource) -> TeamTargets:
    """Fixed batches (plan/cohesive/), each computed by its nodes' owners."""
    batches = fixed_batches(task, settings, labels)
    strategy = TeamTargets(task, (AllNeighbours(source),) * task.layers, batches)
    strategy.fixed = FixedBatches(batches, settings.keep)
    return strategy


def fixed_batches(task: TeamTask, settings: Cohesive.Settings, labels: NDArray[Any]) -> CohesiveBatches:
    """Everybody's cohesive batches, of positions; `labels` are those of the own rows."""
    positions = _everywhere(task, task.graph.position[task.train_rows])
    known = _everywhere(task, labels[task.train_rows])
    each, every = settings.clusters_per_batch, settings.regroup_every
    return CohesiveBatches(positions, positions, known, each, seed=task.seed, regroup_every=every)


def _everywhere(task: TeamTask, mine: NDArray[Any]) -> NDArray[Any]:
    """Everybody's numbers, by rank."""
    return np.concatenate(task.team.all_lists(task.calls.next_tag(), np.asarray(mine, np.int64)))
