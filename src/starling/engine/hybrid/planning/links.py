"""Steps of link prediction by a team: each worker has as many target edges, all compute the rows of their ends together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.comm.tags import Channel, make_tag
from starling.engine.hybrid.layers.plan import WorkerLayer, WorkerPlan
from starling.engine.hybrid.messages.traffic import Traffic
from starling.engine.hybrid.planning.active import ActiveSet
from starling.engine.hybrid.planning.strategies import TeamStrategy
from starling.engine.hybrid.share.row_requests import Addresses, request_rows
from starling.plan.hops import HopSampler, Moment
from starling.plan.links.even import even_pairs
from starling.plan.links.pairs import Pairs, StepPairs, TargetEdges
from starling.plan.links.strategy import DealTask, TargetPicker, deal_of, hops_of
from starling.plan.strategy import Strategy
from starling.plan.whole import Global

_POOL, _ENDS, _COUNTS, _MOVED = range(7000, 7004)
"""Numbers of messages in a step's planning."""


@dataclass(frozen=True, eq=False)
class WorkerLinkPlan:
    """A worker's share of one step: how its seeds are computed, the pairs it scores, and the rows that move in between.

    Ends of `pairs` are numbers of the own seeds and, after them, of others' that `traffic` brings; `total` are the target edges of
    all workers.
    """

    seeds: WorkerPlan
    pairs: Pairs
    traffic: Traffic
    total: int


class TeamLinks:
    """Deals out the steps of an epoch to a worker. Plans are made in order, each once, by every worker."""

    def __init__(
        self, name: str, settings: Strategy.Settings, task: DealTask, edges: int, addresses: Addresses, **common: Any
    ) -> None:
        deal = deal_of(name, settings, edges, task.seed, task.target_share)
        self._task, self._addresses, self._picker = task, addresses, TargetPicker(task, deal)
        self.seeds = SeedHops(hops_of(settings, task, deal), deal.steps, task.seed, name == Global.name, **common)

    @property
    def steps_per_epoch(self) -> int:
        """How many plans an epoch has, the same for all workers."""
        return self.seeds.steps_per_epoch

    def plans(self, epoch: int) -> Iterator[WorkerLinkPlan]:
        """The steps of an epoch (from 1) in order."""
        for step in range(self.steps_per_epoch):
            yield self.plan(epoch, step)

    def plan(self, epoch: int, step: int) -> WorkerLinkPlan:
        """One step; every worker asks for the same one."""
        team, number = self.seeds.team, (epoch - 1) * self.steps_per_epoch + step
        edges = self._picker.edges(epoch, step)
        pool = self._pool(edges, number) if self._task.negatives.kind == "batch" else None
        drawn = StepPairs(edges, self._task.negatives.draw(edges, self._picker.key(epoch, step), pool, epoch))
        counts = np.concatenate(team.all_lists(make_tag(Channel.PLAN, number, _COUNTS), np.array([len(edges)])))
        even = even_pairs(
            drawn, counts, team.rank, lambda lists: team.swap_lists(make_tag(Channel.PLAN, number, _MOVED), lists)
        )
        asked = request_rows(self._addresses, team, make_tag(Channel.PLAN, number, _ENDS), even.ends)
        seeds = self.seeds.plan_for(asked.own, epoch, step)
        return WorkerLinkPlan(seeds, even.placed(asked.place), asked.traffic, int(counts.sum()))

    def _pool(self, edges: TargetEdges, number: int) -> TargetEdges:
        """All workers' target edges in the order of their numbers: 24 bytes each, of one step."""
        mine = np.stack([edges.number, edges.source, edges.destination]).astype(np.int64)
        lists = self.seeds.team.all_lists(make_tag(Channel.PLAN, number, _POOL), mine.reshape(-1))
        everybodys = np.concatenate([one.reshape(3, -1) for one in lists], axis=1)
        edge, source, destination = everybodys[:, np.argsort(everybodys[0], kind="stable")]
        return TargetEdges(edge, source, destination, np.zeros_like(edge))


class SeedHops(TeamStrategy):
    """The layers around seeds that are known only when a step's pairs are."""

    def __init__(self, hops: Sequence[HopSampler], steps: int, seed: int, whole: bool, **common: Any) -> None:
        super().__init__(train_rows=np.empty(0, np.int64), **common)
        self._hops, self._steps, self._seed, self._whole = hops, steps, seed, whole
        self._own = np.empty(0, np.int64)

    @property
    def steps_per_epoch(self) -> int:
        """How many plans an epoch has."""
        return self._steps

    def plan_for(self, own: NDArray[np.int64], epoch: int, step: int) -> WorkerPlan:
        """The plan of own seeds, ascending."""
        self._own = own
        return self.plan(epoch, step)

    def _layers(self, epoch: int, step: int, active: ActiveSet) -> tuple[tuple[WorkerLayer, ...], NDArray[Any], NDArray[Any]]:
        moments = [Moment(self._seed, epoch, step, hop) for hop in range(len(self._hops))]
        if self._whole:  # all rows, and one layer stands for all
            rows = np.arange(self.graph.owned, dtype=np.int64)
            layer, _ = active.expand(rows, self._thinned(partial(self._hops[0].take, moment=moments[0]), epoch))
            return (layer,) * self.layers, self._own, self._own
        own, layers = self._own, list[WorkerLayer]()
        for sampler, moment in zip(self._hops, moments, strict=True):
            layer, own = active.expand(own, self._thinned(partial(sampler.take, moment=moment), epoch))
            layers.append(layer)
        return tuple(reversed(layers)), self._own, np.arange(len(self._own))
