"""`mini`: some targets a step and the neighbours their layers need, hop by hop, all or sampled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from starling.core.errors import InputError
from starling.kernels.frontier import FrontierPool
from starling.plan.batch import BatchPlan, Block
from starling.plan.fanouts import Fanout, Fanouts, TypeFanouts, by_relation, names_types, one_a_layer
from starling.plan.hops import AllNeighbours, HopSampler, Moment, NeighboursByType, UniformNeighbours, WeightedNeighbours
from starling.plan.layerwise import LayerWise
from starling.plan.source import NeighbourSource
from starling.plan.strategy import PlanTask, Strategy
from starling.plan.targets import TargetBatches
from starling.plan.timed import PastNeighbours


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
        type_fanouts: TypeFanouts | None = Field(
            None, description="neighbours of each relation taken at each hop, such as cites:10,5;*:5,5; 0 takes none"
        )
        past: bool = Field(False, description="take only edges that are no younger than the target, at every hop")

        @model_validator(mode="before")
        @classmethod
        def _sorted_out(cls, given: Any) -> Any:
            """Fan-outs by relation may be given where plain ones are."""
            if isinstance(given, dict) and names_types(given.get("fanouts")):
                return {**given, "fanouts": None, "type_fanouts": given["fanouts"]}
            return given

        @property
        def samples(self) -> bool:
            """Whether some neighbours are left out."""
            return self.type_fanouts is not None or (self.fanouts is not None and set(self.fanouts) != {"all"})

    settings: Settings

    def __init__(self, settings: Settings, task: PlanTask) -> None:
        self._past = past_neighbours(settings, task) if settings.past else None
        hops = hop_samplers(settings, task.graph, task.layers, task.threads)
        rows = np.ascontiguousarray(task.train_rows, task.graph.incoming.neighbours.dtype)
        batches = TargetBatches(
            task.graph.positions_of(rows), rows, settings.batch_size, seed=task.seed, shuffle=settings.shuffle
        )
        super().__init__(settings, task, hops, batches)

    def _plan(self, epoch: int, step: int) -> BatchPlan:
        if self._past is None:
            return super()._plan(epoch, step)
        return self._past.plan(epoch, step, self._targets.batch(epoch, step))


def past_neighbours(settings: Mini.Settings, task: PlanTask) -> PastNeighbours:
    """Neighbourhoods that look only into the past of their targets."""
    hops = past_hops(settings, task.graph, task.layers)
    return PastNeighbours(task.graph, hops, task.seed, replace=settings.replace, threads=task.threads)


def past_hops(settings: Mini.Settings, graph: NeighbourSource, layers: int) -> Sequence[Sequence[Fanout]]:
    """The fan-outs of each hop into the past, one a relation, or one for all edges."""
    if settings.sampling != "uniform":
        raise InputError(f"Edges of the past are equally likely, got sampling = {settings.sampling}. Set it to uniform.")
    by_type = _type_fanouts(settings, graph, layers)
    return by_type or [(fanout,) for fanout in _plain_fanouts(settings, layers)]


def _type_fanouts(settings: Mini.Settings, graph: NeighbourSource, layers: int) -> Sequence[tuple[Fanout, ...]] | None:
    """For each layer the fan-out of each relation, where they are given so."""
    if settings.type_fanouts is None:
        return None
    if settings.fanouts is not None:
        raise InputError("Expected fan-outs for all edges or by relation, got both. Leave out fanouts or type_fanouts.")
    if settings.sampling != "uniform":
        raise InputError(
            f"Fan-outs by relation take equally likely edges, got sampling = {settings.sampling}. Set it to uniform."
        )
    if graph.edge_type is None:
        raise InputError("Fan-outs by relation need edge types, and the graph has none. Give plain numbers, such as 15,10.")
    return by_relation(settings.type_fanouts, graph.relations, graph.types, layers)


def hop_samplers(
    settings: Mini.Settings, graph: NeighbourSource, layers: int, threads: int | None = None
) -> tuple[HopSampler, ...]:
    """A sampler for each hop, the targets' own first."""
    if by_type := _type_fanouts(settings, graph, layers):
        return tuple(NeighboursByType(graph, fanouts, settings.replace, threads) for fanouts in by_type)

    def sampler(fanout: Fanout) -> HopSampler:
        if fanout == "all":
            return AllNeighbours(graph, threads)
        if settings.sampling == "weighted":
            return WeightedNeighbours(graph, fanout, settings.replace, threads)
        if settings.sampling == "layerwise":
            return LayerWise(graph, fanout, settings.replace, threads)
        return UniformNeighbours(graph, fanout, settings.replace, threads)

    return tuple(map(sampler, _plain_fanouts(settings, layers)))


def _plain_fanouts(settings: Mini.Settings, layers: int) -> tuple[Fanout, ...]:
    fanouts = one_a_layer(settings.fanouts, layers)
    if set(fanouts) == {"all"} and (settings.sampling != "uniform" or settings.replace):
        raise InputError("Weighted or layer-wise sampling, or drawing with replacement, needs --fanouts: how many to take.")
    return fanouts
