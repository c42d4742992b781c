"""Steps of link prediction by a team: each worker has as many target edges, all compute the rows of their ends together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from starling.comm.tags import Channel, make_tag
from starling.engine.hybrid.layers.plan import WorkerPlan
from starling.engine.hybrid.messages.calls import Planning
from starling.engine.hybrid.messages.traffic import Traffic
from starling.engine.hybrid.planning.active import Take
from starling.engine.hybrid.planning.steps import Search, TeamPlanner, TeamTask
from starling.engine.hybrid.share.row_requests import Addresses, request_rows
from starling.plan.hops import HopSampler, Moment
from starling.plan.links.even import even_pairs
from starling.plan.links.pairs import Pairs, StepPairs, TargetEdges
from starling.plan.links.strategy import DealTask, TargetPicker, deal_of, hops_of
from starling.plan.strategy import Strategy
from starling.plan.whole import Global


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
        self, task: TeamTask, name: str, settings: Strategy.Settings, dealt: DealTask, edges: int, addresses: Addresses
    ) -> None:
        deal = deal_of(name, settings, edges, dealt.seed, dealt.target_share)
        self._dealt, self._addresses, self._picker, self._steps = dealt, addresses, TargetPicker(dealt, deal), deal.steps
        self._seeds = SeedHops(task, hops_of(settings, dealt, deal), whole=name == Global.name)

    @property
    def steps_per_epoch(self) -> int:
        """How many plans an epoch has, the same for all workers."""
        return self._steps

    def plans(self, epoch: int) -> Iterator[WorkerLinkPlan]:
        """The steps of an epoch (from 1) in order."""
        for step in range(self.steps_per_epoch):
            yield self.plan(epoch, step)

    def plan(self, epoch: int, step: int) -> WorkerLinkPlan:
        """One step; every worker asks for the same one."""
        team, number = self._seeds.team, (epoch - 1) * self.steps_per_epoch + step
        edges = self._picker.edges(epoch, step)
        pool = self._pool(edges, number) if self._dealt.negatives.kind == "batch" else None
        drawn = StepPairs(edges, self._dealt.negatives.draw(edges, self._picker.key(epoch, step), pool, epoch))
        counts = np.concatenate(team.all_lists(make_tag(Channel.PLAN, number, Planning.COUNTS), np.array([len(edges)])))
        even = even_pairs(
            drawn, counts, team.rank, lambda lists: team.swap_lists(make_tag(Channel.PLAN, number, Planning.MOVED), lists)
        )
        asked = request_rows(self._addresses, team, make_tag(Channel.PLAN, number, Planning.ENDS), even.ends)
        seeds = self._seeds.plan(asked.own, epoch, step, number)
        return WorkerLinkPlan(seeds, even.placed(asked.place), asked.traffic, int(counts.sum()))

    def _pool(self, edges: TargetEdges, number: int) -> TargetEdges:
        """All workers' target edges in the order of their numbers: 24 bytes each, of one step."""
        mine = np.stack([edges.number, edges.source, edges.destination]).astype(np.int64)
        lists = self._seeds.team.all_lists(make_tag(Channel.PLAN, number, Planning.POOL), mine.reshape(-1))
        everybodys = np.concatenate([one.reshape(3, -1) for one in lists], axis=1)
        edge, source, destination = everybodys[:, np.argsort(everybodys[0], kind="stable")]
        return TargetEdges(edge, source, destination, np.zeros_like(edge))


class SeedHops(TeamPlanner):
    """The layers around seeds that are known only when a step's pairs are; `whole`: around all rows, whatever the seeds."""

    def __init__(self, task: TeamTask, hops: Sequence[HopSampler], *, whole: bool) -> None:
        super().__init__(task)
        self._hops, self._whole = hops, whole

    def plan(self, own: NDArray[np.int64], epoch: int, step: int, number: int) -> WorkerPlan:
        """The plan of own seeds, ascending."""
        active = self.search(number)
        takes = [self._take(hop, Moment(self.task.seed, epoch, step, place)) for place, hop in enumerate(self._hops)]
        if self._whole:  # one layer stands for all
            layer, _ = active.expand(np.arange(self.graph.owned, dtype=np.int64), takes[0])
            return self.planned(epoch, step, number, Search((layer,) * self.layers, own, own))
        layers, _ = active.outwards(own, takes)
        return self.planned(epoch, step, number, Search(layers, own, np.arange(len(own))))

    def _take(self, sampler: HopSampler, moment: Moment) -> Take:
        return self.thinned(partial(sampler.take, moment=moment), moment.epoch)
