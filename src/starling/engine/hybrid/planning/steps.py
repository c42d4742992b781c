"""How the steps of a team are planned: by a search from targets outwards, in which all workers take part.

Planning talks to the other workers, on tags of its own, so it may run in the background of training.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.comm.tags import Channel, make_tag
from starling.comm.team import Team
from starling.engine.hybrid.layers.plan import WorkerLayer, WorkerPlan
from starling.engine.hybrid.messages.calls import Calls, Planning
from starling.engine.hybrid.planning.active import ActiveSet, Take
from starling.engine.hybrid.planning.boundary import Boundary
from starling.engine.hybrid.share.worker_graph import WorkerGraph
from starling.kernels.frontier import FrontierPool
from starling.nn.view import Size
from starling.plan.cohesive.batches import CohesiveBatches
from starling.plan.cohesive.kept import KeptPlans, kept_bytes


@dataclass(frozen=True, eq=False)
class TeamTask:
    """What everything is planned from by one worker of a team; `train_rows` are own ones."""

    graph: WorkerGraph
    team: Team
    train_rows: NDArray[Any]
    layers: int
    seed: int
    boundary: Boundary
    calls: Calls
    """For what workers tell one another before the first step."""


@dataclass(frozen=True, eq=False)
class Search:
    """What a step's search found: its layers, outermost first, own targets, and their places among the last layer's outputs."""

    layers: tuple[WorkerLayer, ...]
    targets: NDArray[Any]
    outputs: NDArray[Any]


@dataclass(frozen=True, eq=False)
class FixedBatches:
    """Cohesive batches of positions, and how many bytes of their plans a worker may keep."""

    batches: CohesiveBatches
    keep: int


class TeamPlanner:
    """Makes plans of searches."""

    def __init__(self, task: TeamTask) -> None:
        self.task, self.graph, self.team, self.layers, self.boundary = task, task.graph, task.team, task.layers, task.boundary
        self._pool = FrontierPool(task.graph.rows)

    def search(self, number: int) -> ActiveSet:
        """The search of a step, by its number in the run."""
        return ActiveSet(self.graph, self.team, self._pool, number)

    def planned(self, epoch: int, step: int, number: int, found: Search, batch: int = 0) -> WorkerPlan:
        """The plan that a search gives, with sizes over all workers."""
        counts = [value for layer in found.layers for value in (layer.size.sources, layer.size.destinations, layer.size.edges)]
        lists = self.team.all_lists(make_tag(Channel.PLAN, number, Planning.SIZES), np.array([*counts, len(found.targets)]))
        everywhere = np.sum(lists, axis=0)
        sizes = tuple(Size(*map(int, everywhere[3 * k : 3 * k + 3])) for k in range(len(found.layers)))
        return WorkerPlan(epoch, step, number, found.layers, sizes, found.targets, found.outputs, int(everywhere[-1]), batch)

    def thinned(self, take: Take, epoch: int) -> Take:
        """A way to take in-edges, without those from neighbours that parts do not hear of in an epoch."""
        return lambda rows: self.boundary.thin(take(rows), rows, epoch)


class TeamStrategy(TeamPlanner, ABC):
    """Deals out the steps of an epoch to a worker. Plans are made in order, each once, by every worker."""

    fixed: FixedBatches | None = None
    """Where batches are the same every epoch: their plans are kept, and nothing is asked of other workers for them again."""

    def __init__(self, task: TeamTask) -> None:
        super().__init__(task)
        self.train_rows = np.sort(task.train_rows).astype(np.int64)

    @property
    @abstractmethod
    def steps_per_epoch(self) -> int:
        """How many plans an epoch has, the same for all workers."""

    def plans(self, epoch: int) -> Iterator[WorkerPlan]:
        """The steps of an epoch (from 1) in order."""
        for step in range(self.steps_per_epoch):
            yield self.plan(epoch, step)

    def plan(self, epoch: int, step: int) -> WorkerPlan:
        """One step; every worker asks for the same one."""
        number = (epoch - 1) * self.steps_per_epoch + step
        batch = 0 if self.fixed is None else self.fixed.batches.number(epoch, step)

        def made() -> WorkerPlan:
            return self.planned(epoch, step, number, self._found(epoch, step, self._search(number, batch)), batch)

        if self.fixed is None or self.boundary.probability < 1:
            return made()
        plan = self._kept.plan(self.fixed.batches.grouping(epoch), batch, made)
        return replace(plan, epoch=epoch, step=step, number=number)

    @cached_property
    def _kept(self) -> KeptPlans[WorkerPlan]:
        """A plan's bytes are reckoned from sizes over all workers, so all keep the same ones."""

        def share(plan: WorkerPlan) -> float:
            return sum(kept_bytes(size.edges, size.sources) for size in plan.sizes) / self.team.size

        return KeptPlans(self.fixed.keep if self.fixed else 0, share)

    def _search(self, number: int, batch: int) -> ActiveSet:
        """The search of a step, which is that of a batch where batches are fixed."""
        return self.search(number)

    @abstractmethod
    def _found(self, epoch: int, step: int, active: ActiveSet) -> Search:
        """What a step computes on."""
