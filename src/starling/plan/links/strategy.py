"""Steps of link prediction on one graph, or a part of one: the ends of pairs are seeds, target edges are no messages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.errors import InputError
from starling.core.keyed import stream_key
from starling.kernels.csr import Csr
from starling.kernels.frontier import FrontierPool
from starling.plan.batch import BatchPlan, Block
from starling.plan.hops import AllNeighbours, HopSampler, Moment
from starling.plan.links.deal import Deal, DealtEdges, destinations_of
from starling.plan.links.exclude import WithoutTargets
from starling.plan.links.negatives import NegativeSampler
from starling.plan.links.pairs import LinkPlan, StepPairs, TargetEdges
from starling.plan.mini import Mini, hop_samplers
from starling.plan.source import NeighbourSource
from starling.plan.strategy import Strategy
from starling.plan.whole import Global

DEFAULT_BATCH = 1024


@dataclass(frozen=True, eq=False)
class DealTask:
    """What is dealt out: the training graph, the relation of each of its edges if any, negatives, layers and seed."""

    graph: NeighbourSource
    negatives: NegativeSampler
    layers: int
    relation: NDArray[np.int64] | None = None
    seed: int = 0
    target_share: float = 0.2
    """`global`: share of the training edges that are an epoch's targets, and so no messages."""
    threads: int | None = None
    owned: int | None = None
    """Rows whose in-edges are targets, the first so many; all by default."""

    @property
    def targets(self) -> Csr:
        """The lists whose entries are targets."""
        lists = self.graph.incoming
        if self.owned is None or self.owned == lists.rows:
            return lists
        end = int(lists.offsets[self.owned])
        return Csr(lists.offsets[: self.owned + 1], lists.neighbours[:end], lists.edge[:end])


def check_dealt(name: str, settings: Strategy.Settings) -> None:
    """Refuse strategies that pick nodes, not edges, and what they cannot do with edges."""
    if name == Global.name:
        return
    if not isinstance(settings, Mini.Settings):
        raise InputError(
            f"Link prediction deals out edges, so its strategies are mini and global, got {name}. Pass --strategy mini."
        )
    if not settings.shuffle:
        raise InputError("Edges are dealt out anew in every epoch, got shuffle = false. Leave it out.")
    if settings.past:
        raise InputError(
            "Link prediction looks at all training edges, got past. Leave it out, or split by time (link.split=time)."
        )
    if settings.sampling == "layerwise":
        raise InputError("A layer-wise sample cannot leave out the step's own edges. Use sampling uniform or weighted.")


def deal_of(name: str, settings: Strategy.Settings, edges: int, seed: int, target_share: float) -> Deal:
    """How `edges` training edges are dealt out by a strategy."""
    check_dealt(name, settings)
    if not isinstance(settings, Mini.Settings):
        return Deal(seed, 1, target_share)
    size = min(settings.batch_size or DEFAULT_BATCH, max(edges, 1))
    return Deal(seed, max(1, round(edges / size)))


def hops_of(settings: Strategy.Settings, task: DealTask, deal: Deal) -> tuple[HopSampler, ...]:
    """A sampler for each hop, the seeds' own first, that leaves out the step's targets."""
    if isinstance(settings, Mini.Settings):
        samplers = hop_samplers(settings, task.graph, task.layers, task.threads)
    else:
        samplers = (AllNeighbours(task.graph, task.threads),) * task.layers
    return tuple(WithoutTargets(sampler, task.graph, deal) for sampler in samplers)


