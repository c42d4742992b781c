"""`mini`: some targets a step and the neighbours their layers need, hop by hop, all or sampled."""

from __future__ import annotations

from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from starling.core.errors import InputError
from starling.kernels.frontier import FrontierPool
from starling.plan.batch import BatchPlan, Block
from starling.plan.fanouts import Fanout, Fanouts, one_a_layer
from starling.plan.hops import AllNeighbours, HopSampler, Moment, UniformNeighbours, WeightedNeighbours
from starling.plan.layerwise import LayerWise
from starling.plan.source import NeighbourSource
from starling.plan.strategy import PlanTask, Strategy
from starling.plan.targets import TargetBatches


class Batches(Protocol):
    """The targets of every step."""

    @property
    def steps(self) -> int:
        """How many an epoch has."""

    def batch(self, epoch: int, step: int) -> NDArray[Any]:
        """The target rows of one step."""


class TargetSteps(Strategy):
    """Steps that begin with their targets; each hop adds the neighbours of everything before it."""

    def __init__(self, settings: Strategy.Settings, task: PlanTask, hops: tuple[HopSampler, ...], targets: Batches) -> None:
        super().__init__(settings, task)
        self._hops, self._targets = hops, targets
        self._frontiers = FrontierPool(task.graph.rows)

    @property
    def steps_per_epoch(self) -> int:
        """Batches until every training node was a target once."""
        return self._targets.steps

    def _plan(self, epoch: int, step: int) -> BatchPlan:
        targets = self._targets.batch(epoch, step)
        blocks: list[Block] = []
        with self._frontiers.frontier(targets) as frontier:
            for hop, sampler in enumerate(self._hops):
                self.task.graph.check_lists(frontier.rows)
                taken = sampler.take(frontier.rows, Moment(self.task.seed, epoch, step, hop))
                neighbours = frontier.extend(taken.neighbours)
                blocks.append(Block(taken.offsets, neighbours, taken.entry, len(frontier), taken.row_scale, taken.edge_scale))
            inputs = frontier.rows.copy()  # its buffer has room for every neighbour
        return BatchPlan(epoch, step, inputs, tuple(reversed(blocks)), targets, np.arange(len(targets), dtype=np.int32))


class Mini(TargetSteps):
    """Targets in keyed random order; each hop adds the neighbours of everything before it."""

    name = "mini"
    summary = "batches of targets with their neighbourhoods, whole or sampled"

    class Settings(Strategy.Settings):
        """What a mini-batch is made of."""

        batch_size: int | None = Field(None, ge=1, description="targets a step (1024, or all where there are fewer)")
        fanouts: Fanouts | None = Field(
            None,
            description="neighbours taken at each hop, the targets' own first, such as 15,10,5; 'all' for all of them. "
            "With layerwise sampling: nodes taken at each layer, all rows together",
        )
        sampling: Literal["uniform", "weighted", "layerwise"] = Field(
            "uniform", description="which neighbours: equally likely, by edge weight, or one sample for a whole layer (LADIES)"
        )
        replace: bool = Field(False, description="draw with replacement")
        shuffle: bool = Field(True, description="a new order of the targets in every epoch")

    settings: Settings

    def __init__(self, settings: Settings, task: PlanTask) -> None:
        hops = hop_samplers(settings, task.graph, task.layers, task.threads)
        rows = np.ascontiguousarray(task.train_rows, task.graph.incoming.neighbours.dtype)
        batches = TargetBatches(
            task.graph.positions_of(rows), rows, settings.batch_size, seed=task.seed, shuffle=settings.shuffle
        )
        super().__init__(settings, task, hops, batches)


def hop_samplers(settings: Mini.Settings, graph: NeighbourSource, layers: int, threads: int | None) -> tuple[HopSampler, ...]:
    """A sampler for each hop, the targets' own first."""
    fanouts = one_a_layer(settings.fanouts, layers)
    if set(fanouts) == {"all"} and (settings.sampling != "uniform" or settings.replace):
        raise InputError("Weighted or layer-wise sampling, or drawing with replacement, needs --fanouts: how many to take.")

    def sampler(fanout: Fanout) -> HopSampler:
        if fanout == "all":
            return AllNeighbours(graph, threads)
        if settings.sampling == "weighted":
            return WeightedNeighbours(graph, fanout, settings.replace, threads)
        if settings.sampling == "layerwise":
            return LayerWise(graph, fanout, settings.replace, threads)
        return UniformNeighbours(graph, fanout, settings.replace, threads)

    return tuple(map(sampler, fanouts))