@dataclass(eq=False)
class TargetPicker:
    """The target edges of each step among a worker's own, with their negatives."""

    task: DealTask
    deal: Deal
    _dealt: DealtEdges = field(init=False, repr=False)

    def __post_init__(self) -> None:
        graph = self.task.graph
        self._dealt = DealtEdges(self.deal, self.task.targets, graph.positions_of(np.arange(graph.rows)), self.task.threads)

    def edges(self, epoch: int, step: int) -> TargetEdges:
        """The own target edges of a step."""
        graph, lists = self.task.graph, self.task.graph.incoming
        entries = self._dealt.entries(epoch, step)
        row = destinations_of(lists, entries)
        relation = None if self.task.relation is None else self.task.relation[entries]
        source = graph.positions_of(lists.neighbours[entries].astype(np.int64))
        return TargetEdges(lists.edge[entries], source, graph.positions_of(row), row, relation)

    def sizes(self, epoch: int) -> NDArray[np.int64]:
        """How many of the own edges are targets in each step of an epoch."""
        return self._dealt.sizes(epoch)

    def key(self, epoch: int, step: int) -> np.uint64:
        """The key of a step's negatives."""
        return stream_key(self.task.seed, "links/negatives", epoch, step)


class LinkStrategy:
    """Deals out the steps of an epoch. A plan is a pure function of (seed, epoch, step)."""

    def __init__(self, name: str, settings: Strategy.Settings, task: DealTask) -> None:
        self.task = task
        self.deal = deal_of(name, settings, len(task.targets.neighbours), task.seed, task.target_share)
        self._whole = name == Global.name
        self._picker, self._hops = TargetPicker(task, self.deal), hops_of(settings, task, self.deal)
        self._pool = FrontierPool(task.graph.rows)
        self._all = np.arange(task.graph.rows, dtype=task.graph.incoming.neighbours.dtype)

    @property
    def steps_per_epoch(self) -> int:
        """How many plans an epoch has."""
        return self.deal.steps

    def plans(self, epoch: int) -> Iterator[LinkPlan]:
        """The steps of an epoch in order."""
        for step in range(self.steps_per_epoch):
            yield self.plan(epoch, step)

    def plan(self, epoch: int, step: int) -> LinkPlan:
        """One step."""
        edges = self._picker.edges(epoch, step)
        if self.task.graph.position is not None:  # in the order that one process has them in
            edges = edges[np.lexsort((edges.number, edges.destination))]
        pool = edges[np.argsort(edges.number, kind="stable")]
        drawn = StepPairs(edges, self.task.negatives.draw(edges, self._picker.key(epoch, step), pool, epoch))
        ends, place = np.unique(drawn.ends, return_inverse=True)
        seeds = self.task.graph.rows_at(ends)
        batch = self._whole_batch(epoch, step, seeds) if self._whole else self._batch(epoch, step, seeds)
        return LinkPlan(batch, drawn.placed(place))

    def _batch(self, epoch: int, step: int, seeds: NDArray[Any]) -> BatchPlan:
        """The seeds and the hops around them."""
        graph, blocks = self.task.graph, list[Block]()
        seeds = seeds.astype(graph.incoming.neighbours.dtype)
        with self._pool.frontier(seeds) as frontier:
            for hop, sampler in enumerate(self._hops):
                taken = sampler.take(frontier.rows, Moment(self.task.seed, epoch, step, hop))
                neighbours = frontier.extend(taken.neighbours)
                blocks.append(Block(taken.offsets, neighbours, taken.entry, len(frontier), taken.row_scale, taken.edge_scale))
            inputs = frontier.rows.copy()
        return BatchPlan(epoch, step, inputs, tuple(reversed(blocks)), seeds, np.arange(len(seeds), dtype=np.int32))

    def _whole_batch(self, epoch: int, step: int, seeds: NDArray[Any]) -> BatchPlan:
        """All rows; one block stands for every layer."""
        taken = self._hops[0].take(self._all, Moment(self.task.seed, epoch, step, 0))
        neighbours = taken.neighbours.astype(np.int32, copy=False)
        block = Block(taken.offsets, neighbours, taken.entry, len(self._all), taken.row_scale, taken.edge_scale)
        return BatchPlan(epoch, step, self._all, (block,) * self.task.layers, seeds, seeds)
